"""Set GPUs up for Keras, and say in plain words why a training run is slow.

Importing this package loads neither Keras nor TensorFlow: every public name is resolved on
first use, so that `configure_gpus` can still make the settings that must come before they start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keras_gpukit import errors as errors
from keras_gpukit.version import __version__ as __version__

if TYPE_CHECKING:
    from keras_gpukit.callbacks.device_placement import DevicePlacement as DevicePlacement
    from keras_gpukit.callbacks.gpu_memory import GPUMemory as GPUMemory
    from keras_gpukit.callbacks.input_stall import InputStall as InputStall
    from keras_gpukit.callbacks.monitor import Monitor as Monitor
    from keras_gpukit.callbacks.profiler import Profiler as Profiler
    from keras_gpukit.callbacks.scaled_learning_rate import ScaledLearningRate as ScaledLearningRate
    from keras_gpukit.callbacks.throughput import Throughput as Throughput
    from keras_gpukit.callbacks.utilization import Utilization as Utilization
    from keras_gpukit.configure.api import configure_gpus as configure_gpus
    from keras_gpukit.configure.setup import GPUSetup as GPUSetup
    from keras_gpukit.distributed.split_model import split_model as split_model
    from keras_gpukit.memory.accumulation import accumulate_gradients as accumulate_gradients
    from keras_gpukit.memory.rematerialization import rematerialize as rematerialize
    from keras_gpukit.saved_runs.log_folder import load_report as load_report
    from keras_gpukit.tuning.diagnose import diagnose as diagnose
    from keras_gpukit.tuning.find_batch_size import find_batch_size as find_batch_size
    from keras_gpukit.tuning.predict_memory import predict_memory as predict_memory
    from keras_gpukit.tuning.tune import tune as tune
    from keras_gpukit.tuning.tune_input import TunedInput as TunedInput
    from keras_gpukit.tuning.tune_input import tune_input as tune_input

_HOMES = {
    "DevicePlacement": "keras_gpukit.callbacks.device_placement",
    "GPUMemory": "keras_gpukit.callbacks.gpu_memory",
    "GPUSetup": "keras_gpukit.configure.setup",
    "InputStall": "keras_gpukit.callbacks.input_stall",
    "Monitor": "keras_gpukit.callbacks.monitor",
    "Profiler": "keras_gpukit.callbacks.profiler",
    "ScaledLearningRate": "keras_gpukit.callbacks.scaled_learning_rate",
    "Throughput": "keras_gpukit.callbacks.throughput",
    "TunedInput": "keras_gpukit.tuning.tune_input",
    "Utilization": "keras_gpukit.callbacks.utilization",
    "accumulate_gradients": "keras_gpukit.memory.accumulation",
    "configure_gpus": "keras_gpukit.configure.api",
    "diagnose": "keras_gpukit.tuning.diagnose",
    "find_batch_size": "keras_gpukit.tuning.find_batch_size",
    "load_report": "keras_gpukit.saved_runs.log_folder",
    "rematerialize": "keras_gpukit.memory.rematerialization",
    "split_model": "keras_gpukit.distributed.split_model",
    "predict_memory": "keras_gpukit.tuning.predict_memory",
    "tune": "keras_gpukit.tuning.tune",
    "tune_input": "keras_gpukit.tuning.tune_input",
}
"""Module of each public name. Repeated under `TYPE_CHECKING`, since type checkers run no code."""

__all__ = sorted([*_HOMES, "__version__", "errors"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
