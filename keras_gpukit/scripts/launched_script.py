"""Runs the script of a launched process as Python would, with Keras repaired for several workers.

Where Slurm or Kubernetes started the process, it gets `TF_CONFIG`, by which scripts that make
`tf.distribute.MultiWorkerMirroredStrategy()` themselves find the other workers.

Command line: python -m keras_gpukit.scripts.launched_script (SCRIPT | -m MODULE) [ARGUMENT ...]
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence

from keras_gpukit.distributed.clusters import set_tf_config
from keras_gpukit.errors import ClusterError
from keras_gpukit.scripts.import_hook import OnImports
from keras_gpukit.scripts.main_module import CannotOpenError, keep_interrupted, run_main


def run(words: Sequence[str]) -> int:
    """Runs a script or a module; its exceptions pass through."""
    try:
        set_tf_config(os.environ)
    except ClusterError as error:
        print(f"keras-gpukit launch: {error}", file=sys.stderr)
        return 2
    atexit.register(keep_interrupted)
    OnImports().install()
    is_module = words[0] == "-m"
    script, module = (None, words[1]) if is_module else (words[0], None)
    try:
        run_main(script, module, words[2 if is_module else 1 :])
    except CannotOpenError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
