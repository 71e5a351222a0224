"""Stages of a pipeline as its Python code defines them, with the names that users know."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    concatenated,
    functions_of,
    given_name,
    inputs,
    name_in_graph,
    number,
    once_per_dataset,
    unwrapped,
)
from keras_gpukit.frameworks.tf_functions import called_graphs
from keras_gpukit.input.pipelines.functions import (
    READERS,
    kind_of,
    returns_its_arguments,
    spoken,
    work_of,
)
from keras_gpukit.input.pipelines.generators import (
    generator_behind,
    generator_in_graphs,
    python_function_in,
)
from keras_gpukit.input.pipelines.places import (
    HELPERS,
    calling_line,
    is_lambda,
    name_and_location,
    name_and_location_in_graph,
)
from keras_gpukit.input.pipelines.randomness import stage_varies
from keras_gpukit.records.pipeline import CallLine, Work

PYTHON_GENERATOR = "Generator"


@dataclass(frozen=True)
class Function:
    """A function that a stage calls, with its name and its place in user code, "file.py:12".

    Both are None if they are unknown, or the function is tf.data's own.
    """

    name: str | None
    location: str | None = None
    work: Work = "mapping"
    call: CallLine | None = None


@dataclass(frozen=True)
class Stage:
    """A stage as the Python code defines it, perhaps with a `name=` as its `given_name`.

    The function may return datasets for each element, whose stages are `nested`. A stage `repeats`
    if it gives the same elements in each epoch, in whatever order, as far as its graph shows. A
    chain of `concatenate` calls is one stage, with the number of datasets that are `joined`.
    """

    kind: str
    given_name: str | None = None
    function: Function | None = None
    inputs: tuple[Stage, ...] = ()
    nested: tuple[Stage, ...] = ()
    files: int | None = None
    repeats: bool | None = None
    joined: int = 0

    @functools.cached_property
    def size(self) -> int:
        """Number of stages: this one, its inputs and nested ones, and all of theirs."""
        return 1 + sum(stage.size for stage in (*self.inputs, *self.nested))

    @property
    def names(self) -> Iterator[str]:
        """Names of this stage and of its inputs, back to the sources; lambdas have none."""
        function = self.function.name if self.function is not None else None
        named = None if is_lambda(function) else function
        yield self.given_name or named or spoken(self.kind)
        for stage in self.inputs:
            yield from stage.names


@once_per_dataset
def read_stages(dataset: Any) -> Stage:
    """Returns the stages of a dataset, from the one nearest to training back to the sources."""
    dataset = unwrapped(dataset)
    parts = concatenated(dataset)
    # Of the datasets that `concatenate` joins, all that are alike stand as one.
    joined = dict.fromkeys(map(read_stages, parts))
    before = tuple(joined or map(read_stages, inputs(dataset)))
    functions = functions_of(dataset)
    kind = kind_of(type(dataset).__name__)
    if kind == "Map" and functions and returns_its_arguments(functions[0][1]):
        return before[0]  # tf.data removes such a map; `unbatch` and `rebatch` contain one
    nested = tuple(
        stage for _, graph in functions for stage in _nested_stages(graph, called_graphs(graph))
    )
    function = None
    if functions:
        user_function, graph = functions[0]
        name, location = name_and_location(user_function)
        work = work_of(_operations(graph, called_graphs(graph)))
        if work == "python" and is_lambda(name):
            # It only wraps the Python function that takes the time.
            name, location = python_function_in(graph) or (name, location)
        function = Function(name, location, work, calling_line(user_function, graph))
        generator = generator_behind(user_function)
        if generator is not None:
            made_by = Function(*generator, "python")
            nested = (Stage(kind_of(PYTHON_GENERATOR), None, made_by),)
        nested = tuple(_of_files(stage, dataset, name) for stage in nested)
        if any(stage.kind in READERS for stage in nested):
            function = replace(function, work="reading")
    return Stage(
        kind=kind,
        given_name=given_name(dataset),
        function=function,
        inputs=before,
        nested=nested,
        files=nested[0].files if nested else None,
        repeats=_repeats(dataset, kind, before),
        joined=len(parts),
    )


def _of_files(stage: Stage, opener: Any, opener_name: str | None) -> Stage:
    """Returns a nested stage; if it reads files, with their number and the name of their helper."""
    if stage.kind not in READERS:
        # A reader of TensorFlow's may be a stage over the list of its files, as `TFRecordDataset`.
        nested = tuple(_of_files(inner, opener, opener_name) for inner in stage.nested)
        before = tuple(_of_files(source, opener, opener_name) for source in stage.inputs)
        files = next((inner.files for inner in (*nested, *before) if inner.files is not None), None)
        return replace(stage, nested=nested, inputs=before, files=files)
    count = int(inputs(opener)[0].cardinality()) if inputs(opener) else -1
    function = Function(opener_name, None, "reading") if opener_name in HELPERS.values() else None
    return replace(stage, function=function, files=count if count >= 0 else None)


def _repeats(dataset: Any, kind: str, before: tuple[Stage, ...]) -> bool:
    if not all(stage.repeats for stage in before):
        return False
    if kind == "Repeat" and number(dataset, "count") != 1:
        return False  # what comes after it has no end of an epoch
    return kind == "Shuffle" or stage_varies(dataset, trust_python=False) is None


def _nested_stages(graph: Any, called: dict[str, Any], depth: int = 1) -> Iterator[Stage]:
    """Yields the last stages of the datasets that a function returns, if any.

    `called` has the graphs of all functions that are called from it, by name. The stages are nested
    in `depth` functions of the pipeline.
    """
    for output in graph.outputs:
        yield from _stages_behind(output.op, called, depth)


def _stages_behind(operation: Any, called: dict[str, Any], depth: int) -> Iterator[Stage]:
    """Yields the stage that an operation makes, or the stages of its inputs if it makes none."""
    read = [tensor.op for tensor in operation.inputs if tensor.dtype.name == "variant"]
    before = tuple(stage for source in read for stage in _stages_behind(source, called, depth))
    if not _is_dataset(operation):
        yield from before
        return
    function: Function | None = None
    nested: tuple[Stage, ...] = ()
    graphs = [called[name] for name in _function_names(operation) if name in called]
    if graphs:
        work = work_of(_operations(graphs[0], called))
        function = Function(*name_and_location_in_graph(graphs[0], depth), work)
        is_generator = kind_of(operation.type) == PYTHON_GENERATOR
        generator = generator_in_graphs(graphs) if is_generator else None
        if generator is not None:
            function = Function(*generator, "python")
        nested = tuple(
            stage for graph in graphs for stage in _nested_stages(graph, called, depth + 1)
        )
    yield Stage(
        kind=kind_of(operation.type),
        given_name=name_in_graph(operation),
        function=function,
        inputs=before,
        nested=nested,
    )


def _is_dataset(operation: Any) -> bool:
    return "Dataset" in operation.type


def _function_names(operation: Any) -> list[str]:
    attributes = operation.op_def.attr
    return [operation.get_attr(attr.name).name for attr in attributes if attr.type == "func"]


def _operations(graph: Any, called: dict[str, Any]) -> Iterator[str]:
    """Yields the types of all operations that a function runs, including those in its calls."""
    graphs, seen = [graph], set()
    while graphs:
        for operation in graphs.pop().get_operations():
            yield operation.type
            # Work in a nested dataset counts for that dataset.
            if _is_dataset(operation):
                continue
            for name in _function_names(operation):
                if name in called and name not in seen:
                    seen.add(name)
                    graphs.append(called[name])
