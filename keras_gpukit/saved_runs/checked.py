"""Records from JSON of any origin."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from keras_gpukit.records.codec import from_dict
from keras_gpukit.saved_runs.bins import LARGEST

R = TypeVar("R")


def checked_record(data: msgspec.Raw, kind: type[R]) -> R:
    """Returns the record.

    Args:
        data: JSON.
        kind: The record's class.

    Raises:
        ValueError: If the data are no such record, or a number is beyond all bounds.
    """
    plain = msgspec.json.decode(data)
    if not _within_bounds(plain):
        raise ValueError("it holds a number beyond all bounds")
    return from_dict(plain, kind)


def _within_bounds(plain: Any) -> bool:
    if isinstance(plain, dict):
        return all(map(_within_bounds, plain.values()))
    if isinstance(plain, list):
        return all(map(_within_bounds, plain))
    if isinstance(plain, (int, float)):
        return -LARGEST < plain < LARGEST
    return True
