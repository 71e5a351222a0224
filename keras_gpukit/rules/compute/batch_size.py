"""Which batch size to recommend after trials or a prediction, and how much memory to leave free."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.rules import gains

MARGIN = 0.02
"""Share by which a recommended batch size is below the largest that passed its trial. The order of
operations and the fragmentation of memory differ from run to run. Our choice. It makes a failure
rarer, not impossible: if one tensor takes a tenth of the memory, as in "wide dense" of
`benchmarks/batch_size.py`, a size trains in one run and runs out of memory in the next."""
RESOLUTION = 0.02
"""The search for the largest batch size ends once it is known to within this share. Together with
`MARGIN`, less than 5 % is given away."""
WITHHELD = 0.02
"""Share of a batch whose memory is withheld from the last trials. A size that passes them leaves
that much to a fit whose operations run in a worse order. In `benchmarks/batch_size.py`, none of 48
fits ran out of memory with it. Without it, two of eighteen did, at sizes that had passed four
trials.
"""
LOWERED = 0.01
"""Share by which a batch size that fails its last trials is lowered, times the failures so far."""
PREDICTED_MARGIN = 0.1
"""Share of a device's memory to leave free if a batch size is only predicted to fit, as in
`predict_memory` and in the note on an out-of-memory error. A prediction knows neither how memory
fragments nor everything that a step holds; a trial, with its `MARGIN`, has met both. Our choice:
most architectures that were measured needed at most a tenth more than predicted."""


def predicted_limit_bytes(limit_bytes: int) -> int:
    """Returns the most that a step may be predicted to need for its batch size to be advised."""
    return int(limit_bytes * (1 - PREDICTED_MARGIN))


def below_failed(failed: int) -> int:
    """Returns the largest batch size that a prediction may advise after one ran out of memory."""
    return max(1, int(failed * (1 - PREDICTED_MARGIN)))


def with_margin(passed: int) -> int:
    """Returns the batch size to recommend, below the largest one that passed its trial.

    It is smaller by at least one example, unless only one example passed. Otherwise the margin is
    rounded to the nearest example: half an example is a whole percent of a small batch.
    """
    return max(1, min(passed - 1, round(passed * (1 - MARGIN))))


def lowered(failed: int, failures: int) -> int:
    """Returns the next batch size to try after one failed its last trials.

    Each of the failures so far shows that chance decides over a wider range of sizes.
    """
    return max(1, min(failed - 1, round(failed * (1 - failures * LOWERED))))


def without_margin(batch_size: int) -> int:
    """Returns the smallest batch size that has to pass for `batch_size` to be recommended."""
    passed = batch_size + 1
    while with_margin(passed) < batch_size:
        passed += 1
    return passed


def is_near_enough(passed: int, failed: int) -> bool:
    """Whether the largest batch size is known well enough for the search to end."""
    return failed - passed <= max(1, passed * RESOLUTION)


def fastest(rates: Mapping[int, float], input_rate: float | None) -> int | None:
    """Returns the knee: the smallest batch size that trains about as fast as the fastest one.

    Larger batch sizes gain less than 5 %, the smallest gain that counts in `tune_input`. No batch
    size trains faster than its input arrives, so beyond that rate all of them are equal. Rates are
    in examples per second, those by batch size on batches in memory.
    """
    actual = {size: with_input(rate, input_rate) for size, rate in rates.items()}
    best = max(actual.values(), default=0.0)
    return min((size for size in actual if is_as_fast(actual[size], best)), default=None)


def is_as_fast(rate: float, best: float) -> bool:
    """Whether a rate is so close to the best one that the difference does not count."""
    return rate * gains.SMALLEST >= best


def with_input(rate: float, input_rate: float | None) -> float:
    """Returns the training rate that the input allows; without an input rate, the rate itself."""
    return rate if input_rate is None else min(rate, input_rate)


def is_limited_by_input(rates: Mapping[int, float], input_rate: float | None) -> bool | None:
    """Whether the fastest batch size would wait for its input; None if unknown."""
    if not rates or input_rate is None:
        return None
    return input_rate < max(rates.values())
