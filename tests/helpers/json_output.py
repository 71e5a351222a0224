"""The JSON of a command, checked against the schema that it prints."""

import contextlib
import io
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from keras_gpukit.cli.main import main


def valid_json(command: str, printed: str) -> Any:
    """Returns what a command printed with `--json`, which must be as its schema says."""
    data = json.loads(printed)
    validator_of(command).validate(data)
    return data


def validator_of(command: str) -> Draft202012Validator:
    """Returns what checks a command's JSON; the schema itself must be valid."""
    with contextlib.redirect_stdout(io.StringIO()) as schema, pytest.raises(SystemExit, match="0"):
        main([command, "--json-schema"])
    Draft202012Validator.check_schema(json.loads(schema.getvalue()))
    return Draft202012Validator(json.loads(schema.getvalue()))
