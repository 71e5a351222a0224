"""Records to and from plain data, for JSON."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

SCHEMA = 1
"""Version of the records' layout; grows when a field changes its meaning or goes."""

R = TypeVar("R")


def to_dict(record: Any) -> dict[str, Any]:
    """Returns a record as plain dicts, lists, strings and numbers."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_dict(plain: dict[str, Any], kind: type[R]) -> R:
    """Makes a record from what `to_dict` returned.

    Args:
        plain: Plain data.
        kind: The record's class.

    Raises:
        ValueError: If the data do not fit; the message names the field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"This is no {kind.__name__}: {error}") from error
