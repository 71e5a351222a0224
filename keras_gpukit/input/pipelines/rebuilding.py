"""Makes changed pipelines of the same elements: rebuilt, with stages replaced, or made measurable.

To make it measurable, options or a timing stage are put on top, so that tf.data measures its
fetches. The kernels of `LatencyStatsDataset` were seen on TensorFlow 2.21. If one is missing,
fetches are not timed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from keras_gpukit.frameworks import tf_datasets
from keras_gpukit.frameworks.tf_datasets import (
    Dataset,
    functions,
    inputs,
    is_autotuned,
    is_readable,
    kind,
    setting,
    unwrapped,
)
from keras_gpukit.frameworks.tf_functions import is_stateful
from keras_gpukit.frameworks.tf_stages import can_be_rebuilt, over
from keras_gpukit.input.pipelines.functions import helper_of, operations

Change = Callable[[list[Dataset]], Dataset]
"""Function that makes the replacement of a stage from its inputs, which may be new themselves."""


def is_known(stage: Dataset) -> bool:
    """Whether a stage can be rebuilt with other inputs.

    The inside of `make_csv_dataset` counts as unknown: user code could not make it otherwise.
    """
    return can_be_rebuilt(stage) and helper_of(stage) != "make_csv_dataset"


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
    """Rebuilds a pipeline with some of its `changeable` stages replaced, by the stage's `id`."""

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


AUTOTUNE = -1
_FETCH_TIME = "gpukit_fetch_time"
_FETCHES = "fetch"
_numbers = itertools.count()
# Stages after which TensorFlow (2.18 to 2.21) adds no prefetch, since they run ahead on their own.
_RUN_AHEAD = {"MapAndBatch", "ParallelBatch", "ParallelInterleave", "ParallelMap", "Prefetch"}


def with_model(dataset: Any) -> Any:
    """Returns the dataset with autotuning enabled, although none of its stages can be tuned.

    Raises ValueError if a stage asks to be tuned, or the dataset's last stage sets no options.
    """
    # The options replace those that disable autotuning. On top of them, TensorFlow would log a
    # warning.
    if kind(dataset) != "Options" or _asks_to_be_tuned(dataset):
        raise ValueError("a stage asks to be tuned")
    options = tf_datasets.changed_options(dataset)
    options.autotune.enabled = True
    # With autotuning, TensorFlow would make these changes on its own.
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.map_parallelization = False
    return tf_datasets.input_of(dataset).with_options(options)


def _asks_to_be_tuned(dataset: Any) -> bool:
    """Whether a stage, or one nested in it or before it, has a setting of `tf.data.AUTOTUNE`.

    A stage that cannot be read counts as one that has.
    """
    numbers = (setting(dataset, name, None) for name in ("num_parallel_calls", "buffer_size"))
    return (
        not is_readable(dataset)
        or any(number is not None and int(number) == AUTOTUNE for number in numbers)
        or any(_holds_autotune(function.graph) for function in functions(dataset))
        or any(_asks_to_be_tuned(source) for source in tf_datasets.inputs(dataset))
    )


def _holds_autotune(graph: Any) -> bool:
    """Whether a function makes datasets and has the constant; in other functions it is harmless."""
    operations = graph.get_operations()
    return any("Dataset" in operation.type for operation in operations) and any(
        list(operation.get_attr("value").int64_val) == [AUTOTUNE]
        for operation in operations
        if operation.type == "Const"
    )


def with_timed_fetches(dataset: Any) -> Any:
    """Returns the dataset with a stage on top in which tf.data times its fetches.

    With autotuning, TensorFlow appends a prefetch to most pipelines. After the timing stage it
    would hide how long training waits, so we add it before that stage. Raises ValueError if the
    options of an autotuned dataset ask for a prefetch, and if TensorFlow has no such stage.
    """
    import tensorflow as tf

    dataset = with_prefetch_of_its_own(dataset)
    # Without a unique name, all pipelines of the process would share one aggregator.
    totals = tf.raw_ops.StatsAggregatorHandle(shared_name=f"gpukit_fetches_{next(_numbers)}")

    def timed(fetched: Any, layout: dict[str, Any]) -> Any:
        fetched = tf.raw_ops.LatencyStatsDataset(input_dataset=fetched, tag=_FETCHES, **layout)
        return tf.raw_ops.SetStatsAggregatorDataset(
            input_dataset=fetched, stats_aggregator=totals, tag="", counter_prefix="", **layout
        )

    def total_s() -> float:
        serialized = tf.raw_ops.StatsAggregatorSummary(iterator=totals).numpy()
        summary = tf.compat.v1.Summary.FromString(serialized)
        # TensorFlow counts in microseconds, and has no entry before the first fetch. Other entries
        # belong to the stages before, such as how long their functions took.
        return float(sum(stat.histo.sum for stat in summary.value if stat.tag == _FETCHES)) * 1e-6

    dataset = without_further_prefetch(tf_datasets.with_operations(dataset, timed))
    setattr(dataset, _FETCH_TIME, total_s)
    weakref.finalize(dataset, _destroy, totals).atexit = False
    return dataset


def with_prefetch_of_its_own(dataset: Any) -> Any:
    """Returns the dataset with the prefetch that TensorFlow would append if it were the last stage.

    Raises ValueError if the options of an autotuned dataset ask for a prefetch.
    """
    if is_autotuned(dataset) and _would_be_prefetched(dataset, dataset.options()):
        return dataset.prefetch(AUTOTUNE)
    return dataset


def without_further_prefetch(timed: Any) -> Any:
    """Returns a timed dataset to which TensorFlow appends no prefetch: that would hide a wait."""
    import tensorflow as tf

    asked = timed.options().experimental_optimization.inject_prefetch
    if not is_autotuned(timed) or asked is not None:
        return timed
    unchanged = tf.data.Options()
    unchanged.experimental_optimization.inject_prefetch = False
    return timed.with_options(unchanged)


def _destroy(resource: Any) -> None:
    import tensorflow as tf

    with tf.init_scope():  # a dataset may be collected while a function is traced
        tf.raw_ops.DestroyResourceOp(resource=resource)


def _would_be_prefetched(dataset: Any, options: Any) -> bool:
    """Whether TensorFlow would append a prefetch to an autotuned pipeline.

    Raises ValueError if the options ask for it: overruling them would log a warning.
    """
    if options.experimental_optimization.inject_prefetch:
        raise ValueError("its options ask for a prefetch")
    while kind(dataset) == "Options":
        dataset = tf_datasets.input_of(dataset)
    if options.experimental_optimization.inject_prefetch is False or kind(dataset) in _RUN_AHEAD:
        return False
    return not _would_be_made_parallel(dataset, options)


def _would_be_made_parallel(stage: Any, options: Any) -> bool:
    """Whether TensorFlow would parallelize a map at the end; it adds no prefetch after such a map.

    It does so if the map's function is stateless: no variable, random draw or Python function.
    """
    if kind(stage) != "Map" or options.experimental_optimization.map_parallelization is False:
        return False
    return is_readable(stage) and not any(
        is_stateful(node.op) for function in functions(stage) for node in operations(function)
    )


def fetch_time(iterator: Any) -> Callable[[], float] | None:
    """Returns a function for the total time of an iterator's fetches so far, in seconds.

    Returns None if neither the iterator nor its dataset times them.
    """
    for holder in (iterator, tf_datasets.dataset_of(iterator)):
        total_s: Callable[[], float] | None = getattr(holder, _FETCH_TIME, None)
        if total_s is not None:
            return total_s
    return None


def times_its_fetches(iterator: Any) -> bool:
    """Whether an iterator itself times its fetches, as the one for a coordinator's workers does."""
    return hasattr(iterator, _FETCH_TIME)
