"""Converts records to and from plain data and JSON, and checks JSON of any origin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

SCHEMA = 1
"""Version of the records' layout. It increases when a field changes its meaning or is removed."""

LARGEST = 1e18
"""Larger than any number that a clock, disk or memory reports. A larger one comes from a damaged
file."""

R = TypeVar("R")


def to_dict(record: Any) -> dict[str, Any]:
    """Returns a record as plain dicts, lists, strings and numbers."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_dict(plain: dict[str, Any], kind: type[R]) -> R:
    """Builds a record of a class from the result of `to_dict`.

    Raises:
        ValueError: If the data do not match the record's fields; the message names the field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"The data do not match {kind.__name__}: {error}") from error


def checked_record(data: msgspec.Raw, kind: type[R]) -> R:
    """Decodes a record of a class from JSON and checks it.

    Raises:
        ValueError: If the data do not match the record's fields, or a number is not between
            -`LARGEST` and `LARGEST`.
    """
    plain = msgspec.json.decode(data)
    check_numbers([plain])
    return from_dict(plain, kind)


def check_numbers(plain: Iterable[Any]) -> None:
    """Checks all numbers in plain data.

    Raises:
        ValueError: If a number is not between -`LARGEST` and `LARGEST`.
    """
    for each in plain:
        if isinstance(each, (float, int)):
            if not -LARGEST < each < LARGEST:
                raise ValueError(
                    f"it has a number that is not between -{LARGEST:g} and {LARGEST:g}"
                )
        elif isinstance(each, (dict, list)):
            check_numbers(each.values() if isinstance(each, dict) else each)
