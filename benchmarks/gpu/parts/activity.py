"""The units of a GPU that its driver reports busy (GPM), while it does work of a known kind."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.gpu.nvml import read_gpus
from benchmarks.gpu.part import Outcome, Part

WORK_S = 2.0
"""Of each kind."""
BUSY, QUIET = 50.0, 5.0
"""Percent: our choices of what a unit that is used, or is not, shows."""
PART = Part("activity", "Are the units of a GPU that do the work those reported busy?")


@PART.slice("all", 40, case="kinds")
def read(small: bool) -> dict[str, Any]:
    """Reads the activity of the first GPU while it does each kind of work."""
    import pynvml
    import tensorflow as tf

    from keras_gpukit.sensors.nvml import GPUActivity

    size, floats = (256, 2**16) if small else (8192, 2**28)
    factor = tf.random.normal((size, size), stddev=size**-0.5)
    half, values = tf.cast(factor, tf.bfloat16), tf.ones(floats)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    works: dict[str, Any] = {
        "bfloat16": lambda: tf.matmul(half, half)[0, 0].numpy(),  # waits for the device
        "float32": lambda: tf.matmul(factor, factor)[0, 0].numpy(),
        "copies": lambda: (values + 1.0)[0].numpy(),
        "nothing": lambda: time.sleep(0.01),
    }
    reader = None
    if read_gpus():
        pynvml.nvmlInit()
        reader = GPUActivity(pynvml, pynvml.nvmlDeviceGetHandleByIndex(0))
    row = {}
    for name, work in works.items():
        work()
        _, until_s = reader and reader.read(), time.monotonic() + (0.1 if small else WORK_S)
        while time.monotonic() < until_s:
            work()
        row[name] = reader and reader.read()._asdict()
    return row


def judge(row: dict[str, Any], unit: str, busy: tuple[str, ...], quiet: tuple[str, ...]) -> Outcome:
    """Judges a unit by the kinds of work that use it, and by those that do not."""
    found = {name: row[name][f"{unit}_percent"] for name in (*busy, *quiet)}
    if None in found.values():
        return Outcome(None, "this GPU or its driver does not report it")
    low, high = min(found[name] for name in busy), max(found[name] for name in quiet)
    shown = ", ".join(f"{name} {percent:.0f} %" for name, percent in found.items())
    return Outcome(low >= BUSY and high <= QUIET, f"Busy with {shown}.")


@PART.claim("SMs are busy half of the time or more with products, and idle without work", "kinds")
def sms(row: dict[str, Any]) -> Outcome:
    return judge(row, "sm_active", ("bfloat16", "float32"), ("nothing",))


@PART.claim(
    "Tensor Cores are busy half of the time or more with products in bfloat16, and at most 5 % "
    "with those in float32 without TensorFloat-32, and with copies",
    "kinds",
)
def tensor_cores(row: dict[str, Any]) -> Outcome:
    return judge(row, "tensor_active", ("bfloat16",), ("float32", "copies", "nothing"))


@PART.claim("copies use half of the memory's bandwidth or more", "kinds")
def bandwidth(row: dict[str, Any]) -> Outcome:
    return judge(row, "memory_bandwidth", ("copies",), ("nothing",))
