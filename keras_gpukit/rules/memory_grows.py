"""Whether memory in use grows for as long as a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.names import HOST_MEMORY, MEMORY_FIGURES, memory_tag
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.change_points import FEWEST
from keras_gpukit.rules.rule import Outcome, Rule
from keras_gpukit.rules.shifts import series_of, shifts_in

LEAST_RATIO = 1.25
LEAST_BYTES = 256 * 2**20
_HOST = "this process"


@dataclass(frozen=True)
class Growth:
    """Memory that grew until the end of a run.

    Attributes:
        where: "this process", or a device such as "GPU:0".
        before_bytes: In use where it began to grow.
        after_bytes: In use in the end.
        steps: Steps in which it grew.
        left_bytes: What there still was in the end; None where that is unknown.
    """

    where: str
    before_bytes: float
    after_bytes: float
    steps: int
    left_bytes: float | None

    @property
    def grown_bytes(self) -> float:
        """By how much it grew."""
        return self.after_bytes - self.before_bytes


class MemoryGrows(Rule):
    """Memory of the process or of a GPU's allocator that rises steadily until the run's end.

    By a quarter and 256 MiB at least, our choice: what TensorFlow and Python keep for themselves
    rises by less. It is a remark while more is left than it grew by, since a cache that fills grows
    likewise; from then on a run as long again would run out of memory.
    """

    code = "memory-grows"
    title = "Memory in use grows as the run goes on"
    requires = f"the memory in use over time, in at least {FEWEST} readings"

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the memory that has the least left for its growth."""
        tags = dict(_tags(summary))
        known = [tag for tag in tags if _is_long(summary, tag)]
        if not known:
            return self.abstain()
        found = [each for tag in known for each in _growths(summary, tag, tags[tag])]
        if not found:
            return None
        worst = max(found, key=_urgency)
        figures = [
            Figure("at first", worst.before_bytes, "B"),
            Figure("in the end", worst.after_bytes, "B"),
            Figure("per 1,000 steps", 1000 * worst.grown_bytes / worst.steps, "B"),
        ]
        if worst.left_bytes is not None:
            figures.append(Figure("left", worst.left_bytes, "B"))
        return self.find(
            "warning" if _urgency(worst) >= 1 else "info",
            *figures,
            advice=(
                "look for what is kept: lists of losses or batches, tensors in callbacks, metrics",
                "ds.cache() without a file grows in the first epoch, until it holds all data",
                "a new tf.function, dataset or model in each step or epoch is kept too",
            ),
            title=f"Memory of {worst.where} grows as the run goes on",
        )


def _tags(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """The series of memory, and whose it is."""
    yield HOST_MEMORY, _HOST
    for device in summary.memory.devices if summary.memory else ():
        yield memory_tag(device.device, MEMORY_FIGURES[0]), device.device


def _is_long(summary: RunSummary, tag: str) -> bool:
    series = series_of(summary, tag)
    return series is not None and len(series.mean) >= FEWEST


def _growths(summary: RunSummary, tag: str, where: str) -> Iterator[Growth]:
    for shift in shifts_in(summary, tag)[-1:]:
        grown = Growth(
            where,
            shift.before,
            shift.after,
            max(shift.end_step - shift.step + 1, 1),
            _left_bytes(summary, where),
        )
        is_large = grown.grown_bytes >= LEAST_BYTES and shift.after >= LEAST_RATIO * shift.before
        if shift.kind == "drift" and is_large and shift.end_s >= _end_s(summary, tag):
            yield grown


def _end_s(summary: RunSummary, tag: str) -> float:
    series = series_of(summary, tag)
    return series.elapsed_s[-1] if series is not None else 0.0


def _left_bytes(summary: RunSummary, where: str) -> float | None:
    if where == _HOST:
        host = summary.utilization.host if summary.utilization else None
        return host.memory_available_min_bytes if host else None
    devices = summary.memory.devices if summary.memory else ()
    limits = {
        each.device: each.limit_bytes - each.current_bytes for each in devices if each.limit_bytes
    }
    return limits.get(where)


def _urgency(growth: Growth) -> float:
    """What it grew by over what is left; 0 where that is unknown."""
    if growth.left_bytes is None:
        return 0.0
    return growth.grown_bytes / max(growth.left_bytes, 1.0)
