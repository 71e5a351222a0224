"""Single stages of a pipeline, made again over other inputs.

A stage is rebuilt from its operation, with the function that was traced and the seeds that were
drawn when user code made it: nothing is traced again, and no random number is drawn. A
stage that lacks an attribute counts as unknown, and tuning leaves it unchanged.
"""

from __future__ import annotations

import copy
from typing import Any

from keras_gpukit.frameworks.tf_datasets import Dataset, is_readable, kind, setting

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
    """Returns the same stage with other inputs; raises KeyError if its kind is unknown."""
    import tensorflow as tf

    name = kind(stage)
    if name == "Zip":
        structure = _nest().pack_sequence_as(stage._datasets, below)
        return tf.data.Dataset.zip(structure, name=stage._name)
    if name == "Concatenate":
        return below[0].concatenate(below[1], name=stage._name)
    if name == "Options":
        return below[0].with_options(stage._options_attr, name=stage._name)
    if name == "Random":
        return _random(stage)
    return _made(copy.copy(stage), below[0])


def can_be_rebuilt(stage: Dataset) -> bool:
    """Whether a stage has all names that `over` needs."""
    import tensorflow as tf

    name = kind(stage)
    if not is_readable(stage):
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
    """Returns an argument of the operation behind a stage; raises if it has no such attribute."""
    import tensorflow as tf

    if name in ("f", "predicate", "other_arguments"):
        called = stage._predicate if kind(stage) == "Filter" else stage._map_func
        return called.function.captured_inputs if name == "other_arguments" else called.function
    if name == "seed_generator":
        return tf.raw_ops.DummySeedGenerator()
    if name == "legacy_autotune":
        return int(stage._buffer_size) == tf.data.AUTOTUNE
    value = setting(stage, name)
    return _nest().flatten(value) if name in ("padded_shapes", "padding_values") else value


def in_parallel(
    stage: Dataset, below: Dataset, deterministic: str, cycle_length: int | None = None
) -> Dataset:
    """Returns the parallel form of a serial `map`, `batch`, `interleave` or `flat_map`.

    `deterministic` is "true", "false", or "default" for the setting in the pipeline's options. An
    `interleave` keeps its own `cycle_length`, and a `flat_map` has 1, unless one is given.
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
    """Gives a copy of a stage its input, and the operation that makes it; returns the copy."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

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
    dataset_ops.UnaryDataset.__init__(stage, below, variant)
    return stage


def _random(stage: Any) -> Dataset:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

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
    dataset_ops.DatasetSource.__init__(made, variant)
    return made


def draws_orders(stage: Dataset) -> bool:
    """Whether a stage has a seed, and draws another order or other numbers on each reading."""
    if kind(stage) not in {"Shuffle", "Random"} or not can_be_rebuilt(stage):
        return False
    seeded = int(stage._seed) or int(stage._seed2)
    goes_on = stage._reshuffle_each_iteration if kind(stage) == "Shuffle" else stage._rerandomize
    return bool(seeded and goes_on)


def parallel_form(kind: str) -> Any | None:
    """Returns the class of the parallel form of a kind of stage; None if it has none."""
    try:
        from tensorflow.python.data.ops import batch_op, interleave_op, map_op
    except ImportError:
        return None
    module, name = {
        "Map": (map_op, "_ParallelMapDataset"),
        "Batch": (batch_op, "_ParallelBatchDataset"),
        "Interleave": (interleave_op, "_ParallelInterleaveDataset"),
        "FlatMap": (interleave_op, "_ParallelInterleaveDataset"),
    }.get(kind, (None, ""))
    return getattr(module, name, None)


def _nest() -> Any:
    """Returns tf.data's own module for nested structures, which keeps lists as they are."""
    from tensorflow.python.data.util import nest

    return nest
