"""Turns settings and facts into a plan: pure, so any machine can be planned for on any other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from keras_gpukit.configure.actions import Draft, holds
from keras_gpukit.configure.plan_gpus import plan_devices, plan_memory
from keras_gpukit.configure.plan_training import (
    plan_execution,
    plan_jit,
    plan_strategy,
    plan_variables,
)
from keras_gpukit.configure.settings import Settings
from keras_gpukit.distributed.strategies import ACTIONS
from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.installation import Action, Cause, Machine
from keras_gpukit.rules.setup.gpu_problems import newer_gpus
from keras_gpukit.rules.setup.no_gpu import NOT_WANTED, why_no_gpu

_ABOUT_GPUS = ("devices", "memory", "logical_gpus", "tf32", "allocator", "gpu_threads")


@dataclass(frozen=True)
class Plan:
    """The actions that `configure_gpus` will take, in order; pure data.

    Attributes:
        gpus: Indices of the GPUs that will be used.
        logical_gpus: Number of logical GPUs on these GPUs.
        actions: Actions to take, in the necessary order.
        too_late: Actions that TensorFlow can no longer take, a subset of `actions`.
        warnings: Sentences on overridden settings and on what is probably not intended.
        not_applied: Arguments that concern only GPUs, if no GPU is used.
        causes: Reasons why no GPU is used; empty if one is.
        notes: Effects of the strategy on the loss and the batch, or why no strategy is used.
    """

    gpus: tuple[int, ...] = ()
    logical_gpus: int = 0
    actions: tuple[Action, ...] = ()
    too_late: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()

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
            "notes": list(self.notes),
        }

    def value_of(self, kind: str) -> Any:
        """Returns the value that a kind of action sets; None if the plan has no such action."""
        return next((action.value for action in self.actions if action.kind == kind), None)


def plan(settings: Settings, machine: Machine) -> Plan:
    """Decides which actions to take, in the necessary order.

    Environment variables come first, since TensorFlow reads them when it starts its devices. Then
    the visible GPUs are chosen, since memory is set for each. The strategy comes last, since
    creating one starts the devices.

    Raises:
        ValueError: If the machine cannot do what was asked, or if arguments contradict each other
            on this machine.
    """
    draft = Draft(machine)
    gpus = plan_devices(draft, settings)
    logical = 0
    if gpus:
        plan_variables(draft, settings)
        logical = plan_memory(draft, settings, gpus)
    plan_execution(draft, settings, gpus)
    draft.warnings.extend(map(str, newer_gpus(gpus, machine.build)))
    replicas = plan_strategy(draft, settings, logical)
    plan_jit(draft, settings, logical, replicas)
    if machine.keras_backend != "tensorflow":
        draft.warnings.append(
            f"Keras runs on {machine.keras_backend}: strategy, XLA and memory settings reach "
            "TensorFlow only (KERAS_BACKEND chooses)."
        )
    actions = sorted(draft.actions, key=lambda action: _ORDER.index(action.kind))
    late = [a for a in actions if a.must_come_first and not holds(a, machine)]
    return Plan(
        gpus=tuple(gpu.index for gpu in gpus),
        logical_gpus=logical,
        actions=tuple(actions),
        too_late=tuple(late) if machine.state.initialized else (),
        warnings=tuple(draft.warnings),
        not_applied=() if gpus else _not_applied(settings),
        causes=_causes(settings, machine) if not gpus else (),
        notes=tuple(draft.notes),
    )


# A given strategy can be refused, so it comes before anything is changed. Growth is turned off
# before limits are set, because limits would silently drop it.
_ORDER = (
    "given_strategy",
    "environment",
    "visible_gpus",
    "memory_growth",
    "memory_limit_mib",
    "log_device_placement",
    "seed",
    "deterministic",
    "soft_placement",
    "tf32",
    "jit",
    "dtype_policy",
    *ACTIONS,
)


def _not_applied(settings: Settings) -> tuple[str, ...]:
    """Returns the arguments that were given and concern only GPUs."""
    defaults = {field.name: field.default for field in fields(Settings)}
    asked = ((name, getattr(settings, name)) for name in _ABOUT_GPUS)
    return tuple(
        f"{name}={value!r}"
        for name, value in asked
        if value != defaults[name] and (name, value) != ("devices", "none")
    )


def _causes(settings: Settings, machine: Machine) -> tuple[Cause, ...]:
    if settings.devices == "none" and machine.gpus:
        return (NOT_WANTED,)
    return why_no_gpu(machine)
