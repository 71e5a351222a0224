"""Set GPUs up for Keras, and say in plain words why a training run is slow.

Importing this package loads neither Keras nor TensorFlow: every public name is resolved on
first use, so that `configure_gpus` can still set what must be set before they start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keras_gpukit import errors
from keras_gpukit.version import __version__

if TYPE_CHECKING:
    from keras_gpukit.callbacks.device_placement import DevicePlacement
    from keras_gpukit.callbacks.gpu_memory import GPUMemory
    from keras_gpukit.callbacks.input_stall import InputStall
    from keras_gpukit.callbacks.monitor import Monitor
    from keras_gpukit.callbacks.profiler import Profiler
    from keras_gpukit.callbacks.throughput import Throughput
    from keras_gpukit.callbacks.utilization import Utilization
    from keras_gpukit.configure.api import configure_gpus
    from keras_gpukit.configure.setup import GPUSetup
    from keras_gpukit.experiments.diagnose import diagnose
    from keras_gpukit.experiments.tune_input import TunedInput, tune_input

__all__ = [
    "DevicePlacement",
    "GPUMemory",
    "GPUSetup",
    "InputStall",
    "Monitor",
    "Profiler",
    "Throughput",
    "TunedInput",
    "Utilization",
    "__version__",
    "configure_gpus",
    "diagnose",
    "errors",
    "tune_input",
]

_HOMES = {
    "DevicePlacement": "keras_gpukit.callbacks.device_placement",
    "GPUMemory": "keras_gpukit.callbacks.gpu_memory",
    "GPUSetup": "keras_gpukit.configure.setup",
    "InputStall": "keras_gpukit.callbacks.input_stall",
    "Monitor": "keras_gpukit.callbacks.monitor",
    "Profiler": "keras_gpukit.callbacks.profiler",
    "Throughput": "keras_gpukit.callbacks.throughput",
    "TunedInput": "keras_gpukit.experiments.tune_input",
    "Utilization": "keras_gpukit.callbacks.utilization",
    "configure_gpus": "keras_gpukit.configure.api",
    "diagnose": "keras_gpukit.experiments.diagnose",
    "tune_input": "keras_gpukit.experiments.tune_input",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
