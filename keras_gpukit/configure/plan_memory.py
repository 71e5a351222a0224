"""Plans how much memory TensorFlow takes on each GPU, and how GPUs are split."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.configure.actions import Draft
from keras_gpukit.configure.checks import MIB
from keras_gpukit.configure.settings import Settings, Split
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.reports.units import size

# Fraction of a GPU's memory that `logical_gpus=n` divides. The rest is left for the CUDA context
# and for libraries, for which TensorFlow itself reserves 0.3 to 1.8 GiB. Chosen, not measured.
SHARED_FRACTION = 0.9

_GROWTH_VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"


def plan_memory(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> int:
    """Plans growth, limits and logical GPUs.

    Returns:
        The number of logical GPUs that there will be.

    Raises:
        ValueError: If a size does not fit its GPU, or a setting does not fit the GPUs used.
    """
    wishes = settings.memory
    if isinstance(wishes, tuple) and len(wishes) != len(gpus):
        raise ValueError(
            f"`memory` must have one entry for each GPU used, here {len(gpus)}. "
            f"Received: memory={wishes!r}"
        )
    each = wishes if isinstance(wishes, tuple) else (wishes,) * len(gpus)
    splits = _splits(settings, gpus)
    limits = [_limits(*entry) for entry in zip(gpus, each, splits, strict=True)]
    for gpu, limit in zip(gpus, limits, strict=True):
        if limit is None and draft.machine.state.memory_limit_mib[gpu.index] is not None:
            raise ValueError(
                f"GPU {gpu.index} already has a memory limit or logical GPUs, set by an earlier "
                "call, which TensorFlow can change but not undo: name sizes again, or restart "
                f"Python. Received: memory={wishes!r}, logical_gpus={settings.logical_gpus!r}"
            )
    if any(limits):
        _plan_limits(draft, gpus, limits, asked_growth="growth" in each)
    else:
        _plan_growth(draft, gpus, grow="growth" in each)
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
