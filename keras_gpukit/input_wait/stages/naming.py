"""The stages of a pipeline as its Python code made them, with what a user would call them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keras_gpukit.input_wait.stages import tf_private
from keras_gpukit.input_wait.stages.functions import (
    Function,
    name_and_location,
    name_and_location_in_graph,
    work_of,
)
from keras_gpukit.input_wait.stages.kinds import kind_of

PYTHON_GENERATOR = "Generator"


@dataclass(frozen=True)
class NamedStage:
    """A stage as it was written.

    Attributes:
        kind: As of `kinds.kind_of`.
        given_name: Its `name=`, where it has one.
        function: Its function, where it has one.
        inputs: What it reads from.
        nested: What its function returns for each element.
    """

    kind: str
    given_name: str | None = None
    function: Function | None = None
    inputs: tuple[NamedStage, ...] = ()
    nested: tuple[NamedStage, ...] = ()


def name_stages(dataset: Any) -> NamedStage:
    """Returns the stages of a dataset, from the one nearest to training back to the sources."""
    dataset = tf_private.unwrapped(dataset)
    inputs = tuple(name_stages(source) for source in tf_private.sources(dataset))
    functions = tf_private.functions_of(dataset)
    kind = kind_of(type(dataset).__name__)
    if kind == "Map" and functions and tf_private.returns_its_arguments(functions[0][1]):
        return inputs[0]  # tf.data leaves such a map out; `unbatch` and `rebatch` come with one
    nested = tuple(
        stage
        for _, graph in functions
        for stage in _nested_stages(graph, tf_private.called_graphs(graph))
    )
    function = None
    if functions:
        user_function, graph = functions[0]
        name, location = name_and_location(user_function)
        function = Function(
            name, location, work_of(_operations(graph, tf_private.called_graphs(graph)))
        )
        generator = tf_private.generator_behind(user_function)
        if generator is not None:
            made_by = Function(*name_and_location(generator), "python")
            nested = (NamedStage(kind_of(PYTHON_GENERATOR), None, made_by),)
    return NamedStage(
        kind=kind,
        given_name=tf_private.given_name(dataset),
        function=function,
        inputs=inputs,
        nested=nested,
    )


def _nested_stages(graph: Any, called: dict[str, Any], depth: int = 1) -> Iterator[NamedStage]:
    """Returns the stages of the dataset that a function returns, if it does.

    Args:
        graph: The function's graph.
        called: The graphs of all functions that are called from it, by name.
        depth: In how many functions of the pipeline those stages are.
    """
    for output in graph.outputs:
        yield from _stages_behind(output.op, called, depth)


def _stages_behind(operation: Any, called: dict[str, Any], depth: int) -> Iterator[NamedStage]:
    """Returns the datasets that an operation is, or hands on."""
    inputs = [tensor.op for tensor in operation.inputs if tensor.dtype.name == "variant"]
    before = tuple(stage for each in inputs for stage in _stages_behind(each, called, depth))
    if not _is_dataset(operation):
        yield from before
        return
    function: Function | None = None
    nested: tuple[NamedStage, ...] = ()
    graphs = [called[name] for name in _function_names(operation) if name in called]
    if graphs:
        work = work_of(_operations(graphs[0], called))
        function = Function(*name_and_location_in_graph(graphs[0], depth), work)
        nested = tuple(
            stage for graph in graphs for stage in _nested_stages(graph, called, depth + 1)
        )
    yield NamedStage(
        kind=kind_of(operation.type),
        given_name=tf_private.name_in_graph(operation),
        function=function,
        inputs=before,
        nested=nested,
    )


def _is_dataset(operation: Any) -> bool:
    return "Dataset" in operation.type


def _function_names(operation: Any) -> list[str]:
    attributes = operation.op_def.attr
    return [operation.get_attr(each.name).name for each in attributes if each.type == "func"]


def _operations(graph: Any, called: dict[str, Any]) -> Iterator[str]:
    """Returns the types of all operations that a function runs, those it calls included."""
    graphs, seen = [graph], set()
    while graphs:
        for operation in graphs.pop().get_operations():
            yield operation.type
            # What nested datasets run later is theirs.
            if _is_dataset(operation):
                continue
            for name in _function_names(operation):
                if name in called and name not in seen:
                    seen.add(name)
                    graphs.append(called[name])
