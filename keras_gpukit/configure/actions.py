"""Collects the actions of a plan, and checks whether an action already holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
