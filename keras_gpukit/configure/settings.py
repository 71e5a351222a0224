"""The arguments of `configure_gpus`, checked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose
from keras_gpukit.configure import checks

Split = int | tuple[int, ...]
"""Number of logical GPUs, or the size of each in bytes."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The normalised arguments of `configure_gpus`, with sizes in bytes.

    `check` creates them. See `configure_gpus` for their meaning; the defaults are the same.
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
    worker_timeout_s: float = 600.0
    require_gpu: bool = False
    verbose: Verbose = "auto"


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "devices": checks.check_devices,
    "memory": checks.check_memory,
    "logical_gpus": checks.check_logical_gpus,
    "soft_placement": checks.one_of("soft_placement", None, True, False),
    "log_device_placement": checks.one_of("log_device_placement", None, True, False),
    "mixed_precision": checks.one_of("mixed_precision", None, "auto", *checks.POLICIES),
    "jit": checks.one_of("jit", None, True, False, "auto"),
    "tf32": checks.one_of("tf32", None, True, False),
    "deterministic": checks.one_of("deterministic", True, False),
    "seed": checks.check_seed,
    "allocator": checks.one_of("allocator", None, *checks.ALLOCATORS),
    "gpu_threads": checks.check_gpu_threads,
    "strategy": checks.check_strategy,
    "worker_timeout_s": checks.check_worker_timeout_s,
    "require_gpu": checks.one_of("require_gpu", True, False),
    "verbose": check_verbose,
}


def check(**arguments: Any) -> Settings:
    """Checks every argument by itself, and then all of them together.

    Raises:
        TypeError: If an argument is of a wrong type.
        ValueError: If an argument has a wrong value, or two contradict each other.
    """
    settings = Settings(**{name: _CHECKS[name](value) for name, value in arguments.items()})
    for contradicts, names, reason in _CONTRADICTIONS:
        if contradicts(settings):
            received = (
                f"{name}={arguments.get(name, getattr(settings, name))!r}" for name in names
            )
            raise ValueError(f"{reason} Received: {', '.join(received)}")
    return settings


def _growth_differs(s: Settings) -> bool:
    return isinstance(s.memory, tuple) and "growth" in s.memory and set(s.memory) != {"growth"}


def _counts_differ(s: Settings) -> bool:
    if isinstance(s.memory, tuple) and isinstance(s.devices, tuple):
        return len(s.memory) != len(s.devices)
    return False


def _sized_twice(s: Settings) -> bool:
    splits = s.logical_gpus.values() if isinstance(s.logical_gpus, Mapping) else [s.logical_gpus]
    wishes = s.memory if isinstance(s.memory, tuple) else [s.memory]
    split_sized = any(isinstance(split, tuple) for split in splits)
    return split_sized and any(isinstance(wish, int) for wish in wishes)


_CONTRADICTIONS: tuple[tuple[Callable[[Settings], bool], tuple[str, ...], str], ...] = (
    (
        _growth_differs,
        ("memory",),
        'TensorFlow grows the memory of all its GPUs or of none, so `memory` cannot be "growth" '
        "for some GPUs and something else for others.",
    ),
    (
        _counts_differ,
        ("memory", "devices"),
        "`memory` must have one entry for each GPU in `devices`.",
    ),
    (
        _sized_twice,
        ("memory", "logical_gpus"),
        "`logical_gpus` already says how large each logical GPU is, so `memory` cannot set a size.",
    ),
    (
        lambda s: s.devices == "none" and s.require_gpu,
        ("devices", "require_gpu"),
        '`devices="none"` hides every GPU, which `require_gpu=True` forbids.',
    ),
    (
        lambda s: s.devices == "none" and s.logical_gpus is not None,
        ("devices", "logical_gpus"),
        '`devices="none"` hides every GPU, so `logical_gpus` has none to split.',
    ),
    (
        lambda s: s.deterministic and s.seed is None,
        ("deterministic", "seed"),
        "`deterministic=True` needs a `seed`: TensorFlow refuses random operations without one.",
    ),
    (
        lambda s: s.deterministic and s.jit is True,
        ("jit", "deterministic"),
        "`jit=True` contradicts `deterministic=True`: not every operation is deterministic under "
        "XLA, and Keras turns it off.",
    ),
)
