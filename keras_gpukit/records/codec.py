"""Converts records to and from plain data and JSON, and checks JSON of any origin."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from keras_gpukit.records.names import SCHEMA

LARGEST = 1e18
"""Larger than any number that a clock, disk or memory reports. A larger one comes from a damaged
file."""

_R = TypeVar("_R")


def to_dict(record: Any) -> dict[str, Any]:
    """Returns a record as plain dicts, lists, strings and numbers."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_dict(plain: dict[str, Any], kind: type[_R]) -> _R:
    """Builds a record of a class from the result of `to_dict`.

    Raises:
        ValueError: If the data do not match the record's fields; the message names the field.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"The data do not match {kind.__name__}: {error}") from error


def json_schema(kind: type, name: str) -> dict[str, Any]:
    """Returns the JSON Schema of a record with a field `schema`, draft 2020-12.

    It is made from the record's class and those of its fields, with their descriptions. Its `$id`
    has the name, before the version of the layout.
    """
    schema = msgspec.json.schema(kind)
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    schema["$defs"][kind.__name__]["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:keras-gpukit:{name}:{SCHEMA}",
        **schema,
    }


def checked_record(data: msgspec.Raw, kind: type[_R]) -> _R:
    """Decodes a record of a class from JSON, and checks its fields and numbers as below."""
    plain = msgspec.json.decode(data)
    check_numbers([plain])
    return from_dict(plain, kind)


def check_numbers(plain: Iterable[Any]) -> None:
    """Checks all numbers in plain data.

    Raises:
        ValueError: If a number is not between -`LARGEST` and `LARGEST`.
    """
    for value in plain:
        if isinstance(value, (float, int)):
            if not -LARGEST < value < LARGEST:
                raise ValueError(
                    f"it has a number that is not between -{LARGEST:g} and {LARGEST:g}"
                )
        elif isinstance(value, (dict, list)):
            check_numbers(value.values() if isinstance(value, dict) else value)
