"""What `configure_gpus` was asked for, checked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keras_gpukit.configure import checks

Split = int | tuple[int, ...]
"""How many logical GPUs, or the size of each in bytes."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `configure_gpus`, normalised; sizes in bytes. See there for their meaning.

    Made by `check`; the defaults are those of `configure_gpus`.
    """

    devices: str | tuple[int | str, ...] = "all"
    memory: str | int | tuple[str | int, ...] = "growth"
    logical_gpus: Split | Mapping[int, Split] | None = None
    soft_placement: bool | None = None
    log_device_placement: bool | None = None
    mixed_precision: str | None = None
    jit: bool | str | None = None
    tf32: bool | None = None
    deterministic: bool = False
    seed: int | None = None
    allocator: str | None = None
    gpu_threads: tuple[str, int | None] | None = None
    strategy: Any = "auto"
    require_gpu: bool = False
    verbose: bool = True


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "devices": checks.check_devices,
    "memory": checks.check_memory,
    "logical_gpus": checks.check_logical_gpus,
    "soft_placement": checks.optional_flag("soft_placement"),
    "log_device_placement": checks.optional_flag("log_device_placement"),
    "mixed_precision": checks.optional_name("mixed_precision", "auto", *checks.POLICIES),
    "jit": checks.optional_flag("jit", "auto"),
    "tf32": checks.optional_flag("tf32"),
    "deterministic": checks.flag("deterministic"),
    "seed": checks.check_seed,
    "allocator": checks.optional_name("allocator", *checks.ALLOCATORS),
    "gpu_threads": checks.check_gpu_threads,
    "strategy": checks.check_strategy,
    "require_gpu": checks.flag("require_gpu"),
    "verbose": checks.check_verbose,
}


def check(**arguments: Any) -> Settings:
    """Checks every argument, alone and then together.

    Raises:
        TypeError: If an argument is of a wrong type.
        ValueError: If an argument has a wrong value, or two contradict each other.
    """
    settings = Settings(**{name: _CHECKS[name](value) for name, value in arguments.items()})
    for contradiction in _CONTRADICTIONS:
        reason = contradiction(settings)
        if reason is not None:
            raise ValueError(reason)
    return settings


def _growth_differs(s: Settings) -> str | None:
    if isinstance(s.memory, tuple) and "growth" in s.memory and set(s.memory) != {"growth"}:
        return (
            'TensorFlow grows the memory of all its GPUs or of none: `memory` cannot name "growth" '
            f"for some GPUs and something else for others. Received: memory={s.memory!r}"
        )
    return None


def _counts_differ(s: Settings) -> str | None:
    both = isinstance(s.memory, tuple) and isinstance(s.devices, tuple)
    if both and len(s.memory) != len(s.devices):  # type: ignore[arg-type]
        return (
            "`memory` must have one entry for each GPU in `devices`. "
            f"Received: memory={s.memory!r}, devices={s.devices!r}"
        )
    return None


def _two_sizes(s: Settings) -> str | None:
    splits = s.logical_gpus.values() if isinstance(s.logical_gpus, Mapping) else [s.logical_gpus]
    wishes = s.memory if isinstance(s.memory, tuple) else [s.memory]
    sized = any(isinstance(split, tuple) for split in splits)
    if sized and any(isinstance(wish, int) for wish in wishes):
        return (
            "`logical_gpus` already says how large each logical GPU is, so `memory` cannot set a "
            f"size as well. Received: memory={s.memory!r}, logical_gpus={s.logical_gpus!r}"
        )
    return None


def _nothing_to_use(s: Settings) -> str | None:
    if s.devices == "none" and s.require_gpu:
        return (
            '`devices="none"` hides every GPU, which `require_gpu=True` forbids. '
            "Received: devices='none', require_gpu=True"
        )
    if s.devices == "none" and s.logical_gpus is not None:
        return (
            '`devices="none"` hides every GPU, so `logical_gpus` has none to split. '
            f"Received: devices='none', logical_gpus={s.logical_gpus!r}"
        )
    return None


def _unseeded(s: Settings) -> str | None:
    if s.deterministic and s.seed is None:
        return (
            "`deterministic=True` needs a `seed`: TensorFlow refuses random operations without "
            "one. Received: deterministic=True, seed=None"
        )
    return None


def _jit_impossible(s: Settings) -> str | None:
    if s.jit is True and s.deterministic:
        return (
            "`jit=True` contradicts `deterministic=True`: not every operation is deterministic "
            "under XLA, and Keras turns it off. Received: jit=True, deterministic=True"
        )
    return None


_CONTRADICTIONS = (
    _growth_differs,
    _counts_differ,
    _two_sizes,
    _nothing_to_use,
    _unseeded,
    _jit_impossible,
)
