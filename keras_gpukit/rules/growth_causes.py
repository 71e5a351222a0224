"""What makes memory grow from epoch to epoch, where the readings show it."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.epoch_memory import EpochMemory
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.memory_growth import THIS_PROCESS, Growth

MOSTLY = 0.5
"""The part of the growth that a cause must make; our choice."""


@dataclass(frozen=True)
class Cause:
    """What grows.

    Attributes:
        advice: What to do about it.
        figures: What it was seen by.
    """

    advice: str
    figures: tuple[Figure, ...] = ()


def cause_of(summary: RunSummary, growth: Growth) -> Cause | None:
    """Returns what makes most of the growth; None where no reading shows it.

    Args:
        summary: The run.
        growth: From epoch to epoch.
    """
    readings = summary.memory.epochs if summary.memory else ()
    if growth.per_epoch_bytes is None or len(readings) < 2:
        return None
    return _kept(readings, growth) or _traced(readings, growth)


def is_filling(summary: RunSummary, growth: Growth) -> bool:
    """Whether caches of the input that were still being filled make most of the growth.

    Args:
        summary: The run.
        growth: From epoch to epoch.
    """
    record = summary.host_buffers
    on_host = growth.where == THIS_PROCESS or growth.where.startswith("CPU")
    if record is None or not record.epoch_steps or not on_host:
        return False
    added_bytes = 0.0
    for buffer in record.buffers:
        before = buffer.held_bytes(max(record.steps - record.epoch_steps, 1))
        added_bytes += (buffer.held_bytes(record.steps) or 0.0) - (before or 0.0)
    return added_bytes >= MOSTLY * (growth.per_epoch_bytes or 0.0)


def _kept(readings: tuple[EpochMemory, ...], growth: Growth) -> Cause | None:
    """A collection of a callback or of the model that grows as fast."""
    middle, last = readings[len(readings) // 2], readings[-1]
    before = {(each.name, each.where): each.size_bytes for each in middle.kept}
    epochs = last.epoch - middle.epoch
    for each in last.kept:
        is_there = growth.where.startswith(each.where) or (
            growth.where == THIS_PROCESS and not each.where.startswith("GPU")
        )
        grown_bytes = each.size_bytes - before.get((each.name, each.where), 0)
        if is_there and epochs and grown_bytes >= MOSTLY * (growth.per_epoch_bytes or 0) * epochs:
            return Cause(
                f"{each.name} keeps more tensors or arrays from epoch to epoch: keep numbers, such "
                "as float(loss), or only the latest",
                (Figure(f"kept in {each.name}", each.size_bytes, "B"),),
            )
    return None


def _traced(readings: tuple[EpochMemory, ...], growth: Growth) -> Cause | None:
    """Tracing the step in each epoch: each trace keeps a graph on the host."""
    middle, last = readings[len(readings) // 2], readings[-1]
    tracings = last.tracings - middle.tracings
    if growth.where != THIS_PROCESS or not last.epoch - middle.epoch <= tracings:
        return None
    return Cause(
        "The step is traced again in each epoch, and TensorFlow keeps each trace: call compile() "
        "and make_train_function() once, not in a callback",
        (Figure("traced again", last.tracings, "times"),),
    )
