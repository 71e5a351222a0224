"""Rebuilds a pipeline, unchanged or with some stages replaced, and single stages.

A stage is rebuilt from its operation, with the function that was traced and the seeds that were
drawn when user code made it: nothing is traced again, and no random number is drawn. If private
names of a stage are missing, it counts as unknown, and tuning leaves it unchanged.

Private names, seen on TensorFlow 2.21: `DatasetV2._variant_tensor`, `._common_args`, and the
attributes of the stages' classes in `tensorflow.python.data.ops`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from keras_gpukit.input.pipelines.functions import helper_of
from keras_gpukit.input.pipelines.kinds import kind
from keras_gpukit.input.pipelines.structure import Dataset, inputs, is_readable, unwrapped
from keras_gpukit.input.pipelines.tf_private import initialize, nest, parallel_form

Change = Callable[[list[Dataset]], Dataset]
"""Function that makes the replacement of a stage from its inputs, which may be new themselves."""
_IN_PARALLEL = "num_parallel_calls deterministic"
_BATCHES = "batch_size drop_remainder"
_INTERLEAVES = "other_arguments f cycle_length block_length"
OPERATIONS = {
    "Restructured": (None, ""),
    "Map": (
        "MapDataset",
        "other_arguments f use_inter_op_parallelism preserve_cardinality force_synchronous",
    ),
    "ParallelMap": (
        "ParallelMapDatasetV2",
        f"other_arguments f {_IN_PARALLEL} use_inter_op_parallelism preserve_cardinality "
        "use_unbounded_threadpool",
    ),
    "Filter": ("FilterDataset", "other_arguments predicate"),
    "FlatMap": ("FlatMapDataset", "other_arguments f"),
    "Interleave": ("InterleaveDataset", _INTERLEAVES),
    "ParallelInterleave": (
        "ParallelInterleaveDatasetV4",
        f"{_INTERLEAVES} {_IN_PARALLEL} buffer_output_elements prefetch_input_elements",
    ),
    "Batch": ("BatchDatasetV2", _BATCHES),
    "ParallelBatch": ("ParallelBatchDataset", f"{_BATCHES} {_IN_PARALLEL}"),
    "PaddedBatch": ("PaddedBatchDatasetV2", f"{_BATCHES} padded_shapes padding_values"),
    "Unbatch": ("UnbatchDataset", ""),
    "Shuffle": (
        "ShuffleDatasetV3",
        "buffer_size seed seed2 seed_generator reshuffle_each_iteration",
    ),
    "Prefetch": ("PrefetchDataset", "buffer_size legacy_autotune"),
    "Take": ("TakeDataset", "count"),
    "Skip": ("SkipDataset", "count"),
    "Repeat": ("RepeatDataset", "count"),
    "Shard": ("ShardDataset", "num_shards index"),
}
"""The operation behind each kind of stage, and its arguments, which the stage's attributes hold."""


def over(stage: Dataset, below: list[Dataset]) -> Dataset:
    """Returns the same stage with other inputs.

    Raises:
        KeyError: If the stage's kind is unknown.
    """
    import tensorflow as tf

    name = kind(stage)
    if name == "Zip":
        structure = nest().pack_sequence_as(stage._datasets, below)
        return tf.data.Dataset.zip(structure, name=stage._name)
    if name == "Concatenate":
        return below[0].concatenate(below[1], name=stage._name)
    if name == "Options":
        return below[0].with_options(stage._options_attr, name=stage._name)
    if name == "Random":
        return _random(stage)
    return _made(copy.copy(stage), below[0])


def is_known(stage: Dataset) -> bool:
    """Whether a stage can be rebuilt with other inputs.

    The inside of `make_csv_dataset` counts as unknown: user code could not make it otherwise.
    """
    import tensorflow as tf

    name = kind(stage)
    if not is_readable(stage) or helper_of(stage) == "make_csv_dataset":
        return False
    if name in {"Zip", "Concatenate"}:
        return name == "Concatenate" or hasattr(stage, "_datasets")
    if name == "Options":
        return hasattr(stage, "_options_attr")
    if name == "Random":
        return hasattr(tf.raw_ops, "RandomDatasetV2") and hasattr(stage, "_rerandomize")
    if name not in OPERATIONS or not hasattr(stage, "_input_dataset"):
        return False
    operation, arguments = OPERATIONS[name]
    try:
        for argument in arguments.split():
            _argument(stage, argument)
    except AttributeError:
        return False
    if operation is None:
        return True
    return hasattr(tf.raw_ops, operation) and hasattr(stage, "_common_args")


def _argument(stage: Dataset, name: str) -> Any:
    """Returns an argument of the operation behind a stage.

    Raises:
        AttributeError: If the stage has no such attribute.
    """
    import tensorflow as tf

    if name in ("f", "predicate", "other_arguments"):
        called = stage._predicate if kind(stage) == "Filter" else stage._map_func
        return called.function.captured_inputs if name == "other_arguments" else called.function
    if name == "seed_generator":
        return tf.raw_ops.DummySeedGenerator()
    if name == "legacy_autotune":
        return int(stage._buffer_size) == tf.data.AUTOTUNE
    value = getattr(stage, f"_{name}")
    return nest().flatten(value) if name in ("padded_shapes", "padding_values") else value


def in_parallel(
    stage: Dataset, below: Dataset, deterministic: str, cycle_length: int | None = None
) -> Dataset:
    """Returns the parallel form of a serial `map`, `batch`, `interleave` or `flat_map`.

    Args:
        stage: The serial stage.
        below: Input of the parallel stage.
        deterministic: "true", "false", or "default" for the setting in the pipeline's options.
        cycle_length: Number of inputs, such as files, that are read in turn. None keeps the
            stage's own number, which is 1 for a `flat_map`. Unused for `map` and `batch`.
    """
    import tensorflow as tf

    autotune = tf.constant(tf.data.AUTOTUNE, tf.int64)
    form: Any = parallel_form(kind(stage))
    parallel = object.__new__(form)
    parallel.__dict__.update(copy.copy(stage).__dict__)
    parallel._num_parallel_calls = autotune
    parallel._deterministic = deterministic
    if kind(stage) == "Map":
        parallel._use_unbounded_threadpool = False
    if kind(stage) in {"Interleave", "FlatMap"}:
        parallel._buffer_output_elements = parallel._prefetch_input_elements = autotune
        if kind(stage) == "FlatMap":
            parallel._cycle_length = parallel._block_length = tf.constant(1, tf.int64)
        if cycle_length is not None:
            parallel._cycle_length = tf.constant(cycle_length, tf.int64)
    return _made(parallel, below)


def with_buffer(stage: Dataset, below: Dataset, buffer_size: int) -> Dataset:
    """Returns a `shuffle` stage with another input and buffer size."""
    import tensorflow as tf

    shuffle = copy.copy(stage)
    shuffle._buffer_size = tf.constant(buffer_size, tf.int64)
    return _made(shuffle, below)


def _made(stage: Any, below: Dataset) -> Dataset:
    import tensorflow as tf

    operation, names = OPERATIONS[kind(stage)]
    stage._input_dataset = below
    variant = below._variant_tensor
    if operation is not None:
        made = getattr(tf.raw_ops, operation)
        common = dict(stage._common_args)
        if operation == "PaddedBatchDatasetV2":  # the only one that infers its output types
            del common["output_types"]
        arguments = {name: _argument(stage, name) for name in names.split()}
        variant = made(input_dataset=variant, **arguments, **common)
    initialize(stage, variant, below)
    return stage


def _random(stage: Any) -> Dataset:
    import tensorflow as tf

    if not stage._rerandomize:
        return stage  # it yields the same numbers in each iteration
    made = copy.copy(stage)
    variant = tf.raw_ops.RandomDatasetV2(
        seed=stage._seed,
        seed2=stage._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        **stage._common_args,
    )
    initialize(made, variant)
    return made


def draws_orders(stage: Dataset) -> bool:
    """Whether a stage has a seed, and draws another order or other numbers on each reading."""
    if kind(stage) not in {"Shuffle", "Random"} or not is_known(stage):
        return False
    seeded = int(stage._seed) or int(stage._seed2)
    goes_on = stage._reshuffle_each_iteration if kind(stage) == "Shuffle" else stage._rerandomize
    return bool(seeded and goes_on)


def changeable(dataset: Dataset) -> list[Dataset]:
    """Returns the stages that can be replaced: all stages between them and training are known."""
    dataset = unwrapped(dataset)
    found = [dataset]
    if is_known(dataset):
        for below in inputs(dataset):
            found += changeable(below)
    return found


def spine(dataset: Dataset) -> list[Dataset]:
    """Returns the stages from the last one back, as long as each is known and has one input."""
    found = [unwrapped(dataset)]
    while is_known(found[-1]) and len(inputs(found[-1])) == 1:
        found.append(inputs(found[-1])[0])
    return found


def replace(dataset: Dataset, changes: Mapping[int, Change]) -> Dataset:
    """Rebuilds a pipeline with some stages replaced.

    Args:
        dataset: The pipeline.
        changes: Functions that make replacements, by the `id` of the stage to replace. Each of
            these stages must be one of `changeable`.
    """

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        if id(stage) in changes:
            return changes[id(stage)](after)
        if all(old is new for old, new in zip(before, after, strict=True)):
            return stage
        return over(stage, after)

    return _rebuilt(dataset, made)


def rebuilt(dataset: Dataset) -> Dataset:
    """Returns the same pipeline as a new object; reading it advances no shuffle of the original.

    The exception are stages of unknown kind and all before them: both pipelines share these.
    """

    def made(stage: Dataset, before: list[Dataset], after: list[Dataset]) -> Dataset:
        return over(stage, after) if is_known(stage) else stage

    return _rebuilt(dataset, made)


def _rebuilt(
    dataset: Dataset, made: Callable[[Dataset, list[Dataset], list[Dataset]], Dataset]
) -> Dataset:
    # A stage that two others read stays one stage: each reading of a shuffle draws the next order.
    done: dict[int, Dataset] = {}

    def visit(stage: Dataset) -> Dataset:
        if id(stage) not in done:
            before = inputs(stage) if is_known(stage) else []
            done[id(stage)] = made(stage, before, [visit(below) for below in before])
        return done[id(stage)]

    return visit(unwrapped(dataset))


def stack(base: Dataset, above: list[Dataset]) -> Dataset:
    """Returns a pipeline with further stages appended to a base, in the given order."""
    for stage in above:
        base = over(stage, [base])
    return base
