"""Which changes can be tried, what findings promise of them, and whether a measured gain counts.

Also what only the author of a pipeline can change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.tuning import Promise, Rate, StageTraits, TriedChange
from keras_gpukit.rules.savings import time_of_steps_s
from keras_gpukit.rules.verdict import RULES

CHANGES = (
    "input",
    "graph",
    "jit",
    "no-jit",
    "steps-per-execution",
    "mixed-precision",
    "memory-pool",
    "batch-size",
)
"""Names of all changes, in the order in which they are tried unless findings promise more."""

TRIED_BY = {rule.code: rule.tried_by for rule in RULES if rule.tried_by}
"""Changes that a finding advises, by the code of its rule. Findings without one here advise what
only the author of the model can change."""

TOLERANCE = 0.05
"""Largest difference of the loss after the same examples, as a share of it, at which a change
counts as leaving the training as it was; our choice."""


def changes_to_try(asked: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the changes that codes of rules or names of changes stand for."""
    names: list[str] = []
    for key in asked:
        found = (key,) if key in CHANGES else TRIED_BY.get(key)
        if found is None:
            raise ValueError(
                f"there is no change to try for {key!r}. Changes: {', '.join(CHANGES)}; codes of "
                f"findings: {', '.join(TRIED_BY)}"
            )
        names += [name for name in found if name not in names]
    return tuple(names)


def promises(summary: RunSummary) -> tuple[Promise, ...]:
    """Returns the gains that the findings on a run promise for the rate of its steps."""
    steps_s, found = time_of_steps_s(summary), []
    for finding in summary.findings:
        if finding.code in TRIED_BY and finding.saving is not None and steps_s > 0:
            low, high = (
                steps_s / (steps_s - saved_s) if saved_s is not None and saved_s < steps_s else None
                for saved_s in (finding.saving.low_s, finding.saving.high_s)
            )
            found.append(Promise(finding.code, low or 1.0, high))
    return tuple(found)


def promise_of(change: str, made: Sequence[Promise]) -> Promise | None:
    """Returns what was promised for a change; the largest promise if several findings name it."""
    of_change = [promise for promise in made if change in TRIED_BY.get(promise.code, ())]
    return max(of_change, key=lambda promise: promise.high or promise.low, default=None)


def by_hand(
    findings: Sequence[Finding], tried: Sequence[TriedChange], left: Collection[str]
) -> Finding | None:
    """Returns the first finding that costs time and that no change helped, or could if tried."""
    may_help = {trial.change for trial in tried if trial.kept}.union(left)
    for finding in findings:
        is_costly = finding.severity != "info" and finding.saving and finding.advice
        if is_costly and may_help.isdisjoint(TRIED_BY.get(finding.code, ())):
            return finding
    return None


def in_order(names: Sequence[str], made: Sequence[Promise]) -> tuple[str, ...]:
    """Returns the names of changes, those that findings promise the most of first."""

    def promised(name: str) -> float:
        promise = promise_of(name, made)
        return -(promise.high or promise.low) if promise else -1.0

    return tuple(sorted(names, key=promised))


def changes_the_loss(ratio: float | None, tolerance: float) -> str:
    """Returns why a change does not leave the training as it was, by its loss; "" if it does."""
    if ratio is None or abs(ratio - 1) <= tolerance:
        return ""
    if ratio != ratio:
        return "changes the loss: it is not a number"
    more = "higher" if ratio > 1 else "lower"
    return f"changes the loss: {100 * abs(ratio - 1):.0f} % {more} after the same examples"


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
