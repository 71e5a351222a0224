"""Begins a plan: which GPUs are used, how much memory TensorFlow takes, and how they are split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.configure.settings import MIB, Settings, Split
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Action, Machine
from keras_gpukit.reports.units import size


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


def plan_devices(draft: Draft, settings: Settings) -> tuple[GPUInfo, ...]:
    """Plans which GPUs TensorFlow sees."""
    machine = draft.machine
    if not machine.gpus:
        return ()
    if settings.devices == "all":
        indices = {gpu.index for gpu in machine.gpus}
    elif settings.devices == "none":
        indices = set()
    else:
        indices = {_find(entry, settings, machine) for entry in settings.devices}
        if len(indices) < len(settings.devices):
            raise ValueError(f"`devices` names a GPU twice. Received: devices={settings.devices!r}")
    reason = f"{len(indices)} of the {len(machine.gpus)} GPUs that TensorFlow lists"
    draft.do("visible_gpus", tuple(sorted(indices)), reason, must_come_first=True)
    return tuple(gpu for gpu in machine.gpus if gpu.index in indices)


def _find(entry: int | str, settings: Settings, machine: Machine) -> int:
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES")
    hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible} chooses and renumbers)"
    received = f"Received: devices={settings.devices!r}"
    count = len(machine.gpus)
    if isinstance(entry, int):
        if entry >= count:
            raise ValueError(
                f"`devices` names GPU {entry}, but TensorFlow lists {count}, numbered from 0"
                f"{hint}. {received}"
            )
        return entry
    unknown = [gpu for gpu in machine.gpus if gpu.uuid is None]
    if unknown:
        because = unknown[0].unidentified_because or "NVML or CUDA does not answer"
        raise ValueError(
            "`devices` names a UUID, but the UUIDs of TensorFlow's GPUs are unknown here "
            f"({because}): use indices. {received}"
        )
    # As in CUDA_VISIBLE_DEVICES, the beginning of a UUID is enough.
    found = [gpu.index for gpu in machine.gpus if (gpu.uuid or "").startswith(entry)]
    if len(found) == 1:
        return found[0]
    here = ", ".join(str(gpu.uuid) for gpu in machine.gpus)
    problem = "fits more than one GPU" if found else "is none of TensorFlow's GPUs"
    raise ValueError(f"`devices` names {entry!r}, which {problem}: {here}{hint}. {received}")


# Fraction of a GPU's memory that `logical_gpus=n` divides. The rest is left for the CUDA context
# and for libraries, for which TensorFlow itself reserves 0.3 to 1.8 GiB. Chosen, not measured.
SHARED_FRACTION = 0.9

_GROWTH_VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"


def plan_memory(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> int:
    """Plans growth, limits and logical GPUs."""
    wishes = settings.memory
    if isinstance(wishes, tuple) and len(wishes) != len(gpus):
        raise ValueError(
            f"`memory` must have one entry for each GPU used, here {len(gpus)}. "
            f"Received: memory={wishes!r}"
        )
    per_gpu = wishes if isinstance(wishes, tuple) else (wishes,) * len(gpus)
    splits = _splits(settings, gpus)
    limits = [_limits(*entry) for entry in zip(gpus, per_gpu, splits, strict=True)]
    for gpu, limit in zip(gpus, limits, strict=True):
        if limit is None and draft.machine.state.memory_limit_mib[gpu.index] is not None:
            raise ValueError(
                f"GPU {gpu.index} already has a memory limit or logical GPUs, set by an earlier "
                "call, which TensorFlow can change but not undo: name sizes again, or restart "
                f"Python. Received: memory={wishes!r}, logical_gpus={settings.logical_gpus!r}"
            )
    if any(limits):
        _plan_limits(draft, gpus, limits, asked_growth="growth" in per_gpu)
    else:
        _plan_growth(draft, gpus, grow="growth" in per_gpu)
    return sum(len(limit) if limit else 1 for limit in limits)


def _splits(settings: Settings, gpus: tuple[GPUInfo, ...]) -> list[Split | None]:
    split = settings.logical_gpus
    if not isinstance(split, Mapping):
        return [split] * len(gpus)
    used = {gpu.index for gpu in gpus}
    if not split.keys() <= used:
        raise ValueError(
            f"`logical_gpus` may name only GPUs that are used, here {sorted(used)}. "
            f"Received: logical_gpus={split!r}"
        )
    return [split.get(gpu.index) for gpu in gpus]


def _limits(gpu: GPUInfo, memory: str | int, split: Split | None) -> tuple[int, ...] | None:
    """Returns the MiB of each logical GPU of a GPU; None if the GPU stays whole and unlimited."""
    if isinstance(split, tuple):
        sizes: tuple[int, ...] = split
    elif split is None or (split == 1 and isinstance(memory, str)):
        if isinstance(memory, str):
            return None
        sizes = (memory,)
    else:
        if isinstance(memory, int):
            shared = memory
        elif gpu.memory_bytes is not None:
            shared = int(gpu.memory_bytes * SHARED_FRACTION)
        else:
            raise ValueError(
                f"GPU {gpu.index}'s memory is unknown (NVML does not report it), so it cannot be "
                f"split evenly: give the sizes. Received: logical_gpus={split!r}"
            )
        sizes = (shared // split,) * split
    if gpu.memory_bytes is not None and sum(sizes) > gpu.memory_bytes:
        raise ValueError(
            f"GPU {gpu.index} has {size(gpu.memory_bytes)}, less than the "
            f"{size(sum(sizes))} asked of it. "
            f"Received: memory={memory!r}, logical_gpus={split!r}"
        )
    if min(sizes) < MIB:
        raise ValueError(
            "A logical GPU must have at least 1 MiB. "
            f"Received: memory={memory!r}, logical_gpus={split!r}"
        )
    return tuple(size // MIB for size in sizes)


def _plan_limits(
    draft: Draft,
    gpus: tuple[GPUInfo, ...],
    limits: list[tuple[int, ...] | None],
    asked_growth: bool,
) -> None:
    state, environment = draft.machine.state, draft.machine.environment
    if asked_growth and environment.get(_GROWTH_VARIABLE) != "true":
        draft.warnings.append(
            'memory="growth" does not apply: once a GPU is split, TensorFlow takes the memory of '
            "each GPU and logical GPU whole at its start."
        )
    if environment.get(_GROWTH_VARIABLE) == "true":
        draft.warnings.append(
            f"{_GROWTH_VARIABLE}=true in the environment: memory grows up to the sizes given."
        )
    grown = tuple(gpu.index for gpu in gpus if state.growth[gpu.index])
    if grown:
        reason = "set earlier; with sizes, TensorFlow would silently drop it"
        draft.do("memory_growth", False, reason, gpus=grown, must_come_first=True)
    for gpu, limit in zip(gpus, limits, strict=True):
        if limit is not None:
            parts = "its memory is limited" if len(limit) == 1 else f"split into {len(limit)}"
            draft.do("memory_limit_mib", limit, parts, gpus=(gpu.index,), must_come_first=True)


def _plan_growth(draft: Draft, gpus: tuple[GPUInfo, ...], grow: bool) -> None:
    indices = tuple(gpu.index for gpu in gpus)
    reason = "memory is taken as needed" if grow else "all memory is taken at the start"
    draft.do("memory_growth", grow, reason, gpus=indices, must_come_first=True)
    wanted = "true" if grow else "false"
    forced = draft.machine.environment.get(_GROWTH_VARIABLE)
    asked = 'memory="growth"' if grow else 'memory="all"'
    state = draft.machine.state
    if grow and (state.logical_cpus > 1 or any(state.memory_limit_mib)):
        reason = f"{asked}, which TensorFlow drops once any device is split, the CPU included"
        draft.set_variable(_GROWTH_VARIABLE, "true", reason)
    elif forced in ("true", "false") and forced != wanted:
        draft.set_variable(_GROWTH_VARIABLE, wanted, asked)
    elif forced not in (None, "true", "false"):
        draft.warnings.append(
            f"{_GROWTH_VARIABLE}={forced} in the environment is ignored: TensorFlow knows only "
            '"true" and "false" there.'
        )
