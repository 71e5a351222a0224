"""Which batch size to recommend, by trials or by a prediction, and how much either leaves free."""

from __future__ import annotations

from collections.abc import Mapping

from keras_gpukit.rules import gains

MARGIN = 0.02
"""Share by which a recommended batch size is below the largest that passed its trial: the order of
operations and the pieces that memory is divided into differ from run to run. Our choice. It makes a
failure rarer, not impossible: where one tensor takes a tenth of the memory, as in "wide dense" of
`benchmarks/batch_size.py`, a size trains in one run and runs out in the next."""
RESOLUTION = 0.02
"""Share of a batch size within which the search for the largest one ends. With `MARGIN`, less than
5 % is given away."""
WITHHELD = 0.02
"""Share of a batch whose memory the last trials have to do without: each that passes leaves that
much to a fit whose operations come in a worse order. With it none of 48 fits ran out of memory in
`benchmarks/batch_size.py`; without it, of sizes that had passed four trials, two of eighteen."""
LOWERED = 0.01
"""Share by which a batch size is lowered that fails its last trials; each time by as much more."""
PREDICTED_MARGIN = 0.1
"""Share of a device's memory that a batch size leaves free which is only predicted to fit, as in
`predict_memory` and in the note on an out-of-memory error. A prediction knows neither which pieces
the memory is divided into nor all that a step holds; a trial, with its `MARGIN`, has met both. Our
choice: most architectures that were measured needed at most a tenth more than predicted."""


def predicted_limit_bytes(limit_bytes: int) -> int:
    """Returns what a step may be predicted to need if it is to be recommended.

    Args:
        limit_bytes: What the device gives.
    """
    return int(limit_bytes * (1 - PREDICTED_MARGIN))


def below_failed(failed: int) -> int:
    """Returns the largest batch size that a prediction may recommend after one ran out of memory.

    Args:
        failed: That one, whatever it was predicted to need.
    """
    return max(1, int(failed * (1 - PREDICTED_MARGIN)))


def with_margin(passed: int) -> int:
    """Returns the batch size to recommend: at least one example less, if there is more than one.

    The margin is rounded: of small batch sizes, half an example more is a further percent.
    """
    return max(1, min(passed - 1, round(passed * (1 - MARGIN))))


def lowered(failed: int, failures: int) -> int:
    """Returns the next batch size to recommend where one failed its last trials.

    Args:
        failed: That one.
        failures: How many have failed: each shows that chance decides over a wider range.
    """
    return max(1, min(failed - 1, round(failed * (1 - failures * LOWERED))))


def without_margin(batch_size: int) -> int:
    """Returns the smallest batch size which, if it passes, allows to recommend another."""
    passed = batch_size + 1
    while with_margin(passed) < batch_size:
        passed += 1
    return passed


def is_near_enough(passed: int, failed: int) -> bool:
    """Whether the largest batch size is known well enough for the search to end.

    Args:
        passed: The largest that passed its trial; 0 without any.
        failed: The smallest that did not.
    """
    return failed - passed <= max(1, passed * RESOLUTION)


def fastest(rates: Mapping[int, float], input_rate: float | None) -> int | None:
    """Returns the knee: the smallest batch size that trains about as fast as any.

    Larger ones bring less than the smallest gain that counts in `tune_input`, 5 %. No batch size
    trains faster than the input comes, so beyond that rate none is better than another.

    Args:
        rates: Examples per second from memory, by batch size.
        input_rate: Examples per second of the input; None where it was not measured.
    """
    actual = {size: with_input(rate, input_rate) for size, rate in rates.items()}
    best = max(actual.values(), default=0.0)
    return min((size for size in actual if is_as_fast(actual[size], best)), default=None)


def is_as_fast(rate: float, best: float) -> bool:
    """Whether a rate is so near to the best that a change would not count."""
    return rate * gains.SMALLEST >= best


def with_input(rate: float, input_rate: float | None) -> float:
    """A rate of training, as far as the input allows."""
    return rate if input_rate is None else min(rate, input_rate)


def is_limited_by_input(rates: Mapping[int, float], input_rate: float | None) -> bool | None:
    """Whether the fastest batch size would wait for its input; None where that is unknown."""
    if not rates or input_rate is None:
        return None
    return input_rate < max(rates.values())
