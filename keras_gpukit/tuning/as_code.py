"""Writes a pipeline as the Python code that makes it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    cache_file,
    functions,
    inputs,
    is_zip_of_a_tuple,
    kind,
    number,
    setting,
    stages,
    unwrapped,
)
from keras_gpukit.input.pipelines.functions import (
    BATCHES,
    function_name,
    helper_of,
    is_tensorflows,
    makes_a_generator,
)
from keras_gpukit.input.pipelines.randomness import MODE, served
from keras_gpukit.input.pipelines.rebuilding import is_known

TUNING_OPTIONS = "tuning_options"
"""Variable name in the code for the options that tuning adds. It differs from `options`, which the
user's code may already have."""


def code(before: Dataset, after: Dataset) -> str:
    """Returns the code of a changed pipeline, with comments on the lines that differ."""
    old, new = _lines(before), _lines(after)
    if new[: len(old)] == old:  # the user's own variable is all that comes before what is new
        old, new = ["dataset"], ["dataset", *new[len(old) :]]
    marked: list[str] = []
    for step, first, last, start, end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        mark = _MARKS.get(step, "")
        marked += [line + (_MOVED if mark and line in old else mark) for line in new[start:end]]
        if step == "delete":
            gone = [line for line in old[first:last] if line not in new]
            marked += [f"    # without {line.strip()}" for line in gone]
    return "\n".join(["dataset = (", *(f"    {line}" for line in marked), ")"])


_MARKS = {"insert": "  # new", "replace": "  # changed"}
_MOVED = "  # moved here"


def _lines(dataset: Dataset) -> list[str]:
    dataset = unwrapped(dataset)
    if moved := served(dataset):
        call = f'.apply(tf.data.experimental.service.distribute("{MODE}", "{moved.service}"))'
        return [*_lines(moved.stage), f"    {call}"]
    name, below = kind(dataset), inputs(dataset)
    if called := _helper_call(dataset):
        return [called]
    if name == "Restructured":  # unbatch() consists of this stage and the map below it
        return _lines(inputs(below[0])[0])
    if name == "Zip" and below:
        flat = is_zip_of_a_tuple(dataset)
        parts = [[*lines[:-1], lines[-1] + ","] for lines in map(_lines, below)]
        first = "tf.data.Dataset.zip(" + ("" if flat else "  # in the structure that it has")
        return [first, *_indented(line for lines in parts for line in lines), ")"]
    if name == "Concatenate" and below:
        other = [".concatenate(", *_indented(_lines(below[1])), ")"]
        return [*_lines(below[0]), *_indented(other)]
    if makes_a_generator(dataset):
        return ["tf.data.Dataset.from_generator(...)"]
    method = _method(name)
    if method is None or len(below) > 1:
        # Tuning cannot have changed this stage or any stage below it.
        return [f"# {name} as it is", "..."]
    if below:
        is_shown = is_known(dataset) or name == "Cache"
        arguments = ", ".join(_arguments(name, dataset)) if is_shown else "..."
        return [*_lines(below[0]), f"    .{method}({arguments})"]
    return [f"tf.data.Dataset.{method}(...)"]


def _helper_call(dataset: Dataset) -> str | None:
    """Returns the call of the helper that made a stage and all before it; None if none did."""
    joined = inputs(dataset) if kind(dataset) in {"Zip", "Prefetch"} else []
    # `make_csv_dataset` ends with a prefetch.
    parts = [stage for stage in joined if kind(dataset) == "Zip" or helper_of(stage) == _CSV]
    helper = helper_of(dataset) or next(filter(None, map(helper_of, parts)), None)
    if helper is None:
        return None
    if helper == _CSV:
        return f"tf.data.experimental.{_CSV}(...)"
    orders = any(kind(stage) == "Shuffle" for stage in stages(dataset))
    return f"keras.utils.{helper}(..., batch_size=None{'' if orders else ', shuffle=False'})"


_CSV = "make_csv_dataset"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _method(name: str) -> str | None:
    """Returns the name of the `tf.data.Dataset` method for a kind of stage; None if unknown."""
    import tensorflow as tf

    method = _METHODS.get(name) or re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return method if hasattr(tf.data.Dataset, method) else None


_METHODS = {
    "Tensor": "from_tensors",
    "TensorSlice": "from_tensor_slices",
    "ParallelMap": "map",
    "ParallelInterleave": "interleave",
    "ParallelBatch": "batch",
    "Options": "with_options",
}


def _arguments(name: str, stage: Any) -> list[str]:
    given: list[str] = []
    if functions(stage):
        name_of_function = function_name(stage)
        is_name = all(part.isidentifier() for part in name_of_function.split("."))
        given.append(name_of_function if is_name and not is_tensorflows(stage) else "...")
    if name in {"Interleave", "ParallelInterleave"}:
        given.append(f"cycle_length={_in_code(number(stage, 'cycle_length'))}")
        if number(stage, "block_length") != 1:
            given.append(f"block_length={number(stage, 'block_length')}")
    if name in BATCHES:
        given.append(_in_code(number(stage, "batch_size")))
        if name == "PaddedBatch":
            given.append("...")
        if bool(setting(stage, "drop_remainder")):
            given.append("drop_remainder=True")
    if name.startswith("Parallel"):
        given.append(f"num_parallel_calls={_in_code(number(stage, 'num_parallel_calls'))}")
        if setting(stage, "deterministic") != "default":
            given.append(f"deterministic={setting(stage, 'deterministic') == 'true'}")
    if name in {"Shuffle", "Prefetch"}:
        given.append(_in_code(number(stage, "buffer_size")))
    if name in {"Take", "Skip", "Repeat"} and number(stage, "count") != -1:
        given.append(_in_code(number(stage, "count")))
    if name == "Shuffle":
        if number(stage, "seed") or number(stage, "seed2"):
            given.append("seed=...")
        if not setting(stage, "reshuffle_each_iteration"):
            given.append("reshuffle_each_iteration=False")
    if name == "Shard":
        given += [_in_code(number(stage, "num_shards")), _in_code(number(stage, "index"))]
    if name == "Cache" and cache_file(stage):
        given.append(repr(cache_file(stage)))
    if name == "Options":
        given.append(TUNING_OPTIONS if setting(stage, "name") == TUNING_OPTIONS else "options")
    return given


def _in_code(value: int) -> str:
    return "tf.data.AUTOTUNE" if value == -1 else str(value)
