"""Operations on the CPU that belong on the GPU."""

from __future__ import annotations

from collections.abc import Collection

from keras_gpukit.records.finding import Figure, Finding
from keras_gpukit.records.placement import Fallback, PlacementRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule, figure

# Not "host memory": TensorFlow keeps shapes and loop counters there for speed.
# Not "requested" and not "variable elsewhere": an operation that the user placed has not fallen
# back.
BLAMED_CAUSES = ("no such device", "no kernel", "dtype", "host function")
NAMED = 3
ONLY_PYTHON = "Python functions in the step run on the host"


class CPUFallback(Rule):
    """Operations of the training step that TensorFlow placed on the CPU although there is a GPU."""

    code = "cpu-fallback"
    subject = "placement"
    title = "Operations fell back to the CPU"
    requires = "the placement of the training step's operations"

    def superseded_by(self, finding: Finding) -> Collection[str]:
        """Where only Python functions fell back, their time in a profile says more."""
        return ("python-in-step",) if finding.title.startswith(ONLY_PYTHON) else ()

    def judge(self, summary: RunSummary) -> Outcome:
        record = summary.operations
        if record is None or not record.operations:
            return self.abstain(record.unknown_because if record else None)
        if summary.environment.gpus and not any("GPU" in device for device in record.operations):
            return self.find(
                "critical",
                figure("operations_on_the_CPU", sum(record.by_device.values())),
                advice=_all_on_cpu(record),
                title="No operation of the training step ran on a GPU",
            )
        if not summary.environment.gpus and not record.predicted:
            return self.abstain(NO_GPU)
        blamed = [fallback for fallback in record.fallbacks if fallback.cause in BLAMED_CAUSES]
        if not blamed:
            return None
        return self.find(
            "info" if record.predicted else "warning",
            *_evidence(record, blamed),
            advice=tuple(_advise(fallback) for fallback in blamed[:NAMED]),
            title=_title(record, blamed),
        )


def _title(record: PlacementRecord, blamed: list[Fallback]) -> str | None:
    if all(fallback.cause == "host function" for fallback in blamed):
        where = " on a GPU machine, too" if record.predicted else ""
        return f"{ONLY_PYTHON}{where}"
    return "Operations would fall back to the CPU on a GPU machine" if record.predicted else None


def _evidence(record: PlacementRecord, blamed: list[Fallback]) -> tuple[Figure, ...]:
    counts = tuple(
        each
        for fallback in blamed[:NAMED]
        for each in (
            figure("operations_of", fallback.count, of=fallback.operation),
            figure("data_of", fallback.python_bytes or 0, "B", fallback.operation),
        )
        if each.value
    )
    if record.predicted or record.transfers is None:
        return counts
    copies = figure("copies_between_devices_per_step", record.transfers)
    if not record.copied_bytes:
        return (*counts, copies)
    return (*counts, copies, figure("bytes_copied_per_step", record.copied_bytes, "B"))


def _all_on_cpu(record: PlacementRecord) -> tuple[str, ...]:
    wrong = [each for each in record.fallbacks if each.cause == "no such device"]
    if wrong:
        return tuple(dict.fromkeys(_advise(each) for each in wrong))[:NAMED]
    return ("Build and compile the model outside `tf.device('/CPU:0')`",)


def _advise(fallback: Fallback) -> str:
    where = f" in {fallback.names[0]}" if fallback.names else ""
    return f"{fallback.operation}{where}: {fallback.reason}"
