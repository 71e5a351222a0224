"""The arguments of `configure_gpus`, checked before anything heavy is imported.

Each has a check that returns the normalised value, or raises an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NoReturn

from keras_gpukit.arguments import Verbose, check_verbose, is_a, refuse
from keras_gpukit.arguments import check as check_kind
from keras_gpukit.distributed.strategies import ACCEPTED, NAMES

POLICIES = ("float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
# Values of TF_GPU_ALLOCATOR that TensorFlow knows; it silently ignores any other value.
ALLOCATORS = ("cuda_malloc_async", "cuda_malloc", "memory_guard")
THREAD_MODES = ("global", "gpu_private", "gpu_shared")
MIB = 1 << 20
"""Bytes in a MiB, the unit of TensorFlow's memory limits."""
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


def _check_devices(value: Any) -> str | tuple[int | str, ...]:
    accepted = (
        '"all", "none", a GPU\'s index (0 or more) or UUID ("GPU-…", "MIG-…"), or a list of those '
        "that names each GPU once"
    )
    if isinstance(value, str) and value in ("all", "none"):
        return value
    entries = value if isinstance(value, (list, tuple)) else [value]
    for entry in entries:
        is_uuid = isinstance(entry, str) and re.match("(GPU|MIG)-.", entry)
        if not (is_uuid or (is_a(entry, Integral) and entry >= 0)):
            _refuse("devices", accepted, value, is_a(entry, Integral) or isinstance(entry, str))
    chosen = tuple(int(entry) if is_a(entry, Integral) else entry for entry in entries)
    if not chosen or len(set(chosen)) < len(chosen):
        refuse("devices", accepted, value, ValueError)
    return chosen


def _check_memory(value: Any) -> str | int | tuple[str | int, ...]:
    """Returns one memory setting for all GPUs, or one for each; sizes are in bytes."""
    accepted = (
        '"growth", "all", a size of at least 1 MiB ("8GiB", or bytes as an int), '
        "or a list with one of these for each GPU"
    )

    def one(entry: Any) -> str | int:
        is_word = isinstance(entry, str) and entry in ("growth", "all")
        return entry if is_word else _size(entry, "memory", accepted, value)

    if not isinstance(value, (list, tuple)):
        return one(value)
    if not value:
        refuse("memory", accepted, value, ValueError)
    return tuple(map(one, value))


def _check_logical_gpus(value: Any) -> Any:
    """Returns None, a number of logical GPUs, their sizes in bytes, or a dict of these by GPU."""
    accepted = (
        "None, how many logical GPUs to make of each GPU (1 or more), a list of their sizes "
        '(["4GiB", "4GiB"]), or a dict from a GPU\'s index to one of these'
    )

    def one(split: Any) -> int | tuple[int, ...]:
        if isinstance(split, (list, tuple)) and split:
            return tuple(_size(size, "logical_gpus", accepted, value) for size in split)
        if not is_a(split, Integral) or split < 1:
            known = is_a(split, Integral) or isinstance(split, (list, tuple))
            _refuse("logical_gpus", accepted, value, known)
        return int(split)

    if not isinstance(value, Mapping):
        return None if value is None else one(value)
    for index in value:
        if not is_a(index, Integral) or index < 0:
            _refuse("logical_gpus", accepted, value, is_a(index, Integral))
    if not value:
        refuse("logical_gpus", accepted, value, ValueError)
    return {int(index): one(split) for index, split in value.items()}


def _refuse(argument: str, accepted: str, received: Any, known_type: bool) -> NoReturn:
    refuse(argument, accepted, received, ValueError if known_type else TypeError)


def _size(entry: Any, argument: str, accepted: str, received: Any) -> int:
    size_bytes: Any = _parse_size(entry) if isinstance(entry, str) else entry
    if not is_a(size_bytes, Integral) or size_bytes < MIB:
        known = is_a(entry, Integral) or isinstance(entry, str)
        _refuse(argument, accepted, received, known)
    return int(size_bytes)


def _parse_size(text: str) -> int | None:
    """Returns the bytes in a size such as "8GiB", "512 MB" or "1.5GiB"; None if it is no size."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B\s*", text.upper())
    if match is None or (match[3] and not match[2]):
        return None
    size_bytes = float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " ")
    return int(size_bytes) if math.isfinite(size_bytes) else None


def _check_gpu_threads(value: Any) -> tuple[str, int | None] | None:
    """Returns None, or the mode and the number of threads; without a number, TensorFlow chooses."""
    accepted = (
        f"None, threads for each GPU (1 or more), one of {_listed(THREAD_MODES)}, "
        'or a pair such as ("gpu_shared", 4); "global" takes no count'
    )
    if value is None:
        return None
    mode, count = value if isinstance(value, (list, tuple)) and len(value) == 2 else (value, None)
    if is_a(value, Integral):
        mode, count = "gpu_private", value
    if not isinstance(mode, str) or not (isinstance(value, str) or is_a(count, Integral)):
        refuse("gpu_threads", accepted, value, TypeError)
    if mode not in THREAD_MODES or (count is not None and (count < 1 or mode == "global")):
        refuse("gpu_threads", accepted, value, ValueError)
    return mode, None if count is None else int(count)


def _check_strategy(value: Any) -> Any:
    accepted = f"one of {_listed(ACCEPTED)}, or a tf.distribute strategy object"
    if isinstance(value, str):
        if value not in NAMES:
            refuse("strategy", accepted, value, ValueError)
        return value
    # TensorFlow may not be imported yet, so a strategy is recognized by the attributes it needs.
    if isinstance(value, type) or not (
        callable(getattr(value, "scope", None)) and hasattr(value, "num_replicas_in_sync")
    ):
        refuse("strategy", accepted, value, TypeError)
    return value


def _check_worker_timeout_s(value: Any) -> float:
    accepted = "a number of seconds of more than 0"
    check_kind("worker_timeout_s", value, Real, accepted, lambda v: float(v) > 0)
    return float(value)


def _check_seed(value: Any) -> int | None:
    """Returns None, or a seed in the range that NumPy accepts."""
    accepted = "None or an integer from 0 to 2**32 - 1"
    check_kind("seed", value, Integral, accepted, lambda v: 0 <= v < 2**32, optional=True)
    return None if value is None else int(value)


def _one_of(argument: str, *values: Any) -> Callable[[Any], Any]:
    """Returns the check of an argument that is one of some values: None, a boolean or a name."""
    words = [_quoted(choice) if isinstance(choice, str) else str(choice) for choice in values]
    accepted = " or ".join(words).replace("None", "None (leave as it is)")

    def checked(value: Any) -> Any:
        names = [choice for choice in values if isinstance(choice, str)]
        is_a_name = isinstance(value, str) and bool(names)
        if value not in names if is_a_name else not any(value is choice for choice in values):
            refuse(argument, accepted, value, ValueError if is_a_name else TypeError)
        return value

    return checked


def _quoted(name: str) -> str:
    return f'"{name}"'


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(_quoted, names))


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "devices": _check_devices,
    "memory": _check_memory,
    "logical_gpus": _check_logical_gpus,
    "soft_placement": _one_of("soft_placement", None, True, False),
    "log_device_placement": _one_of("log_device_placement", None, True, False),
    "mixed_precision": _one_of("mixed_precision", None, "auto", *POLICIES),
    "jit": _one_of("jit", None, True, False, "auto"),
    "tf32": _one_of("tf32", None, True, False),
    "deterministic": _one_of("deterministic", True, False),
    "seed": _check_seed,
    "allocator": _one_of("allocator", None, *ALLOCATORS),
    "gpu_threads": _check_gpu_threads,
    "strategy": _check_strategy,
    "worker_timeout_s": _check_worker_timeout_s,
    "require_gpu": _one_of("require_gpu", True, False),
    "verbose": check_verbose,
}


def check(**arguments: Any) -> Settings:
    """Checks every argument by itself, and then all of them together.

    Raises:
        TypeError: If an argument is of a wrong type.
        ValueError: If an argument has a wrong value, or two contradict each other.
    """
    settings = Settings(**{name: _CHECKS[name](value) for name, value in arguments.items()})
    for names, reason in _contradictions(settings):
        received = (f"{name}={arguments.get(name, getattr(settings, name))!r}" for name in names)
        raise ValueError(f"{reason} Received: {', '.join(received)}")
    return settings


def _contradictions(s: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the names of arguments that contradict each other, and why they do."""
    wishes = s.memory if isinstance(s.memory, tuple) else (s.memory,)
    if "growth" in wishes and set(wishes) != {"growth"}:
        yield (
            ("memory",),
            "TensorFlow grows the memory of all its GPUs or of none, so `memory` cannot be "
            '"growth" for some GPUs and something else for others.',
        )
    is_listed = isinstance(s.memory, tuple) and isinstance(s.devices, tuple)
    if is_listed and len(wishes) != len(s.devices):
        yield ("memory", "devices"), "`memory` must have one entry for each GPU in `devices`."
    splits = s.logical_gpus.values() if isinstance(s.logical_gpus, Mapping) else [s.logical_gpus]
    is_sized = any(isinstance(split, tuple) for split in splits)
    if is_sized and any(isinstance(wish, int) for wish in wishes):
        yield (
            ("memory", "logical_gpus"),
            "`logical_gpus` already says how large each logical GPU is, so `memory` cannot set a "
            "size.",
        )
    if s.devices == "none" and s.require_gpu:
        why = '`devices="none"` hides every GPU, which `require_gpu=True` forbids.'
        yield ("devices", "require_gpu"), why
    if s.devices == "none" and s.logical_gpus is not None:
        why = '`devices="none"` hides every GPU, so `logical_gpus` has none to split.'
        yield ("devices", "logical_gpus"), why
    if s.deterministic and s.seed is None:
        yield (
            ("deterministic", "seed"),
            "`deterministic=True` needs a `seed`: TensorFlow refuses random operations without "
            "one.",
        )
    if s.deterministic and s.jit is True:
        yield (
            ("jit", "deterministic"),
            "`jit=True` contradicts `deterministic=True`: not every operation is deterministic "
            "under XLA, and Keras turns it off.",
        )
