"""Causes of memory growth from epoch to epoch or from fit to fit, as far as readings show them."""

from __future__ import annotations

from dataclasses import dataclass

from keras_gpukit.records.epoch_memory import EpochMemory, Kept
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.memory.epoch_growth import readings_of
from keras_gpukit.rules.memory.memory_growth import THIS_PROCESS, Growth
from keras_gpukit.rules.rule import figure

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


@dataclass(frozen=True)
class Cause:
    """A cause of memory growth.

    Attributes:
        advice: Recommended actions.
        figures: Figures that show the cause.
        title: The finding in one line; None for the title that says how memory grows.
        matters: Whether the growth is worth a warning even if much memory is left.
    """

    advice: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    title: str | None = None
    matters: bool = False


def cause_of(summary: RunSummary, growth: Growth) -> Cause | None:
    """Returns the cause of most of the growth; None if no reading shows it.

    Args:
        summary: The run.
        growth: Growth from epoch to epoch, or from fit to fit.
    """
    readings = readings_of(summary, growth.turn)
    if growth.per_turn_bytes is None or len(readings) < 2:
        return None
    return _kept(readings, growth) or _models(readings, growth) or _traced(readings, growth)


def is_filling(summary: RunSummary, growth: Growth) -> bool:
    """Whether input caches that were still being filled account for most of the growth.

    Args:
        summary: The run.
        growth: Growth from epoch to epoch, or from fit to fit.
    """
    record = summary.host_buffers
    on_host = growth.where == THIS_PROCESS or growth.where.startswith("CPU")
    if record is None or not record.epoch_steps or not on_host or growth.turn != "epoch":
        return False
    added_bytes = 0.0
    for buffer in record.buffers:
        before = buffer.held_bytes(max(record.steps - record.epoch_steps, 1))
        added_bytes += (buffer.held_bytes(record.steps) or 0.0) - (before or 0.0)
    return added_bytes >= MOSTLY * (growth.per_turn_bytes or 0.0)


def _kept(readings: tuple[EpochMemory, ...], growth: Growth) -> Cause | None:
    """Returns a collection in a callback, the model or the script that grows as fast as memory."""
    later = [each for each in readings[len(readings) // 2 :] if each.kept]
    for each in later[-1].kept if later else ():
        is_there = growth.where.startswith(each.where) or (
            growth.where == THIS_PROCESS and not each.where.startswith("GPU")
        )
        per_turn = _per_turn_bytes(later, each)
        if not is_there or per_turn is None:
            continue
        # A collection that grows much faster than memory holds data that takes none, such as
        # untouched pages.
        if MOSTLY <= per_turn / (growth.per_turn_bytes or 1.0) <= 1 / MOSTLY:
            items = () if each.length is None else (figure("items_of", each.length, of=each.name),)
            return Cause(
                (
                    f"{each.label} keeps more tensors or arrays from {growth.turn} to "
                    f"{growth.turn}: keep numbers, such as `float(loss)`, or only the latest",
                ),
                (figure("kept_in", each.size_bytes, "B", each.label), *items),
            )
    return None


def _models(readings: tuple[EpochMemory, ...], growth: Growth) -> Cause | None:
    """Returns models that still exist after their fits, more after each, as the cause.

    Either their variables account for most of the growth, or each also keeps its traced step.
    """
    middle, last = readings[len(readings) // 2], readings[-1]
    turns = last.epoch - middle.epoch
    if not turns or last.models - middle.models < MOSTLY * turns:
        return None
    added_bytes = (last.models_bytes - middle.models_bytes) / turns
    by_variables = added_bytes >= MOSTLY * (growth.per_turn_bytes or 0.0)
    if not by_variables and last.tracings - middle.tracings < turns:
        return None
    held = f"{last.models_bytes / 2**20:.0f} MiB" if by_variables else "their traced steps"
    return Cause(
        MODELS_KEPT,
        (
            figure("models_alive", last.models),
            figure("variables_of_these_models_and_optimizers", last.models_bytes, "B"),
        ),
        title=f"{last.models} models of this script are alive and hold {held}",
        matters=by_variables and growth.grown_bytes >= GROWN * growth.before_bytes,
    )


def _per_turn_bytes(readings: list[EpochMemory], kept: Kept) -> float | None:
    """Returns the growth of a collection per epoch or fit; None if only one reading names it.

    A reading names only a few collections. One that an earlier reading leaves out may have existed.
    """
    last = readings[-1]
    for reading in readings[:-1]:
        for each in reading.kept:
            if (each.name, each.module, each.where) == (kept.name, kept.module, kept.where):
                return (kept.size_bytes - each.size_bytes) / (last.epoch - reading.epoch)
    return None


def _traced(readings: tuple[EpochMemory, ...], growth: Growth) -> Cause | None:
    """Returns tracing in each epoch or fit as the cause: each trace keeps a graph on the host."""
    middle, last = readings[len(readings) // 2], readings[-1]
    tracings = last.tracings - middle.tracings
    if growth.where != THIS_PROCESS or not last.epoch - middle.epoch <= tracings:
        return None
    advice = f"The step is traced again in each {growth.turn}, and TensorFlow keeps each trace: "
    advice += (
        "call `compile()` and `make_train_function()` once, not in a callback"
        if growth.turn == "epoch"
        else "compile one model once and reset its weights, or train each in a process of its own"
    )
    return Cause((advice,), (figure("traced_again", last.tracings, "times"),))
