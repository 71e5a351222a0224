"""Reads the versions, devices and execution settings of the current run."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.layer_names import layers_in
from keras_gpukit.memory.model_state import size_of
from keras_gpukit.records.environment import Environment
from keras_gpukit.sensors.devices import visible_gpus
from keras_gpukit.sensors.interpreter import usable_cores
from keras_gpukit.version import __version__
from keras_gpukit.watching.slow_settings import slow_settings


def process_environment(versions: Mapping[str, str] = MappingProxyType({})) -> Environment:
    """Reads the environment of this process, without that of a model.

    Args:
        versions: Versions of other packages, by name.
    """
    import tensorflow as tf

    return Environment(
        versions={
            "python": platform.python_version(),
            **versions,
            "tensorflow": tf.__version__,
            "keras_gpukit": __version__,
        },
        gpus=visible_gpus(),
        cuda_build=tf.sysconfig.get_build_info()["is_cuda_build"],
        cpu_count=usable_cores(),
    )


def read_environment(model: Any) -> Environment:
    """Reads the environment in which a model runs.

    Args:
        model: The model that is run.
    """
    import keras
    import tensorflow as tf

    strategy = getattr(model, "distribute_strategy", None)
    return replace(
        process_environment({"keras": keras.__version__}),
        precision=model.dtype_policy.name,
        jit_compile=bool(getattr(model, "jit_compile", False)),
        run_eagerly=bool(getattr(model, "run_eagerly", False)),
        steps_per_execution=getattr(model, "steps_per_execution", 1),
        strategy=_strategy_name(strategy),
        replicas=None if strategy is None else strategy.num_replicas_in_sync,
        worker=this_worker(model),
        tf32=tf.config.experimental.tensor_float_32_execution_enabled(),
        trainable_bytes=_trainable_bytes(model),
        settings=slow_settings(),
        preprocessing=_preprocessing(model),
    )


def environment_markdown(environment: Environment) -> str:
    """Returns the environment as Markdown text for TensorBoard."""
    lines = [f"- {name} {version}" for name, version in environment.versions.items()]
    lines += [f"- GPU {gpu.index}: {gpu.name or 'unknown'}" for gpu in environment.gpus]
    lines += [] if environment.gpus else ["- no GPU"]
    lines += [
        f"- precision {environment.precision}",
        f"- jit_compile {environment.jit_compile}",
        f"- steps_per_execution {environment.steps_per_execution}",
        f"- strategy {environment.strategy}, replicas {environment.replicas}",
    ]
    return "\n".join(lines)


def _preprocessing(model: Any) -> tuple[str, ...]:
    """Returns the names of the model's preprocessing layers that compute more than a product."""
    import keras

    (prepares,) = keras.layers.Rescaling.__bases__  # private; such layers have it in common
    cheap = (keras.layers.Rescaling, keras.layers.Normalization)
    return tuple(
        layer.name
        for layer in layers_in(model)
        if isinstance(layer, prepares) and not isinstance(layer, cheap)
    )


def _trainable_bytes(model: Any) -> int | None:
    """Returns the size of the trainable weights; None before the model is built."""
    return sum(map(size_of, model.trainable_variables)) or None


def _strategy_name(strategy: Any) -> str | None:
    """Returns the class name of the strategy; None for TensorFlow's default strategy."""
    name = type(strategy).__name__
    return None if strategy is None or name.startswith("_") else name
