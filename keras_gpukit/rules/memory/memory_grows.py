"""Whether memory in use keeps growing as a run goes on."""

from __future__ import annotations

from collections.abc import Iterator

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.memory.epoch_growth import (
    FEWEST_EPOCHS,
    WARM_UP,
    growths_between,
    has_enough,
)
from keras_gpukit.rules.memory.growth_causes import cause_of, is_filling
from keras_gpukit.rules.memory.memory_growth import (
    THIS_PROCESS,
    Growth,
    growths_over_time,
    has_enough_readings,
)
from keras_gpukit.rules.rule import Outcome, Rule, figure, too_short
from keras_gpukit.rules.slowdown.change_points import FEWEST

_LOOK_FOR = "look for what is kept: lists of losses or batches, tensors in callbacks, metrics"
_NEW_EACH_TIME = "a new `tf.function`, dataset or model in each step, epoch or fit is kept too"
_CACHE = "`ds.cache()` without a file grows in the first epoch, until it holds all data"


class MemoryGrows(Rule):
    """Memory of the process or of a GPU's allocator that rises steadily until the run's end.

    The rule judges the memory in use between epochs, or between fits of the same callback, if there
    are enough of them. Without enough epochs it also uses one reading per second, which must grow
    by at least a quarter and 256 MiB (our choice). The finding is a remark as long as more memory
    is left than another run of the same length would add, since a cache that fills also grows.
    Otherwise it is a warning; so it is if models that the script keeps made memory grow by a
    quarter (our choice).
    """

    code = "memory-grows"
    subject = "memory growth"
    title = "Memory in use grows as the run goes on"
    requires = (
        f"memory after {WARM_UP + FEWEST_EPOCHS} epochs or fits, or in {FEWEST} readings over time"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the growth that is closest to running out of memory."""
        by_epochs = has_enough(summary, "epoch")
        by_fits = has_enough(summary, "fit")
        if not (by_epochs or by_fits or has_enough_readings(summary)):
            return too_short(f"needs {self.requires}")
        found = [
            each
            for each in (growths_between(summary, "epoch") if by_epochs else ())
            if not is_filling(summary, each)
        ]
        if not found and by_fits:
            found = [*growths_between(summary, "fit")]
        if not found and not by_epochs:
            found = [*growths_over_time(summary)]
        if not found:
            return None
        worst = max(found, key=lambda growth: growth.urgency)
        cause = cause_of(summary, worst)
        unknown = [_LOOK_FOR, *([_CACHE] if worst.per_turn_bytes is None else []), _NEW_EACH_TIME]
        return self.find(
            "warning" if worst.urgency >= 1 or (cause and cause.matters) else "info",
            *_figures(worst),
            *(cause.figures if cause else ()),
            advice=cause.advice if cause else tuple(unknown),
            title=(cause and cause.title) or _title(worst),
        )


def _title(growth: Growth) -> str:
    if growth.per_turn_bytes is None:
        return f"Memory of {growth.where} grows as the run goes on"
    title = f"Memory of {growth.where} grows with each {growth.turn}"
    left = growth.turns_left
    if left is None:
        return title
    full = "the host" if growth.where == THIS_PROCESS else growth.where.partition(" ")[0]
    more = f"1 more {growth.turn}" if left == 1 else f"{left:,} more {growth.turn}s"
    return f"{title}: {full} is full after about {more} at this rate"


def _figures(growth: Growth) -> Iterator[Figure]:
    if growth.per_turn_bytes is not None:
        yield figure(f"each_{growth.turn}_adds", growth.per_turn_bytes, "B")
    yield figure("at_first", growth.before_bytes, "B")
    yield figure("in_the_end", growth.after_bytes, "B")
    if growth.steps is not None:
        yield figure("per_thousand_steps", 1000 * growth.grown_bytes / growth.steps, "B")
    if growth.left_bytes is not None:
        yield figure("left", growth.left_bytes, "B")
