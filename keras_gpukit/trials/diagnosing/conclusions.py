"""Summarizes the rounds as rates and ratios with intervals, and applies the rules to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from keras_gpukit.records.diagnosis import Diagnosis, Round
from keras_gpukit.rules.gains import ceiling_gain
from keras_gpukit.rules.input.contention import contention, contradicts
from keras_gpukit.trials.measuring.intervals import summarize


def conclude(rounds: Sequence[Round]) -> Diagnosis:
    """Returns the medians of the rounds and the conclusions from them."""
    ceiling = summarize([each.compute_only / each.actual for each in rounds], "times")
    shortfall = summarize(
        [1 - each.actual / min(each.data_only, each.compute_only) for each in rounds], "share"
    )
    in_sequence = statistics.median(
        each.actual * (1 / each.data_only + 1 / each.compute_only) for each in rounds
    )
    data_only = summarize([each.data_only for each in rounds])
    actual = summarize([each.actual for each in rounds])
    is_contradictory = contradicts(data_only, actual)
    return Diagnosis(
        data_only=data_only,
        compute_only=summarize([each.compute_only for each in rounds]),
        actual=actual,
        ceiling_gain=None if is_contradictory else ceiling_gain(ceiling),
        ceiling_interval=ceiling,
        contention=contention(
            shortfall,
            in_sequence,
            cores_busy_fraction=_median([each.cores_busy_fraction for each in rounds]),
            gil_wait_s=_median([each.gil_wait_s for each in rounds]),
        ),
        rounds=tuple(rounds),
        is_contradictory=is_contradictory,
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
