"""A table of peak memory by cause: predicted, and measured as far as possible."""

from __future__ import annotations

from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Omitted, shortened
from keras_gpukit.reports.html.machine_charts import NO_READINGS
from keras_gpukit.reports.html.words import unrecorded
from keras_gpukit.reports.memory import predicted_range
from keras_gpukit.reports.phrases import MEMORY_CAUSES, UPPER_BOUND, predicted_peak
from keras_gpukit.reports.tables import Table

_OF_STEPS = "batch, activations, gradients, workspace, together"


def memory_causes(run: RunReport) -> Chart | Omitted:
    """Returns tables of the predicted memory of a step next to the measured memory of the run."""
    record = run.summary.memory
    if record is None or not (record.devices or record.prediction):
        return Omitted((record and record.unknown_because) or NO_READINGS)
    prediction, fullest = record.prediction, record.fullest
    if record.weights_bytes is None and prediction is None:
        return Omitted(unrecorded(run, "the model was not read"))
    causes = Table(("at the peak", "predicted", "measured"), _rows(record, fullest), _note(record))
    tensors = tuple(
        (
            shortened(each.name),
            each.layer or "",
            " × ".join(f"{size:,}" for size in each.shape),
            units.size(each.size_bytes),
        )
        for each in (prediction.largest if prediction else ())
    )
    heads = ("operation", "layer", "shape", "size")
    largest = Table(heads, tensors, "The largest tensors at the predicted peak.")
    words = _words(prediction, fullest, run.summary.out_of_memory is not None)
    return Chart(words, largest if tensors else causes, shown=("By cause", causes))


def _rows(record: MemoryRecord, fullest: DeviceMemory | None) -> tuple[tuple[str, ...], ...]:
    measured = {"weights": record.weights_bytes, "optimizer slots": record.slots_bytes}
    of_steps = None if fullest is None else record.steps_bytes(fullest)
    rows = [
        *((name, field, measured.get(name)) for name, field in MEMORY_CAUSES.items()),
        (_OF_STEPS, None, of_steps),
        ("all", "total_bytes", None if fullest is None else fullest.needed_bytes),
    ]
    return tuple(
        (name, predicted_range(record.prediction, field), units.known(size_bytes, units.size, ""))
        for name, field, size_bytes in rows
    )


def _words(prediction: MemoryPrediction | None, fullest: DeviceMemory | None, died: bool) -> str:
    parts = []
    predicted = None
    if prediction is not None and (peak := predicted_peak(prediction)) is not None:
        batch = f"Steps with a batch of {prediction.batch_size:,}"
        parts.append(f"{batch} were predicted to need {peak} at the peak")
        is_bound = prediction.is_lower_bound or prediction.is_upper_bound
        predicted = None if is_bound else prediction.peak_bytes
    if fullest is not None:
        held = f"{fullest.device} held at most {units.size(fullest.needed_bytes)}"
        if died:  # the run ended before its peak, so the prediction cannot be compared
            predicted, held = None, f"{held} when the run ended by running out of memory"
        more = fullest.needed_bytes / predicted - 1 if predicted else 0.0
        off = f", {100 * abs(more):.0f} % {'more' if more > 0 else 'less'}" if predicted else ""
        parts.append(f"{held}{off}")
        if fullest.peak_bytes > fullest.needed_bytes:
            parts.append(f"the first step took {units.size(fullest.peak_bytes)}")
    return f"{'; '.join(parts)}." if parts else ""


def _note(record: MemoryRecord) -> str:
    if record.prediction is None:
        return f"Not predicted: {record.not_predicted_because or 'unknown'}."
    if record.prediction.is_upper_bound:
        return UPPER_BOUND
    because = record.prediction.unknown_because
    return f"A lower bound: {because}." if because else ""
