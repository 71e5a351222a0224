"""Fits in several ways of running, whose input stall is known in two other ways.

Those of one way of running share a process, and no others, since devices are settled when
TensorFlow starts:

    python benchmarks/stall_combinations.py serial/graph/spe1/one/0 generator/graph/spe1/one/50
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from planted.known_times import PIPELINES
from planted.ways import Way


def main() -> None:
    _, mode, execution, devices, _ = sys.argv[1].split("/")
    way = Way(mode, int(execution.removeprefix("spe")), devices)
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    for name in sys.argv[1:]:
        pipeline, *_, percent = name.split("/")
        row = way.measure(PIPELINES[pipeline], int(percent))
        print(json.dumps({"name": name, **row, **versions}), flush=True)
    # Some pipelines would keep the interpreter from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
