"""Draws conclusions from the rounds: the ceiling, and the cause of contention."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from keras_gpukit.measuring.intervals import summarize
from keras_gpukit.records.diagnosis import Cause, Contention, Diagnosis, Round

# Smaller ones are not worth reporting, and a replayed batch is not quite a fetched one.
SMALLEST_GAIN = 1.05
SMALLEST_SHORTFALL = 0.10
# Relative difference up to which two rates count as equal.
SAME = 0.10
# Training and making batches by turns leaves cores idle now and then. On two cores, pipelines that
# work kept 72 to 97 % of them busy in benchmarks/diagnose_ceiling.py, those that wait up to 35 %;
# the line between is our choice.
CORES_BUSY = 0.70
# A thread woke up 0.1 ms late there, and 0.4 ms or more where a producer held the lock; likewise.
LOCK_WAIT_S = 0.25e-3


def judge(rounds: Sequence[Round]) -> Diagnosis:
    """Summarizes the rounds and draws the conclusions.

    A gain or a shortfall counts if its whole interval is on one side, and if it is large enough
    to matter: 5 % and 10 %, our choice.

    Args:
        rounds: What was measured.
    """
    ceiling = summarize([each.compute_only / each.actual for each in rounds], "times")
    reported = ceiling.low > 1 and ceiling.median >= SMALLEST_GAIN
    return Diagnosis(
        data_only=summarize([each.data_only for each in rounds]),
        compute_only=summarize([each.compute_only for each in rounds]),
        actual=summarize([each.actual for each in rounds]),
        ceiling_gain=ceiling.median if reported else None,
        ceiling_interval=ceiling,
        contention=_contention(rounds),
        rounds=tuple(rounds),
    )


def _contention(rounds: Sequence[Round]) -> Contention | None:
    shortfall = summarize(
        [1 - each.actual / min(each.data_only, each.compute_only) for each in rounds], "share"
    )
    if shortfall.low <= 0 or shortfall.median < SMALLEST_SHORTFALL:
        return None
    cores_busy = _median([each.cores_busy_fraction for each in rounds])
    gil_wait_s = _median([each.gil_wait_s for each in rounds])
    # Time of a batch plus a step, over the actual time; 1 if nothing overlaps.
    one_by_one = statistics.median(
        each.actual * (1 / each.data_only + 1 / each.compute_only) for each in rounds
    )
    return Contention(shortfall, _cause(cores_busy, gil_wait_s, one_by_one), cores_busy, gil_wait_s)


def _cause(cores_busy: float | None, gil_wait_s: float | None, one_by_one: float) -> Cause | None:
    """Recognises a cause; the most specific one first.

    Two tasks that share all cores, or the GIL, take as long together as one after the other. So
    that pattern means "nothing is prepared ahead" only if neither is the case.
    """
    if gil_wait_s is not None and gil_wait_s >= LOCK_WAIT_S:
        return "interpreter lock"
    if cores_busy is not None and cores_busy >= CORES_BUSY:
        return "all cores busy"
    return "nothing ahead" if abs(one_by_one - 1) <= SAME else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
