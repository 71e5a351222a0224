"""Finds models and layers that a step calls several times with the same weights and data."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from keras_gpukit.frameworks.tf_functions import is_stateful, nested_graphs, step_graph
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.layer_names import forward_of, is_backward
from keras_gpukit.monitoring.operation_lines import within_step
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.profile import ProfileRecord, RepeatedCalls

_READS = frozenset({"ReadVariableOp", "ResourceGather"})
_LAYER = os.path.join("keras", "src", "layers", "layer.py")
_NUMBER = re.compile(r"_\d+(?=/|$)")


class _Value(NamedTuple):
    """Result of an operation: values with equal keys are equal."""

    key: int
    of_data: bool = False
    of_weights: bool = False


def with_repeats(profile: ProfileRecord, model: Any) -> ProfileRecord:
    """Returns the profile with the calls that repeat others within a step.

    Raises AttributeError if the training step is not Keras' own, so that its graph is unknown.
    """
    graph = step_graph(model.train_function)
    if graph is None or not profile.steps:
        return profile
    by_scopes = _uses_by_scopes((graph, *nested_graphs(graph)))
    repeats = (_repeated(uses, profile) for uses in by_scopes.values())
    return replace(profile, repeats=tuple(filter(None, repeats)))


def _uses_by_scopes(graphs: Iterable[Any]) -> dict[frozenset[str], list[Sequence[Any]]]:
    """Returns the operations that use the same weights on the same data, by the calls they are in.

    Calls are the scopes that tell such operations apart: "model_1" and "model_3".
    """
    found: defaultdict[frozenset[str], list[Sequence[Any]]] = defaultdict(list)
    for graph in graphs:
        for operations in _equal(graph):
            scopes = _calls([operation.name for operation in operations])
            if len(scopes) > 1:
                found[scopes].append(operations)
    return found


def _equal(graph: Any) -> Iterator[Sequence[Any]]:
    """Yields the forward operations of a graph that compute the same with weights and data."""
    values: dict[str, _Value] = {}
    changes: defaultdict[int, int] = defaultdict(int)  # of variables, by the keys of their handles
    uses: defaultdict[int, list[Any]] = defaultdict(list)
    for operation in graph.get_operations():
        if is_backward(operation.name):
            continue
        inputs = [
            values.get(tensor.name) or _Value(hash(tensor.name)) for tensor in operation.inputs
        ]
        value = _value(operation, inputs, changes)
        if value.of_data and any(each.of_weights for each in inputs):
            uses[value.key].append(operation)
        for tensor in operation.outputs:
            values[tensor.name] = value._replace(key=hash((value.key, tensor.value_index)))
    yield from (operations for operations in uses.values() if len(operations) > 1)


def _value(operation: Any, inputs: Sequence[_Value], changes: defaultdict[int, int]) -> _Value:
    kind, keys = operation.type, tuple(value.key for value in inputs)
    if kind == "Placeholder":
        return _Value(hash(operation.name), of_data=operation.outputs[0].dtype.name != "resource")
    if kind == "Const":
        return _Value(hash(operation.get_attr("value").SerializeToString()))
    of_data = any(value.of_data for value in inputs)
    if kind in _READS:
        key = hash((kind, keys, changes[keys[0]]))
        return _Value(key, of_data, of_weights=True)
    if is_stateful(kind):  # it draws numbers, or changes variables
        for key in keys:
            changes[key] += 1
        return _Value(hash(operation.name), of_data)
    shapes = tuple(str(tensor.shape) + tensor.dtype.name for tensor in operation.outputs)
    of_weights = not of_data and any(value.of_weights for value in inputs)
    return _Value(hash((kind, keys, shapes)), of_data, of_weights)


def _calls(names: Sequence[str]) -> frozenset[str]:
    """Returns the outermost scopes in which operations differ: of "a_1/b/add" and "a_2/b/add", a_N.

    Empty if they are not of calls by one name, or only the operations' own names differ.
    """
    scopes = [name.split("/")[:-1] for name in names]
    for depth, same in enumerate(zip(*scopes, strict=False), 1):
        if len(set(same)) > 1:
            calls = frozenset("/".join(parts[:depth]) for parts in scopes)
            return calls if len(set(map(_stem, calls))) == 1 else frozenset()
    return frozenset()


def _repeated(uses: Sequence[Sequence[Any]], profile: ProfileRecord) -> RepeatedCalls | None:
    """Returns what such calls took, by the operations that ran; None unless several did."""
    scopes = _calls([operation.name for operation in uses[0]])
    ran = [kernel.operation or "" for layer in profile.layers for kernel in layer.largest]
    name = _stem(next(iter(scopes)))
    layers = [layer for layer in profile.layers if _is_within(_stem(layer.path), name)]
    forward = _scopes_of({forward_of(each) for each in ran if not is_backward(each)}, name)
    backward = _scopes_of({forward_of(each) for each in ran if is_backward(each)}, name)
    calls = len(scopes & forward)
    if calls < 2:
        return None
    backward_s = sum(layer.backward_s for layer in layers)
    forward_s = sum(layer.time_s for layer in layers) - backward_s
    again_s = forward_s * (calls - 1) / len(forward)
    again_s += backward_s * max(len(scopes & backward) - 1, 0) / (len(backward) or 1)
    lines = (_line(operation, name.count("/") + 1) for same in uses for operation in same)
    places = dict.fromkeys(filter(None, lines))
    return RepeatedCalls(name.rsplit("/", 1)[-1], calls, again_s, tuple(places))


def _scopes_of(operations: Iterable[str], name: str) -> frozenset[str]:
    """Returns the scopes of all calls by a name in which some operations are."""
    depth = name.count("/") + 1
    return frozenset(
        "/".join(operation.split("/")[:depth])
        for operation in operations
        if _is_within(_stem(operation), name)
    )


def _is_within(path: str, scope: str) -> bool:
    return path == scope or path.startswith(f"{scope}/")


def _stem(scope: str) -> str:
    """Returns a scope without the numbers that make it unique."""
    return _NUMBER.sub("", scope)


def _line(operation: Any, depth: int) -> str | None:
    """Returns the line of the script that makes the call whose scope has that depth, from 1."""
    line, calls = None, 0
    for frame in within_step(operation.traceback):
        if is_of_the_script(frame.filename):
            line = frame
        calls += frame.name == "__call__" and frame.filename.endswith(_LAYER)
        if calls == depth:
            break
    return None if line is None else place(line.filename, line.lineno or 0)
