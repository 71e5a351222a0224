"""Adds to a profile what the model and the script say of its layers: their classes and lines."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_gpukit.layer_names import layers_in
from keras_gpukit.monitoring.script_globals import own_files
from keras_gpukit.records.profile import LayerProfile, ProfileRecord

LARGEST_SOURCE_BYTES = 1 << 20
"""Larger files of a script are not read. Our choice: most have some kilobytes."""


def with_sources(profile: ProfileRecord, model: Any) -> ProfileRecord:
    """Returns the profile with class, line and sizes of each layer, as far as they are known."""
    known = {each.name: each for each in layers_in(model)}
    calls = [call for path in own_files() for call in _calls(path)]

    def described(layer: LayerProfile) -> LayerProfile:
        # Layers within a layer, as the cell of an LSTM, are no layers of the model.
        names = reversed(layer.path.split("/"))
        found = next((known[name] for name in names if name in known), None)
        if layer.role != "layer" or found is None:
            return layer
        class_name = type(found).__name__
        shapes = [tuple(each.shape) for each in found.weights]
        return replace(
            layer,
            class_name=class_name,
            place=_place(calls, found.name, class_name),
            weight_shape=max(shapes, key=math.prod, default=None),
            inputs=_inputs(found),
        )

    return replace(profile, layers=tuple(map(described, profile.layers)))


def place_of(layer: Any) -> str | None:
    """Returns the line of the script that makes a layer, if it shows it."""
    calls = [call for path in own_files() for call in _calls(path)]
    return _place(calls, layer.name, type(layer).__name__)


def _inputs(layer: Any) -> int | None:
    with suppress(Exception):  # without an input, or with several
        return int(math.prod(layer.input.shape[1:]))
    return None


def _calls(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """Yields place, name of the called function, and the argument `name` of each call in a file."""
    with suppress(Exception):  # a file that is gone, or is no Python
        if path.stat().st_size > LARGEST_SOURCE_BYTES:
            return
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
                given = (each.value for each in node.keywords if each.arg == "name")
                names = [str(each.value) for each in given if isinstance(each, ast.Constant)]
                yield f"{path.name}:{node.lineno}", str(called), names[0] if names else None


def _place(calls: list[tuple[str, str, str | None]], name: str, class_name: str) -> str | None:
    """Returns the line that gives a layer its name, else the only line that makes its class."""
    for found in (
        {place for place, _, given in calls if given == name},
        {place for place, called, _ in calls if called == class_name},
    ):
        if found:
            return found.pop() if len(found) == 1 else None
    return None
