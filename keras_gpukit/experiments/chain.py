"""A pipeline as a tree of stages: read, changed at one of them, written as code."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from keras_gpukit.experiments import tf_private
from keras_gpukit.experiments.tf_private import Dataset, inputs, kind, unwrapped

Change = Callable[[list[Dataset]], Dataset]
"""Makes a stage's successor from its inputs, which may have changed themselves."""


def stages(dataset: Dataset) -> Iterator[Dataset]:
    """Every stage, a stage before those below it."""
    dataset = unwrapped(dataset)
    yield dataset
    for below in inputs(dataset):
        yield from stages(below)


def changeable(dataset: Dataset) -> list[Dataset]:
    """The stages that can be replaced: those with only known stages above them."""
    dataset = unwrapped(dataset)
    found = [dataset]
    if tf_private.is_known(dataset):
        for below in inputs(dataset):
            found += changeable(below)
    return found


def spine(dataset: Dataset) -> list[Dataset]:
    """The stages from the last one down, as far as each is known and has one input."""
    found = [unwrapped(dataset)]
    while tf_private.is_known(found[-1]) and len(inputs(found[-1])) == 1:
        found.append(inputs(found[-1])[0])
    return found


def replace(dataset: Dataset, changes: Mapping[int, Change]) -> Dataset:
    """Makes a pipeline anew with some stages replaced.

    Args:
        dataset: The pipeline.
        changes: By a stage's `id`, what makes its successor. Each must be one of the `changeable`.
    """

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        if id(stage) in changes:
            return changes[id(stage)](after)
        if all(old is new for old, new in zip(before, after, strict=True)):
            return stage
        return tf_private.over(stage, after)

    return _rebuilt(dataset, made)


def anew(dataset: Dataset) -> Dataset:
    """The same pipeline as another object, so that reading it moves no shuffle of the first on."""

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        return tf_private.over(stage, after) if tf_private.is_known(stage) else stage

    return _rebuilt(dataset, made)


def _rebuilt(
    dataset: Dataset, made: Callable[[Dataset, list[Dataset], list[Dataset]], Dataset]
) -> Dataset:
    # A stage that two others read stays one: a shuffle draws its next order for each of them.
    done: dict[int, Dataset] = {}

    def visit(stage: Dataset) -> Dataset:
        if id(stage) not in done:
            before = inputs(stage) if tf_private.is_known(stage) else []
            done[id(stage)] = made(stage, before, [visit(below) for below in before])
        return done[id(stage)]

    return visit(unwrapped(dataset))


def stack(base: Dataset, above: list[Dataset]) -> Dataset:
    """Puts stages over a base, the lowest first."""
    for stage in above:
        base = tf_private.over(stage, [base])
    return base


def code(before: Dataset, after: Dataset) -> str:
    """The pipeline as it should be written, with what differs marked."""
    old, new = _lines(before), _lines(after)
    marked: list[str] = []
    for step, first, last, start, end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        added = [(line, _MOVED if line in old else _MARKS[step]) for line in new[start:end]]
        gone = [line for line in old[first:last] if line not in new]
        marked += [line + ("" if step == "equal" else mark) for line, mark in added]
        if step == "delete":
            marked += [f"    # without {line.strip()}" for line in gone]
    return "\n".join(["dataset = (", *(f"    {line}" for line in marked), ")"])


_MARKS = {"equal": "", "insert": "  # new", "replace": "  # changed"}
_MOVED = "  # moved here"


def _lines(dataset: Dataset) -> list[str]:
    dataset = unwrapped(dataset)
    below = inputs(dataset)
    if kind(dataset) == "Restructured":  # with the map below it, a part of unbatch()
        return _lines(inputs(below[0])[0])
    if len(below) == 1:
        return [*_lines(below[0]), f"    .{_call(dataset)}"]
    if not below:
        return [f"tf.data.Dataset.{_SOURCES.get(kind(dataset), kind(dataset))}(...)"]
    inner = [[f"    {line}" for line in _lines(each)] for each in below]
    for lines in inner:
        lines[-1] += ","
    return [f"# {kind(dataset).lower()} of", *(line for lines in inner for line in lines)]


_SOURCES = {"TensorSlice": "from_tensor_slices", "Tensor": "from_tensors", "Range": "range"}


def _call(stage: Dataset) -> str:
    name = kind(stage)
    method = _METHODS.get(name, name.lower())
    arguments = [str(each) for each in _arguments(name, stage)] if _is_told(stage) else ["..."]
    return f"{method}({', '.join(arguments)})"


_METHODS = {
    "ParallelMap": "map",
    "FlatMap": "flat_map",
    "ParallelInterleave": "interleave",
    "ParallelBatch": "batch",
    "PaddedBatch": "padded_batch",
    "Options": "with_options",
}


def _is_told(stage: Dataset) -> bool:
    return tf_private.is_known(stage) or kind(stage) == "Cache"


def _arguments(name: str, stage: Any) -> list[str]:
    told: list[str] = []
    if tf_private.functions(stage):
        name_of_function = tf_private.function_name(stage)
        told.append("..." if name_of_function == "<lambda>" else name_of_function)
    if name in {"Interleave", "ParallelInterleave"}:
        told.append(f"cycle_length={_number(stage._cycle_length)}")
        if int(stage._block_length) != 1:
            told.append(f"block_length={int(stage._block_length)}")
    if name in {"Batch", "ParallelBatch"}:
        told.append(_number(stage._batch_size))
        if bool(stage._drop_remainder):
            told.append("drop_remainder=True")
    if name.startswith("Parallel"):
        told.append(f"num_parallel_calls={_number(stage._num_parallel_calls)}")
        if stage._deterministic != "default":
            told.append(f"deterministic={stage._deterministic == 'true'}")
    if name in {"Shuffle", "Prefetch"}:
        told.append(_number(stage._buffer_size))
    if name in {"Take", "Skip", "Repeat"} and int(stage._count) != -1:
        told.append(_number(stage._count))
    if name == "Shuffle":
        if int(stage._seed) or int(stage._seed2):
            told.append("seed=...")
        if not stage._reshuffle_each_iteration:
            told.append("reshuffle_each_iteration=False")
    if name == "Shard":
        told += [_number(stage._num_shards), _number(stage._index)]
    if name == "Cache" and tf_private.cache_file(stage):
        told.append(repr(tf_private.cache_file(stage)))
    if name == "Options":
        told.append("options")
    return told


def _number(value: Any) -> str:
    return "tf.data.AUTOTUNE" if int(value) == -1 else str(int(value))
