"""A table of peak memory by cause: predicted, and measured as far as possible."""

from __future__ import annotations

from keras_gpukit.records.machine import DeviceMemory, MemoryRecord
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.records.report import RunReport
from keras_gpukit.reports import units
from keras_gpukit.reports.html.chart import Chart, Unknown, shortened
from keras_gpukit.reports.html.reading_lines import NO_READINGS
from keras_gpukit.reports.html.words import not_told
from keras_gpukit.reports.phrases import MEMORY_CAUSES, UPPER_BOUND, predicted_peak
from keras_gpukit.reports.tables import Table

_TITLE = "Memory at the peak, by cause"
_OF_STEPS = ("batch", "activations", "gradients", "workspace")
_COLUMNS = ("at the peak", "predicted", "measured")


def memory_causes(run: RunReport) -> Chart | Unknown:
    """Returns tables of the predicted memory of a step next to the measured memory of the run."""
    record = run.summary.memory
    if record is None or not (record.devices or record.prediction):
        because = record.unknown_because if record else None
        return Unknown(_TITLE, because or NO_READINGS)
    if record.weights_bytes is None and record.prediction is None:
        return Unknown(_TITLE, not_told(run, "the model was not read"))
    fullest = record.fullest
    causes = Table(_COLUMNS, tuple(_rows(record, fullest)), _note(record))
    tensors = _largest(record.prediction) or causes
    words = _words(record.prediction, fullest, run.summary.out_of_memory is not None)
    return Chart(_TITLE, words, None, tensors, shown=causes)


def _largest(prediction: MemoryPrediction | None) -> Table | None:
    """Returns a table of the largest tensors at the predicted peak; None without a prediction."""
    if prediction is None or not prediction.largest:
        return None
    rows = tuple(
        (
            shortened(each.name),
            each.layer or "",
            " × ".join(f"{size:,}" for size in each.shape),
            units.size(each.size_bytes),
        )
        for each in prediction.largest
    )
    heads = ("operation", "layer", "shape", "size")
    return Table(heads, rows, "The largest tensors at the predicted peak.")


def _rows(record: MemoryRecord, fullest: DeviceMemory | None) -> list[tuple[str, ...]]:
    measured = {"weights": record.weights_bytes, "optimizer slots": record.slots_bytes}
    rows: list[tuple[str, ...]] = [
        (name, _range(record.prediction, field), _size(measured.get(name)))
        for name, field in MEMORY_CAUSES.items()
    ]
    of_steps = None if fullest is None else record.steps_bytes(fullest)
    rows.append((f"{', '.join(_OF_STEPS)}, together", "", _size(of_steps)))
    peak_bytes = None if fullest is None else fullest.needed_bytes
    rows.append(("all", _range(record.prediction, "total_bytes"), _size(peak_bytes)))
    return rows


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
    return f"{'; '.join(parts)}."


def _note(record: MemoryRecord) -> str:
    if record.prediction is None:
        return f"Not predicted: {record.not_predicted_because or 'unknown'}."
    if record.prediction.is_upper_bound:
        return UPPER_BOUND
    because = record.prediction.unknown_because
    return f"A lower bound: {because}." if because else ""


def _range(prediction: MemoryPrediction | None, field: str) -> str:
    if prediction is None or prediction.low is None or prediction.high is None:
        return ""
    sizes = sorted((getattr(prediction.low, field), getattr(prediction.high, field)))
    low, high = map(units.size, sizes)
    if prediction.is_lower_bound:
        return f"at least {low}"
    if prediction.is_upper_bound:
        return f"at most {high}"
    return units.span(low, high)


def _size(size_bytes: int | None) -> str:
    return units.known(size_bytes, units.size, "")
