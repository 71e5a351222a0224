"""Whether steps wait more for input the longer a run lasts."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeSeriesPoint
from keras_gpukit.rules.input_bound import SHORTEST_WAIT_S
from keras_gpukit.rules.rule import Outcome, Rule, percent

MINIMUM_POINTS = 10
MINIMUM_STEPS = 10
MINIMUM_S = 1.0
RISE = 0.20


class InputSlowsDown(Rule):
    """The stall in the last fifth of a run against that in the first.

    A rise of twenty points, as much as makes a run highly input-bound, is our choice; so are the
    ten samples, ten steps and one second below which a fifth is too little to compare.
    Waits of under 0.25 ms a step are none, and an upper bound may rise while the stall does not.
    """

    code = "input-slows-down"
    title = "Steps wait longer for input as the run goes on"
    requires = (
        f"a known input wait over time in at least {MINIMUM_POINTS} samples, of {MINIMUM_STEPS} "
        "steps each fifth"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the end with the beginning."""
        record = summary.input
        if record is None or record.confidence == "upper bound":
            return self.abstain()
        time_series, fifth = record.time_series, len(record.time_series) // 5
        ends = time_series[:fifth], time_series[-fifth:]
        if len(time_series) < MINIMUM_POINTS or not all(map(_is_enough, ends)):
            return self.abstain()
        first, last = map(_stall, ends)
        if last - first < RISE or _wait_s(ends[1]) < SHORTEST_WAIT_S:
            return None
        return self.find(
            "warning",
            percent("input stall at first", first),
            percent("in the end", last),
            advice=(
                "look for what grows: lists kept between batches, a cache, memory in use",
                "storage that slows down after a burst: copy the data to a local disk first",
                "a producer that heats up, or other processes that began meanwhile",
            ),
        )


def _is_enough(points: tuple[TimeSeriesPoint, ...]) -> bool:
    steps, duration_s = sum(p.steps for p in points), sum(p.duration_s for p in points)
    return steps >= MINIMUM_STEPS and duration_s >= MINIMUM_S


def _stall(points: tuple[TimeSeriesPoint, ...]) -> float:
    return sum(point.wait_s for point in points) / sum(point.duration_s for point in points)


def _wait_s(points: tuple[TimeSeriesPoint, ...]) -> float:
    return sum(point.wait_s for point in points) / sum(point.steps for point in points)
