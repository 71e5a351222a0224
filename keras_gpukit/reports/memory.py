"""The predicted peak memory by cause, as a panel in a terminal or notebook."""

from __future__ import annotations

from rich.console import RenderableType

from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.reports import units
from keras_gpukit.reports.out_of_memory import named_sizes
from keras_gpukit.reports.phrases import MEMORY_CAUSES, UPPER_BOUND, predicted_peak
from keras_gpukit.reports.terminal import panel, plain, show_as, table
from keras_gpukit.rules.compute.batch_size import PREDICTED_MARGIN

_STEPS = {"graph": "graph steps", "eager": "eager steps", "xla": "steps compiled by XLA"}


def render(prediction: MemoryPrediction) -> RenderableType:
    """Returns a panel: memory range per cause, the largest tensors, the largest batch that fits."""
    lines: list[RenderableType] = []
    if predicted_range(prediction, "total_bytes") and prediction.peak_bytes is not None:
        rows = [(name, predicted_range(prediction, field)) for name, field in MEMORY_CAUSES.items()]
        lines += [_headline(prediction), "", table(rows, ("at the peak", "predicted"))]
    if prediction.largest:
        lines += ["", f"Largest tensors at the peak: {named_sizes(prediction.largest)}"]
    if prediction.limit_bytes is not None:
        fits = prediction.fits_batch_size
        if fits is None:
            which = "no batch is predicted to fit"
        elif prediction.is_lower_bound:
            which = f"no batch above {fits:,} fits, and smaller ones may not"
        elif prediction.is_upper_bound:
            which = f"a batch of {fits:,} is predicted to fit, and larger ones may"
        else:
            which = f"the largest batch predicted to fit is {fits:,}"
        limit = units.size(prediction.limit_bytes)
        free = units.percentage(PREDICTED_MARGIN)
        lines += ["", f"Of {limit}, {which} ({free} and room for fragmentation are left free)."]
        lines.append("`keras-gpukit batch-size` measures it instead.")
    if prediction.is_lower_bound:
        lines += ["", f"A lower bound: {prediction.unknown_because}"]
    if prediction.is_upper_bound:
        lines += ["", UPPER_BOUND]
    shown = (plain(each) if isinstance(each, str) else each for each in lines)
    return panel(shown, "Predicted memory")


def _headline(prediction: MemoryPrediction) -> str:
    batch = f"Batch of {prediction.batch_size:,}, {_STEPS[prediction.execution]}"
    if prediction.is_lower_bound or prediction.is_upper_bound:
        return f"{batch}: peak {predicted_peak(prediction)}"
    peak, span = units.size(prediction.peak_bytes or 0), predicted_range(prediction, "total_bytes")
    return f"{batch}: peak about {peak} ({span})"


def predicted_range(prediction: MemoryPrediction | None, field: str | None) -> str:
    """Returns the range that is predicted for a field of `MemoryByCause`; "" if it is unknown."""
    if field is None or prediction is None or prediction.low is None or prediction.high is None:
        return ""
    sizes = sorted((getattr(prediction.low, field), getattr(prediction.high, field)))
    low, high = map(units.size, sizes)
    if prediction.is_lower_bound:
        return f"at least {low}"
    return f"at most {high}" if prediction.is_upper_bound else units.span(low, high)


show_as(MemoryPrediction, render)
