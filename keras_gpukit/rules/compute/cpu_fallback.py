"""Operations on the CPU that belong on the GPU."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.placement import Fallback, PlacementRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Measure, Outcome, Rule

# Not "host memory": TensorFlow keeps shapes and loop counters there for speed.
# Not "requested" and not "variable elsewhere": an operation that the user placed has not fallen
# back.
BLAMED_CAUSES = ("no such device", "no kernel", "dtype", "host function")
NAMED = 3
PYTHON = "host function"
"""Cause of Python functions of the step to be on the CPU."""


class CPUFallback(Rule):
    """Operations of the training step that TensorFlow placed on the CPU although there is a GPU."""

    code = "cpu-fallback"
    title = "Operations fell back to the CPU"
    requires = "the placement of the training step's operations"
    charts = ("placement",)
    operations_on_the_CPU = Measure("{value} operations run on the CPU")
    operations_of = Measure("{value} {of} operations are affected")
    data_of = Measure("{of} takes and returns {value}", "B")
    copies_between_devices_per_step = Measure("Each step copies {value} times between devices")
    bytes_copied_per_step = Measure(", {value} in all", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        record = summary.operations
        if record is None or not record.operations:
            return self.abstain(record.unknown_because if record else None)
        if summary.environment.gpus and not any("GPU" in device for device in record.operations):
            return self.find(
                "critical",
                self.operations_on_the_CPU(sum(record.by_device.values())),
                advice=_all_on_cpu(record),
                title="No operation of the training step ran on a GPU",
            )
        if not summary.environment.gpus and not record.predicted:
            return self.abstain(NO_GPU)
        blamed = [fallback for fallback in record.fallbacks if fallback.cause in BLAMED_CAUSES]
        if not blamed:
            return None
        about = PYTHON if all(fallback.cause == PYTHON for fallback in blamed) else ""
        return self.find(
            "info" if record.predicted else "warning",
            *_evidence(record, blamed),
            advice=tuple(_advise(fallback) for fallback in blamed[:NAMED]),
            title=_title(record, about),
            about=about,
        )


def _title(record: PlacementRecord, about: str) -> str | None:
    if about == PYTHON:
        where = " on a GPU machine, too" if record.predicted else ""
        return f"Python functions in the step run on the host{where}"
    return "Operations would fall back to the CPU on a GPU machine" if record.predicted else None


def _evidence(record: PlacementRecord, blamed: list[Fallback]) -> tuple[Figure, ...]:
    counts = tuple(
        each
        for fallback in blamed[:NAMED]
        for each in (
            CPUFallback.operations_of(fallback.count, fallback.operation),
            CPUFallback.data_of(fallback.python_bytes or 0, fallback.operation),
        )
        if each.value
    )
    if record.predicted or record.transfers is None:
        return counts
    copies = CPUFallback.copies_between_devices_per_step(record.transfers)
    if not record.copied_bytes:
        return (*counts, copies)
    return (*counts, copies, CPUFallback.bytes_copied_per_step(record.copied_bytes))


def _all_on_cpu(record: PlacementRecord) -> tuple[str, ...]:
    wrong = [each for each in record.fallbacks if each.cause == "no such device"]
    if wrong:
        return tuple(dict.fromkeys(_advise(each) for each in wrong))[:NAMED]
    return ("Build and compile the model outside `tf.device('/CPU:0')`",)


def _advise(fallback: Fallback) -> str:
    where = f" in {fallback.names[0]}" if fallback.names else ""
    return f"{fallback.operation}{where}: {fallback.reason}"
