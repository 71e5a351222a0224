"""What a plan consists of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from keras_gpukit.configure.diagnosis import Cause
from keras_gpukit.configure.machine import Machine
from keras_gpukit.records.codec import to_dict


@dataclass(frozen=True)
class Action:
    """One thing to be set.

    Attributes:
        kind: What is set, such as "memory_growth"; `apply.py` has a function for each.
        value: To what.
        reason: Why, in plain words.
        gpus: Indices of the GPUs concerned, where it is not all.
        name: The environment variable, where it is one.
        must_come_first: Whether TensorFlow refuses or ignores it once its devices are started.
    """

    kind: str
    value: Any
    reason: str
    gpus: tuple[int, ...] = ()
    name: str | None = None
    must_come_first: bool = False

    def __str__(self) -> str:
        target = self.name or self.kind
        where = f" of GPU {', '.join(map(str, self.gpus))}" if self.gpus else ""
        return f"{target}{where} = {self.shown}"

    @property
    def shown(self) -> Any:
        """The value, a strategy that was given by its class' name."""
        return type(self.value).__name__ if self.kind == "given_strategy" else self.value

    def to_dict(self) -> dict[str, Any]:
        """Returns the action as plain data."""
        return to_dict(replace(self, value=self.shown))

    def holds(self, machine: Machine) -> bool | None:
        """Whether it is so already; None for what leaves no trace to be read."""
        state = machine.state
        if self.kind == "environment":
            return bool(machine.environment.get(str(self.name)) == self.value)
        if self.kind == "memory_growth":
            return all(bool(state.growth[gpu]) is self.value for gpu in self.gpus)
        if self.kind == "memory_limit_mib":
            return all(state.memory_limit_mib[gpu] == self.value for gpu in self.gpus)
        if self.kind == "seed" or self.kind.endswith("strategy"):
            return None
        return bool(getattr(state, self.kind) == self.value)


@dataclass(frozen=True)
class Plan:
    """What `configure_gpus` will do, in order; pure data.

    Attributes:
        gpus: Indices of the GPUs that will be used.
        logical_gpus: How many logical GPUs they make.
        actions: In the order in which they have to be done.
        too_late: Those of the actions that TensorFlow can no longer do.
        warnings: What was resolved, overruled or is likely not meant.
        not_applied: Arguments that are about GPUs, on a machine without one.
        causes: Why no GPU is used; empty where one is.
    """

    gpus: tuple[int, ...] = ()
    logical_gpus: int = 0
    actions: tuple[Action, ...] = ()
    too_late: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()

    def __str__(self) -> str:
        lines = [f"{action} ({action.reason})" for action in self.actions]
        return "\n".join(
            [*map(str, self.causes), *lines, *map("Warning: {}".format, self.warnings)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as plain dicts, lists, strings and numbers, ready for JSON."""
        return {
            "gpus": list(self.gpus),
            "logical_gpus": self.logical_gpus,
            "actions": [action.to_dict() for action in self.actions],
            "too_late": [action.to_dict() for action in self.too_late],
            "warnings": list(self.warnings),
            "not_applied": list(self.not_applied),
            "causes": [to_dict(cause) for cause in self.causes],
        }

    def value_of(self, kind: str) -> Any:
        """What a kind of action sets; None where the plan leaves it alone."""
        return next((action.value for action in self.actions if action.kind == kind), None)


@dataclass
class Draft:
    """A plan in the making."""

    machine: Machine
    actions: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def do(self, kind: str, value: Any, reason: str, **details: Any) -> None:
        """Adds an action."""
        self.actions.append(Action(kind, value, reason, **details))

    def set_variable(self, name: str, value: str, reason: str) -> None:
        """Adds the setting of an environment variable; arguments win over what is set there."""
        before = self.machine.environment.get(name)
        if before not in (None, value):
            self.warnings.append(f"{name}={before} in the environment gives way to {reason}.")
        self.do("environment", value, reason, name=name, must_come_first=True)
