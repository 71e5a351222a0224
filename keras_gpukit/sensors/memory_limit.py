"""Limit of host memory that a container, a batch job or a shell sets.

Containers and jobs set it with Linux's control groups. `ulimit -v` limits the process's address
space.
"""

from __future__ import annotations

from pathlib import Path

_UNLIMITED_BYTES = 2**60
_ROOT = Path("/sys/fs/cgroup")
# Files of control groups, for version 2 and version 1: the limit, the memory in use, and the
# statistics, with the entry for the part in use that caches files.
_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def left_bytes(root: Path = _ROOT) -> int:
    """Returns the memory that the machine has available, or less if a limit leaves less."""
    import psutil

    left = [int(psutil.virtual_memory().available)]
    limit_bytes, used_bytes = read_limit(root)
    if limit_bytes is not None and used_bytes is not None:
        left.append(limit_bytes - used_bytes)
    address_space_bytes = _address_space_limit()
    if address_space_bytes is not None:
        left.append(address_space_bytes - int(psutil.Process().memory_info().vms))
    return max(min(left), 0)


def read_limit(root: Path = _ROOT) -> tuple[int | None, int | None]:
    """Returns the limit and the memory in use, in bytes; None for both without a limit.

    A container sees its own control group at the root. The group of a job, deeper in the tree, is
    not searched for. Inactive caches of files do not count as in use.
    """
    for limit, used, statistics, cached in _FILES:
        limit_bytes = _number(root / limit)
        if limit_bytes is None or limit_bytes >= _UNLIMITED_BYTES:
            continue
        if (used_bytes := _number(root / used)) is not None:
            return limit_bytes, max(used_bytes - _entry(root / statistics, cached), 0)
    return None, None


def _address_space_limit() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max" if there is no limit
        return None


def _entry(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
