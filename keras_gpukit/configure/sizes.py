"""Memory sizes: "8GiB" to bytes and back."""

from __future__ import annotations

import math
import re

MIB = 1 << 20
"""TensorFlow takes memory limits in units of this many bytes."""

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


def parse_size(text: str) -> int | None:
    """Returns the bytes that a size such as "8GiB", "512 MB" or "1.5GiB" stands for, else None."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    if match is None or match[2].upper() not in _UNITS:
        return None
    size_bytes = float(match[1]) * _UNITS[match[2].upper()]
    return int(size_bytes) if math.isfinite(size_bytes) else None


def format_size(size_bytes: int | None) -> str:
    """Returns a size as people read it, such as "7.5 GiB"; "unknown" for None."""
    if size_bytes is None:
        return "unknown"
    if size_bytes < 1 << 30:
        return f"{size_bytes / MIB:.4g} MiB"
    return f"{size_bytes / (1 << 30):.4g} GiB"
