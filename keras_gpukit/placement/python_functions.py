"""Names the Python functions that operations of a step call, with the line of each."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from keras_gpukit.layer_names import LayerNames, is_backward
from keras_gpukit.placement.names import operation_name
from keras_gpukit.placement.tf_private import python_function
from keras_gpukit.records.placement import PYTHON_OPERATIONS, PythonFunction, PythonRole

_LOSS = "compile_loss"


def python_functions(
    graph: Any, layers: LayerNames, metrics: Collection[str]
) -> tuple[PythonFunction, ...]:
    """Returns the functions that the operations of a traced step call, without gradients.

    Args:
        graph: The step's graph, a proto.
        layers: Names of the model's layers.
        metrics: Names of the metrics that `compile` got. Keras opens no scope for them, so of an
            operation without a scope they are the likely place.
    """
    found = []
    for node in _nodes(graph):
        name = operation_name(node.name)
        if node.op not in PYTHON_OPERATIONS or is_backward(name):
            continue
        with suppress(Exception):  # TensorFlow's registry is private
            function = inspect.unwrap(python_function(node.attr["token"].s))
            code = function.__code__
            role, part = _caller(name, layers, metrics)
            place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            found.append(PythonFunction(function.__name__, place, role, part))
    return tuple(dict.fromkeys(found))


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _caller(
    name: str, layers: LayerNames, metrics: Collection[str]
) -> tuple[PythonRole, str | None]:
    scope, _, rest = name.partition("/")
    if scope.startswith(_LOSS):
        return "loss", rest.partition("/")[0] if "/" in rest else None
    if (layer := layers.of(name)) is not None:
        return "layer", layer.rsplit("/", 1)[-1]
    if metrics and not rest:
        return "metric", next(iter(metrics)) if len(metrics) == 1 else None
    return "step", None
