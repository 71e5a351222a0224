"""Collects the actions of a plan, checks which hold already, and applies the others.

They are applied by TensorFlow's public API.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.distributed import strategies
from keras_gpukit.records.installation import Action, Machine


@dataclass
class Draft:
    """A plan that is being made: its actions, warnings and notes so far."""

    machine: Machine
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def do(self, kind: str, value: Any, reason: str, **details: Any) -> None:
        """Adds an action to the plan."""
        self.actions.append(Action(kind, value, reason, **details))

    def set_variable(self, name: str, value: str, reason: str) -> None:
        """Adds an action that sets an environment variable; warns if this overrides a value."""
        before = self.machine.environment.get(name)
        if before not in (None, value):
            self.warnings.append(f"{name}={before} in the environment is overridden by {reason}.")
        self.do("environment", value, reason, name=name, must_come_first=True)


def holds(action: Action, machine: Machine) -> bool | None:
    """Whether an action's setting already holds; None if that cannot be read."""
    state = machine.state
    if action.kind == "environment":
        return bool(machine.environment.get(str(action.name)) == action.value)
    if action.kind == "memory_growth":
        return all(bool(state.growth[gpu]) is action.value for gpu in action.gpus)
    if action.kind == "memory_limit_mib":
        return all(state.memory_limit_mib[gpu] == action.value for gpu in action.gpus)
    if action.kind == "seed" or action.kind.endswith("strategy"):
        return None
    return bool(getattr(state, action.kind) == action.value)


def apply(actions: tuple[Action, ...], machine: Machine) -> Any:
    """Applies the actions that do not hold already, in the given order."""
    strategy = None
    for action in actions:
        if action.kind == "given_strategy":
            strategy = strategies.adopt(action.value)
        elif action.kind in strategies.ACTIONS:
            strategy = strategies.make(strategies.ACTIONS[action.kind], action.value)
        elif not holds(action, machine):
            _set(action)
    return strategy


def _set(action: Action) -> None:
    import keras
    import tensorflow as tf

    config, value, gpus = tf.config, action.value, tf.config.list_physical_devices("GPU")
    match action.kind:
        case "environment":
            os.environ[str(action.name)] = value
        case "visible_gpus":
            config.set_visible_devices([gpus[index] for index in value], "GPU")
        case "memory_growth":
            for index in action.gpus:
                config.experimental.set_memory_growth(gpus[index], value)
        case "memory_limit_mib":
            for index in action.gpus:
                parts = [config.LogicalDeviceConfiguration(memory_limit=mib) for mib in value]
                config.set_logical_device_configuration(gpus[index], parts)
        case "log_device_placement":
            tf.debugging.set_log_device_placement(value)
        case "seed":
            keras.utils.set_random_seed(value)
        case "deterministic":
            config.experimental.enable_op_determinism()
        case "soft_placement":
            config.set_soft_device_placement(value)
        case "tf32":
            config.experimental.enable_tensor_float_32_execution(value)
        case "jit":
            config.optimizer.set_jit("autoclustering" if value else False)
        case "dtype_policy":
            keras.config.set_dtype_policy(value)
