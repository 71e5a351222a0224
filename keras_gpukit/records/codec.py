"""Converts records to and from plain data and JSON, and checks JSON of any origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

SCHEMA = 1
"""Version of the records' layout. It increases when a field changes its meaning or is removed."""

LARGEST = 1e18
"""Larger than any number that a clock, disk or memory reports. A larger one comes from a damaged
file."""

_TOO_LARGE = f"it has a number that is not between -{LARGEST:g} and {LARGEST:g}"

R = TypeVar("R")


def to_dict(record: Any) -> dict[str, Any]:
    """Returns a record as plain dicts, lists, strings and numbers."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_dict(plain: dict[str, Any], kind: type[R]) -> R:
    """Builds a record from the result of `to_dict`.

    Args:
        plain: Result of `to_dict`.
        kind: The record's class.

    Raises:
        ValueError: If the data do not match the record's fields; the message names the field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"The data do not match {kind.__name__}: {error}") from error


def checked_record(data: msgspec.Raw, kind: type[R]) -> R:
    """Decodes a record from JSON and checks it.

    Args:
        data: JSON of the record.
        kind: The record's class.

    Raises:
        ValueError: If the data do not match the record's fields, or a number is not between
            -`LARGEST` and `LARGEST`.
    """
    plain = msgspec.json.decode(data)
    if not _within_bounds(plain):
        raise ValueError(_TOO_LARGE)
    return from_dict(plain, kind)


def quick_decoder(kind: type) -> Callable[[msgspec.Raw], Any]:
    """Returns a function that decodes a record's JSON to a struct with the same fields.

    That takes a third of the time of decoding to the dataclass.
    """
    types = get_type_hints(kind)
    fields = [
        (each.name, types[each.name])
        if each.default is dataclasses.MISSING
        else (each.name, types[each.name], each.default)
        for each in dataclasses.fields(kind)
    ]
    return msgspec.json.Decoder(msgspec.defstruct(kind.__name__, fields, gc=False)).decode


def bounded(*values: float | None) -> tuple[float | None, ...]:
    """Returns the values unchanged if all of them are plausible numbers or None.

    Raises:
        ValueError: If a number is not between -`LARGEST` and `LARGEST`.
    """
    if None not in values:  # the usual case, checked here in a third of the time
        numbers = cast("tuple[float, ...]", values)
        if min(numbers) > -LARGEST and max(numbers) < LARGEST:
            return values
    for value in values:
        if value is not None and not -LARGEST < value < LARGEST:
            raise ValueError(_TOO_LARGE)
    return values


def _within_bounds(plain: Any) -> bool:
    if isinstance(plain, dict):
        return all(map(_within_bounds, plain.values()))
    if isinstance(plain, list):
        return all(map(_within_bounds, plain))
    if isinstance(plain, (int, float)):
        return -LARGEST < plain < LARGEST
    return True
