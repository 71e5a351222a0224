"""Whether steps wait more for input the longer a run lasts."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TrendPoint
from keras_gpukit.rules.evidence import percent
from keras_gpukit.rules.rule import Outcome, Rule

MINIMUM_POINTS = 10
RISE = 0.20


class InputSlowsDown(Rule):
    """The stall in the last fifth of a run against that in the first.

    A rise of twenty points, as much as makes a run highly input-bound, is our choice; so are the
    ten points of the course below which a fifth is too little to compare.
    """

    code = "input-slows-down"
    title = "Steps wait longer for input as the run goes on"
    requires = f"the course of the input wait in at least {MINIMUM_POINTS} points"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the end with the beginning."""
        trend = summary.input.trend if summary.input else ()
        if len(trend) < MINIMUM_POINTS:
            return self.abstain()
        fifth = len(trend) // 5
        first, last = _stall(trend[:fifth]), _stall(trend[-fifth:])
        if last - first < RISE:
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


def _stall(points: tuple[TrendPoint, ...]) -> float:
    duration_s = sum(point.duration_s for point in points)
    return sum(point.wait_s for point in points) / duration_s if duration_s > 0 else 0.0
