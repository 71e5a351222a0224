"""Whether memory in use keeps growing, and what keeps it; caches too large for the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

from keras_gpukit.records.finding import Figure, Finding
from keras_gpukit.records.machine import EpochMemory, Kept
from keras_gpukit.records.pipeline import HostBuffer, HostBuffers
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome, Rule, too_short
from keras_gpukit.rules.whole_run.shifts import FEWEST
from keras_gpukit.rules.whole_run.steady_growth import (
    FEWEST_EPOCHS,
    THIS_PROCESS,
    WARM_UP,
    Growth,
    Period,
    growths_between,
    growths_over_time,
    readings_of,
)

MOSTLY = 0.5
"""Least share of the growth that a cause must account for; our choice."""
GROWN = 0.25
"""Growth, as a share of the memory at first, from which models that are kept are worth a warning;
our choice, as for growth over time."""
MODELS_KEPT = (
    "keep results instead of models in lists and dictionaries: numbers such as "
    "`history.history`, or `model.get_weights()` of the best one",
    "if nothing of yours refers to old models, free them: `del model`; "
    "`keras.backend.clear_session()`; `gc.collect()`",
    "train each model in a process of its own, which returns its memory when it ends",
)


class GrowthCause(NamedTuple):
    """A cause of memory growth.

    Attributes:
        title: The finding in one line; None for the title that says how memory grows.
        matters: Whether the growth is worth a warning even if much memory is left.
    """

    advice: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    title: str | None = None
    matters: bool = False


def cause_of(summary: RunSummary, growth: Growth) -> GrowthCause | None:
    """Returns the cause of most of the growth; None if no reading shows it."""
    readings = readings_of(summary, growth.period)
    if growth.per_period_bytes is None or len(readings) < 2:
        return None
    return _kept(readings, growth) or _models(readings, growth) or _traced(readings, growth)


def is_filling(summary: RunSummary, growth: Growth) -> bool:
    """Whether input caches that were still being filled account for most of the growth."""
    record = summary.host_buffers
    on_host = growth.where == THIS_PROCESS or growth.where.startswith("CPU")
    if record is None or not record.epoch_steps or not on_host or growth.period != "epoch":
        return False
    added_bytes = 0.0
    for buffer in record.buffers:
        before = buffer.held_bytes(max(record.steps - record.epoch_steps, 1))
        added_bytes += (buffer.held_bytes(record.steps) or 0.0) - (before or 0.0)
    return added_bytes >= MOSTLY * (growth.per_period_bytes or 0.0)


def _kept(readings: tuple[EpochMemory, ...], growth: Growth) -> GrowthCause | None:
    """Returns a collection in a callback, the model or the script that grows as fast as memory."""
    later = [reading for reading in readings[len(readings) // 2 :] if reading.kept]
    for kept in later[-1].kept if later else ():
        is_there = growth.where.startswith(kept.where) or (
            growth.where == THIS_PROCESS and not kept.where.startswith("GPU")
        )
        per_period = _per_period_bytes(later, kept)
        if not is_there or per_period is None:
            continue
        # A collection that grows much faster than memory holds data that takes none, such as
        # untouched pages.
        if MOSTLY <= per_period / (growth.per_period_bytes or 1.0) <= 1 / MOSTLY:
            items = () if kept.length is None else (MemoryGrows.items_of(kept.length, kept.name),)
            return GrowthCause(
                (
                    f"{kept.label} keeps more tensors or arrays from {growth.period} to "
                    f"{growth.period}: keep numbers, such as `float(loss)`, or only the latest",
                ),
                (MemoryGrows.kept_in(kept.size_bytes, kept.label), *items),
            )
    return None


def _models(readings: tuple[EpochMemory, ...], growth: Growth) -> GrowthCause | None:
    """Returns models that still exist after their fits, more after each, as the cause.

    Either their variables account for most of the growth, or each also keeps its traced step.
    """
    middle, last = readings[len(readings) // 2], readings[-1]
    periods = last.epoch - middle.epoch
    if not periods or last.models - middle.models < MOSTLY * periods:
        return None
    added_bytes = (last.models_bytes - middle.models_bytes) / periods
    by_variables = added_bytes >= MOSTLY * (growth.per_period_bytes or 0.0)
    if not by_variables and last.tracings - middle.tracings < periods:
        return None
    held = f"{last.models_bytes / 2**20:.0f} MiB" if by_variables else "their traced steps"
    return GrowthCause(
        MODELS_KEPT,
        (
            MemoryGrows.models_alive(last.models),
            MemoryGrows.held_by_these_models(last.models_bytes),
        ),
        title=f"{last.models} models of this script are alive and hold {held}",
        matters=by_variables and growth.grown_bytes >= GROWN * growth.before_bytes,
    )


def _per_period_bytes(readings: list[EpochMemory], kept: Kept) -> float | None:
    """Returns the growth of a collection per epoch or fit; None if only one reading names it.

    A reading names only a few collections. One that an earlier reading leaves out may have existed.
    """
    last = readings[-1]
    for reading in readings[:-1]:
        for older in reading.kept:
            if (older.name, older.module, older.where) == (kept.name, kept.module, kept.where):
                return (kept.size_bytes - older.size_bytes) / (last.epoch - reading.epoch)
    return None


def _traced(readings: tuple[EpochMemory, ...], growth: Growth) -> GrowthCause | None:
    """Returns tracing in each epoch or fit as the cause: each trace keeps a graph on the host."""
    middle, last = readings[len(readings) // 2], readings[-1]
    tracings = last.tracings - middle.tracings
    if growth.where != THIS_PROCESS or not last.epoch - middle.epoch <= tracings:
        return None
    advice = f"The step is traced again in each {growth.period}, and TensorFlow keeps each trace: "
    advice += (
        "call `compile()` and `make_train_function()` once, not in a callback"
        if growth.period == "epoch"
        else "compile one model once and reset its weights, or train each in a process of its own"
    )
    return GrowthCause((advice,), (MemoryGrows.traced_again(last.tracings),))


_LOOK_FOR = "look for what is kept: lists of losses or batches, tensors in callbacks, metrics"
_NEW_EACH_TIME = "a new `tf.function`, dataset or model in each step, epoch or fit is kept too"
_CACHE = "`ds.cache()` without a file grows in the first epoch, until it holds all data"


class MemoryGrows(Rule):
    """Memory of the process or of a GPU's allocator that rises steadily until the run's end."""

    code = "memory-grows"
    title = "Memory in use grows as the run goes on"
    requires = (
        f"memory after {WARM_UP + FEWEST_EPOCHS} epochs or fits, or in {FEWEST} readings over time"
    )
    charts = ("host-memory", "device-memory")
    items_of = Measure("{of} has {value} items")
    kept_in = Measure("{of} keeps {value} of tensors or arrays", "B")
    models_alive = Measure("{value} models are alive")
    held_by_these_models = Measure("Their variables and optimizers hold {value}", "B")
    traced_again = Measure("The step was traced again {value}", "times")
    each_epoch_adds = Measure("Each epoch adds {value}", "B")
    each_fit_adds = Measure("Each fit adds {value}", "B")
    at_first = Measure("At first, {value} were in use", "B")
    in_the_end = Measure(", in the end {value}", "B")
    per_thousand_steps = Measure("Every 1,000 steps add {value}", "B")
    left = Measure("{value} are left", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        by_epochs, by_fits = (growths_between(summary, period) for period in get_args(Period))
        over_time = growths_over_time(summary)
        if by_epochs is None and by_fits is None and over_time is None:
            return too_short(f"needs {self.requires}")
        found = [growth for growth in by_epochs or () if not is_filling(summary, growth)]
        found = found or by_fits or (over_time if by_epochs is None else None) or []
        found = [growth for growth in found if not growth.is_far or cause_of(summary, growth)]
        if not found:
            return None
        worst = max(found, key=lambda growth: growth.urgency)
        cause = cause_of(summary, worst)
        unknown = [_LOOK_FOR, *([_CACHE] if worst.per_period_bytes is None else []), _NEW_EACH_TIME]
        return self.find(
            "warning" if worst.urgency >= 1 or (cause and cause.matters) else "info",
            *_figures(worst),
            *(cause.figures if cause else ()),
            advice=cause.advice if cause else tuple(unknown),
            title=(cause and cause.title) or _title(worst),
            about=worst.where,
        )


def _title(growth: Growth) -> str:
    if growth.per_period_bytes is None:
        return f"Memory of {growth.where} grows as the run goes on"
    title = f"Memory of {growth.where} grows with each {growth.period}"
    left = growth.periods_left
    if left is None:
        return title
    full = "the host" if growth.where == THIS_PROCESS else growth.where.partition(" ")[0]
    more = f"1 more {growth.period}" if left == 1 else f"{left:,} more {growth.period}s"
    return f"{title}: {full} is full after about {more} at this rate"


def _figures(growth: Growth) -> Iterator[Figure]:
    if growth.per_period_bytes is not None:
        adds = (
            MemoryGrows.each_epoch_adds if growth.period == "epoch" else MemoryGrows.each_fit_adds
        )
        yield adds(growth.per_period_bytes)
    yield MemoryGrows.at_first(growth.before_bytes)
    yield MemoryGrows.in_the_end(growth.after_bytes)
    if growth.steps is not None:
        yield MemoryGrows.per_thousand_steps(1000 * growth.grown_bytes / growth.steps)
    if growth.left_bytes is not None:
        yield MemoryGrows.left(growth.left_bytes)


NEARLY_ALL = 0.9
"""Share of the free host memory that the buffers may still take before a warning. Training and
other processes need some of it. Our choice."""


class InputFillsMemory(Rule):
    """Caches and shuffle buffers that will take nearly all of the host's free memory, or more."""

    code = "host-memory-runs-out"
    title = "The input pipeline nearly fills the host's memory"
    requires = "the caches and shuffle buffers of the pipeline, and the host's free memory"
    charts = ("host-memory", "stages")
    full_size_of = Measure("{of} holds {value} when it is full", "B")
    still_to_come = Measure("{value} of it are still to come", "B")
    free_host_memory = Measure("The host has {value} free", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        record = summary.host_buffers
        if record is None or record.unknown_because is not None:
            return self.abstain(record.unknown_because if record else None)
        if record.left_bytes is None:
            return self.abstain()
        unknown = [buffer for buffer in record.buffers if buffer.held_bytes(record.steps) is None]
        if unknown:
            because = unknown[0].unknown_because or "how full it is cannot be known"
            return self.abstain(f"of {unknown[0].name}, {because}")
        return self.find_in(record)

    def find_in(self, record: HostBuffers) -> Finding | None:
        """Judges one reading; returns None if enough memory is left, or too little is known."""
        missing_bytes, left_bytes = record.missing_bytes, record.left_bytes
        if missing_bytes is None or left_bytes is None:
            return None
        if not missing_bytes or missing_bytes < NEARLY_ALL * left_bytes:
            return None
        largest = max(record.buffers, key=lambda buffer: buffer.full_bytes or 0.0)
        runs_out = missing_bytes > left_bytes
        return self.find(
            "critical" if runs_out else "warning",
            *(self.full_size_of(stage.full_bytes or 0.0, stage.name) for stage in record.buffers),
            self.still_to_come(missing_bytes),
            self.free_host_memory(left_bytes),
            advice=_advice(largest),
            title=f"{largest.name} runs out of host memory {_when(record)}" if runs_out else None,
        )


def _when(record: HostBuffers) -> str:
    """Returns when memory runs out, from the rate at which steps pass elements through caches."""
    left_bytes = record.left_bytes or 0
    fills_first = sum(
        (buffer.full_bytes or 0.0) - (buffer.held_bytes(record.steps) or 0.0)
        for buffer in record.buffers
        if buffer.kind == "shuffle"
    )
    caches = [buffer for buffer in record.buffers if buffer.kind == "cache" and buffer.per_step]
    # Before the first step, a cache takes in the elements that fill the shuffle buffers after it.
    fills_first += sum(
        cache.ahead * (cache.element_bytes or 0.0) for cache in caches if not record.steps
    )
    rate = sum((cache.per_step or 0.0) * (cache.element_bytes or 0.0) for cache in caches)
    if (fills_first and fills_first >= left_bytes) or not rate:
        return "before the first step: while the shuffle buffer is filled"
    step = record.steps + max(left_bytes - fills_first, 0.0) / rate
    if record.epoch_steps:
        epochs = step / record.epoch_steps
    else:
        largest = max(caches, key=lambda cache: cache.full_bytes or 0.0)
        epochs = step * (largest.per_step or 0.0) / max(largest.elements or 1, 1)
    if epochs < 1:
        return f"after about {100 * epochs:.0f} % of the first epoch"
    return f"in epoch {int(epochs) + 1:,}"


def _advice(largest: HostBuffer) -> tuple[str, ...]:
    smaller = (
        "Hold smaller elements: before decoding or augmenting, or as uint8 rather than float32"
    )
    if largest.kind == "shuffle":
        return (
            "Shuffle file names or indices, or take a smaller buffer",
            smaller,
            "Shuffle before decoding, and batch after it",
        )
    return (
        'Cache to a file: `cache("/path/on/a/fast/disk")`; `tune_input()` tries it',
        smaller,
        "Without `cache()`, read faster instead: more parallel calls, prefetch",
    )
