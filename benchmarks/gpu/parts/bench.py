"""What `keras-gpukit bench` measures here: its ceilings and rows on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.gpu.part import Part
from benchmarks.gpu.results import ROOT

SECONDS = 60
PART = Part("bench", "Which precision and which ceilings does `keras-gpukit bench` find?")


@PART.slice("all", SECONDS + 40, case="machine")
def run(small: bool) -> dict[str, Any]:
    """Returns what the command prints as JSON."""
    seconds = str(20 if small else SECONDS)
    command = [sys.executable, "-m", "keras_gpukit", "bench", "--json", "--seconds", seconds]
    with tempfile.TemporaryDirectory() as cache:  # it must not know the ceilings yet
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        environment.pop("TF_ENABLE_ONEDNN_OPTS", None)  # the kit turns it off, which slows CPUs
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    return json.loads(ended.stdout) if ended.stdout else {"error": ended.stderr[-1000:]}
