"""Stand-ins for what `keras-gpukit bench` measures in its processes: quick, hanging or crashing."""

import os
import time
from dataclasses import replace

from keras_gpukit.errors import NoGPUError
from keras_gpukit.records import Ceilings, Rate

SLOW = {"TF32": 1.0, "float32": 2.0, "bfloat16": 0.5, "float16": 0.5}


def open_device(kind):
    return f"A fast {kind}", {"tensorflow": "2.21.0"}


def open_cpu_only(kind):
    if kind == "GPU":
        raise NoGPUError("TensorFlow lists no GPU")
    return open_device(kind)


def measure_ceilings(kind, precisions):
    return Ceilings(dict.fromkeys(precisions, 1.5), 200.0, 12.0 if kind == "GPU" else None)


def measure_row(row):
    rate = (1000 if row.device == "GPU" else 10) / SLOW[row.precision]
    return replace(row, rate=Rate(rate, 0.95 * rate, 1.05 * rate, "examples/s"))


def crash_on_jit(row):
    if row.jit:
        os._exit(3)
    return measure_row(row)


def hang_on_a_transformer(row):
    if (row.model, row.precision, row.jit) == ("transformer", "float32", False):
        time.sleep(600)
    return measure_row(row)
