"""Checks of `configure_gpus`' arguments: each returns the normalised value, or raises an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from keras_gpukit.arguments import check, check_flag, is_a, refuse
from keras_gpukit.distributed.strategies import ACCEPTED, NAMES

POLICIES = ("float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")
# Values of TF_GPU_ALLOCATOR that TensorFlow knows; it silently ignores any other value.
ALLOCATORS = ("cuda_malloc_async", "cuda_malloc", "memory_guard")
THREAD_MODES = ("global", "gpu_private", "gpu_shared")
MIB = 1 << 20
"""Bytes in a MiB, the unit of TensorFlow's memory limits."""

_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}


def check_devices(value: Any) -> str | tuple[int | str, ...]:
    """Returns "all", "none", or the chosen GPUs by index or UUID."""
    accepted = (
        '"all", "none", a GPU\'s index (0 or more) or UUID ("GPU-…", "MIG-…"), or a list of those '
        "that names each GPU once"
    )
    if isinstance(value, str) and value in ("all", "none"):
        return value
    entries = [value] if is_a(value, Integral) or isinstance(value, str) else value
    if not isinstance(entries, (list, tuple)):
        refuse("devices", accepted, value, TypeError)
    chosen: list[int | str] = []
    for entry in entries:
        if is_a(entry, Integral) and entry >= 0:
            chosen.append(int(entry))
        elif isinstance(entry, str) and entry.startswith(("GPU-", "MIG-")) and len(entry) > 4:
            chosen.append(entry)
        else:
            known_type = is_a(entry, Integral) or isinstance(entry, str)
            refuse("devices", accepted, value, ValueError if known_type else TypeError)
    if not chosen or len(set(chosen)) < len(chosen):
        refuse("devices", accepted, value, ValueError)
    return tuple(chosen)


def check_memory(value: Any) -> str | int | tuple[str | int, ...]:
    """Returns one memory setting for all GPUs, or one for each; sizes are in bytes."""
    accepted = (
        '"growth", "all", a size of at least 1 MiB ("8GiB", or bytes as an int), '
        "or a list with one of these for each GPU"
    )
    if isinstance(value, (list, tuple)):
        if not value:
            refuse("memory", accepted, value, ValueError)
        return tuple(_memory(entry, accepted, value) for entry in value)
    return _memory(value, accepted, value)


def _memory(entry: Any, accepted: str, received: Any) -> str | int:
    if isinstance(entry, str) and entry in ("growth", "all"):
        return entry
    return _size(entry, "memory", accepted, received)


def check_logical_gpus(value: Any) -> Any:
    """Returns None, a number of logical GPUs, their sizes in bytes, or a dict of these by GPU."""
    accepted = (
        "None, how many logical GPUs to make of each GPU (1 or more), a list of their sizes "
        '(["4GiB", "4GiB"]), or a dict from a GPU\'s index to one of these'
    )
    if value is None:
        return None
    if isinstance(value, Mapping):
        if not value:
            refuse("logical_gpus", accepted, value, ValueError)
        for index in value:
            if not is_a(index, Integral):
                refuse("logical_gpus", accepted, value, TypeError)
            if index < 0:
                refuse("logical_gpus", accepted, value, ValueError)
        return {int(i): _split(split, accepted, value) for i, split in value.items()}
    return _split(value, accepted, value)


def _split(split: Any, accepted: str, received: Any) -> int | tuple[int, ...]:
    if isinstance(split, (list, tuple)) and split:
        return tuple(_size(size, "logical_gpus", accepted, received) for size in split)
    if not is_a(split, Integral) or split < 1:
        known_type = is_a(split, Integral) or isinstance(split, (list, tuple))
        refuse("logical_gpus", accepted, received, ValueError if known_type else TypeError)
    return int(split)


def _size(entry: Any, argument: str, accepted: str, received: Any) -> int:
    if not (is_a(entry, Integral) or isinstance(entry, str)):
        refuse(argument, accepted, received, TypeError)
    size_bytes = _parse_size(entry) if isinstance(entry, str) else int(entry)
    if size_bytes is None or size_bytes < MIB:
        refuse(argument, accepted, received, ValueError)
    return size_bytes


def _parse_size(text: str) -> int | None:
    """Returns the bytes in a size such as "8GiB", "512 MB" or "1.5GiB"; None if it is no size."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        return None
    size_bytes = float(match[1]) * _UNITS[match[2].upper()]
    return int(size_bytes) if math.isfinite(size_bytes) else None


def check_gpu_threads(value: Any) -> tuple[str, int | None] | None:
    """Returns None, or the mode and the number of threads; without a number, TensorFlow chooses."""
    accepted = (
        f"None, threads for each GPU (1 or more), one of {_listed(THREAD_MODES)}, "
        'or a pair such as ("gpu_shared", 4); "global" takes no count'
    )
    if value is None:
        return None
    if is_a(value, Integral):
        mode, count = "gpu_private", value
    elif isinstance(value, str):
        mode, count = value, None
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        mode, count = value
        if not (isinstance(mode, str) and is_a(count, Integral)):
            refuse("gpu_threads", accepted, value, TypeError)
    else:
        refuse("gpu_threads", accepted, value, TypeError)
    too_few = count is not None and (count < 1 or mode == "global")
    if mode not in THREAD_MODES or too_few:
        refuse("gpu_threads", accepted, value, ValueError)
    return mode, None if count is None else int(count)


def check_strategy(value: Any) -> Any:
    """Returns the name of a strategy, or a given `tf.distribute` strategy unchanged."""
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


def check_worker_timeout_s(value: Any) -> float:
    """Returns the seconds to wait for the other processes of a cluster."""
    accepted = "a number of seconds of more than 0"
    check("worker_timeout_s", value, Real, accepted, lambda v: float(v) > 0)
    return float(value)


def check_seed(value: Any) -> int | None:
    """Returns None, or a seed in the range that NumPy accepts."""
    accepted = "None or an integer from 0 to 2**32 - 1"
    check("seed", value, Integral, accepted, lambda v: 0 <= v < 2**32, optional=True)
    return None if value is None else int(value)


def flag(argument: str) -> Callable[[Any], bool]:
    """Returns the check of an argument that is True or False."""

    def checked(value: Any) -> bool:
        check_flag(argument, value)
        return bool(value)

    return checked


def optional_flag(argument: str, *names: str) -> Callable[[Any], Any]:
    """Returns the check of an argument that is None, True, False or one of `names`."""
    accepted = " or ".join(["None (leave as it is)", "True", "False", *map(_quoted, names)])

    def checked(value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        return _named(argument, names, accepted, value)

    return checked


def optional_name(argument: str, *names: str) -> Callable[[Any], Any]:
    """Returns the check of an argument that is None or one of `names`."""
    accepted = f"None (leave as it is) or one of {_listed(names)}"

    def checked(value: Any) -> Any:
        return value if value is None else _named(argument, names, accepted, value)

    return checked


def _named(argument: str, names: tuple[str, ...], accepted: str, value: Any) -> str:
    if not (isinstance(value, str) and names):
        refuse(argument, accepted, value, TypeError)
    if value not in names:
        refuse(argument, accepted, value, ValueError)
    return value


def _quoted(name: str) -> str:
    return f'"{name}"'


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(_quoted, names))
