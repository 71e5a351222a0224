"""Applies a plan by TensorFlow's public API, and checks the result."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from keras_gpukit.configure.actions import holds
from keras_gpukit.configure.plan import Plan
from keras_gpukit.distributed import strategies
from keras_gpukit.distributed.strategies import ACTIONS, adopt
from keras_gpukit.records.installation import Action, Machine


def apply(actions: tuple[Action, ...], machine: Machine) -> Any:
    """Applies the actions that do not hold already, in the given order."""
    strategy = None
    for action in actions:
        if action.kind == "given_strategy":
            strategy = adopt(action.value)
        elif action.kind in ACTIONS:
            strategy = strategies.make(ACTIONS[action.kind], action.value)
        elif holds(action, machine):
            continue
        elif action.kind in _DEVICE_SETTERS:
            _DEVICE_SETTERS[action.kind](action)
        else:
            _setter(action.kind)(action.value)
    return strategy


def differences(planned: Plan, now: Machine) -> tuple[str, ...]:
    """Returns a sentence for each setting that turned out other than planned."""
    state = now.state
    differing = [
        f"TensorFlow accepted {action}, but it is not in effect."
        for action in planned.actions
        if holds(action, now) is False
    ]
    forced = now.environment.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    if state.growth_dropped and not forced:
        differing.append("TensorFlow accepted memory growth, but it is not in effect.")
    started = state.logical_gpus
    if started is not None and started < planned.logical_gpus:
        # TensorFlow lists GPUs that it then ignores: too old, or with too few multiprocessors.
        differing.append(
            f"TensorFlow started {started} of the {planned.logical_gpus} logical GPUs planned; "
            "what is placed on the others runs on the CPU. Its log says why: look for `Ignoring "
            "visible gpu device`."
        )
    return tuple(differing)


def _set_environment(action: Action) -> None:
    os.environ[str(action.name)] = action.value


def _set_visible_gpus(action: Action) -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([gpus[index] for index in action.value], "GPU")


def _set_memory_growth(action: Action) -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for index in action.gpus:
        tf.config.experimental.set_memory_growth(gpus[index], action.value)


def _set_limits(action: Action) -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for index in action.gpus:
        parts = [tf.config.LogicalDeviceConfiguration(memory_limit=mib) for mib in action.value]
        tf.config.set_logical_device_configuration(gpus[index], parts)


def _setter(kind: str) -> Callable[[Any], Any]:
    """Returns the function that applies a kind of action with a single value."""
    import keras
    import tensorflow as tf

    setters: dict[str, Callable[[Any], Any]] = {
        "log_device_placement": tf.debugging.set_log_device_placement,
        "seed": keras.utils.set_random_seed,
        "deterministic": lambda value: tf.config.experimental.enable_op_determinism(),
        "soft_placement": tf.config.set_soft_device_placement,
        "tf32": tf.config.experimental.enable_tensor_float_32_execution,
        "jit": lambda value: tf.config.optimizer.set_jit("autoclustering" if value else False),
        "dtype_policy": keras.config.set_dtype_policy,
    }
    return setters[kind]


_DEVICE_SETTERS: dict[str, Callable[[Action], None]] = {
    "environment": _set_environment,
    "visible_gpus": _set_visible_gpus,
    "memory_growth": _set_memory_growth,
    "memory_limit_mib": _set_limits,
}
