"""Whether memory in use grows for as long as a run goes on."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.change_points import FEWEST
from keras_gpukit.rules.epoch_growth import (
    FEWEST_EPOCHS,
    WARM_UP_EPOCHS,
    growths_by_epoch,
    has_enough_epochs,
)
from keras_gpukit.rules.growth_causes import cause_of, is_filling
from keras_gpukit.rules.memory_growth import (
    THIS_PROCESS,
    Growth,
    growths_over_time,
    has_enough_readings,
)
from keras_gpukit.rules.rule import Outcome, Rule

_LOOK_FOR = "look for what is kept: lists of losses or batches, tensors in callbacks, metrics"
_NEW_EACH_TIME = "a new tf.function, dataset or model in each step or epoch is kept too"
_CACHE = "ds.cache() without a file grows in the first epoch, until it holds all data"


class MemoryGrows(Rule):
    """Memory of the process or of a GPU's allocator that rises steadily until the run's end.

    It is judged by what is in use between epochs, where there are enough of them, and else by
    readings of each second: there by a quarter and 256 MiB at least, our choice. It is a remark
    while more is left than it grew by, since a cache that fills grows likewise; from then on a run
    as long again would run out of memory.
    """

    code = "memory-grows"
    title = "Memory in use grows as the run goes on"
    requires = (
        f"the memory in use after {WARM_UP_EPOCHS + FEWEST_EPOCHS} epochs, or in at least {FEWEST} "
        "readings over time"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the memory that has the least left for its growth."""
        by_epochs = has_enough_epochs(summary)
        if not by_epochs and not has_enough_readings(summary):
            return self.abstain()
        growths = growths_by_epoch(summary) if by_epochs else growths_over_time(summary)
        found = [each for each in growths if not (by_epochs and is_filling(summary, each))]
        if not found:
            return None
        worst = max(found, key=lambda growth: growth.urgency)
        cause = cause_of(summary, worst)
        causes = [cause.advice] if cause else [_LOOK_FOR, *([] if by_epochs else [_CACHE])]
        return self.find(
            "warning" if worst.urgency >= 1 else "info",
            *_figures(worst),
            *(cause.figures if cause else ()),
            advice=(*causes, *([] if cause else [_NEW_EACH_TIME])),
            title=_title(worst),
        )


def _title(growth: Growth) -> str:
    if growth.per_epoch_bytes is None:
        return f"Memory of {growth.where} grows as the run goes on"
    title = f"Memory of {growth.where} grows with each epoch"
    left = growth.epochs_left
    if left is None:
        return title
    full = "the host" if growth.where == THIS_PROCESS else growth.where.partition(" ")[0]
    more = "1 more epoch" if left == 1 else f"{left:,} more epochs"
    return f"{title}: {full} is full after about {more} at this rate"


def _figures(growth: Growth) -> Iterator[Figure]:
    if growth.per_epoch_bytes is not None:
        yield Figure("each epoch adds", growth.per_epoch_bytes, "B")
    yield Figure("at first", growth.before_bytes, "B")
    yield Figure("in the end", growth.after_bytes, "B")
    if growth.steps is not None:
        yield Figure("per 1,000 steps", 1000 * growth.grown_bytes / growth.steps, "B")
    if growth.left_bytes is not None:
        yield Figure("left", growth.left_bytes, "B")
