"""Measures a part in small, as the runner's process does. Arguments: its result so far, a folder.

What a part does in processes of its own is done in forks, until TensorFlow's runtime has begun here
and unless a variable is set: it might be read when TensorFlow is imported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu import one_part, own_process
from benchmarks.gpu.part import PACKAGE
from keras_gpukit.sensors.tf_private import is_initialized

call_in_own_process = own_process.call_in_own_process


def call_in_fork(function, *arguments, environment=None, **how):
    if environment or is_initialized():
        return call_in_own_process(function, *arguments, environment=environment, **how)
    with TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        if (child := os.fork()) == 0:
            try:
                # Through JSON, as between processes.
                result.write_text(json.dumps(function(*json.loads(json.dumps(arguments)))))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return json.loads(result.read_text())


own_process.call_in_own_process = call_in_fork
one_part.measure_part(json.loads(sys.argv[1]), Path(sys.argv[2]), PACKAGE)
os._exit(0)  # as the runner's process ends
