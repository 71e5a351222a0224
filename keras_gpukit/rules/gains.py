"""Whether a measured gain counts, and advice that only the author of a pipeline can follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keras_gpukit.records.tuning import Rate, StageTraits

SMALLEST = 1.05
"""Smallest gain that makes a change worth its line of code; our choice."""
INPUT_MARGIN = 1.1
"""Input alone has all cores; alongside a training step it is slower than measured. Our choice."""


def counts(gain: float, low: float) -> bool:
    """Whether a gain is real and large enough."""
    return low > 1 and gain >= SMALLEST


def ceiling_gain(ratio: Rate) -> float | None:
    """Returns the speed-up that a model would have if its input were free; None if none counts."""
    return ratio.median if counts(ratio.median, ratio.low) else None


def rejected_because(gain: float, low: float, high: float) -> str:
    """Returns why a gain does not count; "" if it does."""
    if counts(gain, low):
        return ""
    if low > 1:
        return "less than 5 % faster"
    return "no faster" if high < SMALLEST else "no gain outside the noise"


def training_gain(before: Rate, tuned: Rate, compute: Rate, *, overlap_is_new: bool) -> float:
    """Estimates how much faster steps get with a tuned input.

    If batches are made while the model trains, the slower of the two sets the pace. It is no bound:
    the start of each epoch, such as filling a shuffle buffer, and cores that input and model share
    are not in these rates, each of which is of the input or of the model alone. `overlap_is_new` if
    only the tuned input makes batches while the model trains.
    """
    slower = min(before.median, compute.median)
    if overlap_is_new:
        slower = 1 / (1 / before.median + 1 / compute.median)
    return max(min(tuned.median, compute.median) / slower, 1.0)


def input_suffices(input_rate: Rate, compute_rate: Rate | None) -> bool:
    """Whether the input delivers batches faster than the model trains; False without a model."""
    return compute_rate is not None and input_rate.median >= INPUT_MARGIN * compute_rate.median


SMALL_BATCH = 16
"""Batch size below which a larger one is advised; our choice.

Fetching a batch and starting a step cost the same for one example as for a hundred.
"""
WITHIN = (
    "Of a PyDataset, only workers, max_queue_size and use_multiprocessing can be tried; what "
    "__getitem__ does is Python code of its author."
)
"""Limits of tuning a `keras.utils.PyDataset`."""
PROCESSES = (
    "Where __getitem__ computes in Python or NumPy, threads share one interpreter: "
    "processes (use_multiprocessing=True, tried with try_processes=True) do not."
)
"""Advice for a `keras.utils.PyDataset` whose workers are threads."""


_CACHE_FIRST = "it comes before the shuffle, or every epoch has the order of the first."


def advise(stages: Iterable[StageTraits], *, cache_pays: bool = False) -> list[str]:
    """Returns what to change by hand, one change per line."""
    return list(dict.fromkeys(line for stage in stages for line in _about(stage, cache_pays)))


def _about(stage: StageTraits, cache_pays: bool) -> Iterator[str]:
    name, below = stage.function, stage.function_below
    if stage.caches_what_varies:
        yield (
            "The cache holds what should differ from epoch to epoch "
            f"({stage.caches_what_varies}): cache before that stage."
        )
    if stage.batch_size is not None and stage.batch_size < SMALL_BATCH:
        yield (
            f"Batches of {stage.batch_size}: a larger batch costs little more to fetch and to "
            "train on; adapt the learning rate."
        )
    if stage.batch_size is not None and below:
        yield (
            f"If {below} can take whole batches, call it after batch(): one call for each batch "
            "in place of one for each element."
        )
    if stage.gives_single_elements:
        yield (
            f"{name} makes a dataset of a single element each time: call what it does in map() "
            "with num_parallel_calls instead."
        )
    if stage.shuffle_buffer is not None and below:
        yield (
            f"Shuffle before {below}: the order is the same, and the buffer of "
            f"{stage.shuffle_buffer} elements holds what {below} is given, not what it makes."
            + (f" Not with a cache: {_CACHE_FIRST}" if cache_pays else "")
        )
    if stage.is_python:
        yield (
            f"{'The generator' if stage.is_generator else name} runs in Python, one call at a "
            "time: write it with TensorFlow's operations, or make it a keras.utils.PyDataset with "
            "several workers."
        )
