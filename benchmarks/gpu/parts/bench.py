"""What `keras-gpukit bench` measures here: its ceilings and rows on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Cases, Part, Slice
from benchmarks.gpu.results import ROOT

SECONDS = 150


def cases(small: bool, folder: Path) -> Cases:
    """Runs the command once."""
    yield "machine", partial(run, 20 if small else SECONDS, folder)


def run(seconds: int, folder: Path) -> dict[str, Any]:
    """Returns the command's results; its files of ceilings are kept, too."""
    command = [sys.executable, "-m", "keras_gpukit", "bench", "--json", "--seconds", str(seconds)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)  # the kit turns it off, which slows CPUs
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    return json.loads(ended.stdout) if ended.stdout else {"error": ended.stderr[-1000:]}


PART = Part(
    "bench",
    "Which precision and which ceilings does `keras-gpukit bench` find?",
    {"all": Slice(cases, SECONDS + 40)},
    (),
)
