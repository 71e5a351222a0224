"""Memory: why it ran out, what a step is predicted to need, and how a split model shares it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType

from keras_gpukit.records.cluster import SplitPlan
from keras_gpukit.records.memory import HeldTensor, MemoryOption, MemoryPrediction, OutOfMemory
from keras_gpukit.reports import units
from keras_gpukit.reports.evidence import capitalized
from keras_gpukit.reports.terminal import panel, plain, show_as, table
from keras_gpukit.rules.compute.batch_size import PREDICTED_MARGIN
from keras_gpukit.rules.whole_run.memory_ran_out import asking, place_advice

HEADING = "keras-gpukit: why memory ran out"
_LARGEST_SHOWN = 3
_CHANGES = {
    "batch size": "batch_size={batch}",
    "accumulation": "keras_gpukit.accumulate_gradients(model, ...) with micro-batches of {batch}",
    "mixed precision": (
        'keras_gpukit.configure_gpus(mixed_precision="auto"), or '
        'keras.config.set_dtype_policy("mixed_float16"), before the model is made'
    ),
    "rematerialization": "keras_gpukit.rematerialize(model): activations are recomputed, not kept",
}


def note(record: OutOfMemory) -> str:
    """Returns the note that is added to the exception, on several lines."""
    lines = [asked(record), *figures(record)]
    lines += [f"- {line}" for line in advice(record)]
    if too_little := [option for option in record.options if option.fits is False]:
        lines += ["Not enough on its own:", *(f"- {_change(option)}" for option in too_little)]
    return "\n".join([HEADING, *(f"  {line}" for line in lines)])


def asked(record: OutOfMemory) -> str:
    """Describes the failed request: "Training: layer 'conv2d' asked for 128 MiB on GPU:0 …"."""
    size = record.state.asked_bytes
    amount = "an unknown amount of memory" if size is None else units.size(size)
    part = f"{record.part}: " if record.part else ""
    if record.in_callback:
        line = f" ({record.line})" if record.line else ""
        part = f"{record.part or 'work'} in a callback{line}: "
    who = asking(record) or "the step"
    which = "" if record.operation is None else f" (operation {record.operation})"
    if record.execution == "xla" and record.shape is None:
        who, which = "the step, which XLA compiled as a whole,", ""
        amount += " in one block"
    backward = ", in the backward pass" if record.backward else ""
    shape = ""
    if record.shape is not None:
        dims = ", ".join(map(str, record.shape))
        shape = f" for a tensor of shape [{dims}] and type {record.dtype}"
    at = "" if record.step is None else f" after step {record.step:,}"
    batch = "" if record.batch_size is None else f", in a batch of {record.batch_size:,}"
    asked_for = f" asked for {amount} on {record.device}{shape}{backward}{batch}{at}."
    return capitalized(f"{part}{who}{which}{asked_for}")


def figures(record: OutOfMemory) -> tuple[str, ...]:
    """Describes the allocator's state, the largest tensors and other processes, in sentences."""
    lines = [*_allocator(record)]
    prediction = record.prediction
    if prediction is not None and (span := _predicted(record, prediction)):
        lines.append(
            f"A step with a batch of {prediction.batch_size:,} is predicted to need {span}."
        )
        if largest := named_sizes(prediction.largest[:_LARGEST_SHOWN]):
            lines.append(f"Largest tensors at its peak: {largest}.")
    if record.holders:
        named = [
            f"{holder.name or 'process'} ({holder.pid}) {units.size(holder.used_bytes)}"
            for holder in record.holders
        ]
        lines.append(f"Other processes on this GPU hold: {', '.join(named)}.")
    elif record.holders is None and record.device.startswith("GPU"):
        lines.append("What other processes hold on this GPU is not visible from here.")
    return tuple(lines)


def _predicted(record: OutOfMemory, prediction: MemoryPrediction) -> str:
    """Returns what the step was predicted to need; "" if unknown, or if XLA asked for more."""
    most_bytes, asked_bytes = prediction.peak_bytes or 0, record.state.asked_bytes or 0
    is_refuted = prediction.is_upper_bound and asked_bytes > most_bytes
    return "" if is_refuted else _predicted_range(prediction, "total_bytes")


def named_sizes(tensors: Iterable[HeldTensor]) -> str:
    """Lists tensors by their layer or operation, each with its size."""
    return ", ".join(f"{held.layer or held.name} {units.size(held.size_bytes)}" for held in tensors)


def advice(record: OutOfMemory) -> tuple[str, ...]:
    """Returns the changes that would or may fit, one per line, or why they are unknown."""
    lines = [line.replace("`", "") for line in place_advice(record)]
    lines += [_change(option) for option in record.options if option.fits is not False]
    if record.is_fragmented:
        lines.append(
            "enough is free in total, but not in one block: set "
            "TF_GPU_ALLOCATOR=cuda_malloc_async before TensorFlow starts"
        )
    if record.is_crowded:
        lines.append("end the other processes on this GPU, or train on another GPU")
    if record.is_capped:
        lines.append(
            "a higher limit, by configure_gpus(memory=...): other processes leave "
            f"{units.size(record.left_bytes or 0)} of this GPU"
        )
    if record.options_unknown_because:
        lines.append(f"what would fit is unknown: {record.options_unknown_because}")
    return tuple(lines)


def _allocator(record: OutOfMemory) -> list[str]:
    state = record.state
    if state.in_use_bytes is None:
        return []
    limit = "" if state.limit_bytes is None else f" of {units.size(state.limit_bytes)}"
    most = "at most " if state.in_use_is_peak else ""
    line = f"{record.device} had {most}{units.size(state.in_use_bytes)}{limit} in use"
    if state.free_bytes is not None:
        least = "at least " if state.in_use_is_peak else ""
        line += f", {least}{units.size(state.free_bytes)} free"
    if state.largest_free_bytes is not None:
        line += f", the largest block of it {units.size(state.largest_free_bytes)}"
    fragmented = record.is_fragmented
    if fragmented is None:
        return [f"{line}."]
    why = "memory is fragmented" if fragmented else "the device is too small for this step"
    return [f"{line}: {why}."]


def _change(option: MemoryOption) -> str:
    text = _CHANGES[option.kind].format(batch=option.batch_size)
    if option.needs_bytes is not None:
        text += f": predicted to need at most {units.size(option.needs_bytes)}"
        if option.fits and option.kind in ("batch size", "accumulation"):  # the largest that fits
            free = units.percentage(PREDICTED_MARGIN)
            text += f", {free} of the memory and room for fragmentation left free"
    return f"{text}; {option.note}" if option.note else text


_CAUSES = {
    "weights": "weights_bytes",
    "optimizer slots": "slots_bytes",
    "batch": "batch_bytes",
    "activations": "activations_bytes",
    "gradients": "gradients_bytes",
    "workspace": "workspace_bytes",
}
"""Causes of memory use, each with its field in `MemoryByCause`."""
_STEPS = {"graph": "graph steps", "eager": "eager steps", "xla": "steps compiled by XLA"}


def memory_view(prediction: MemoryPrediction) -> RenderableType:
    """Returns a panel: memory range per cause, the largest tensors, the largest batch that fits."""
    lines: list[RenderableType] = []
    if prediction.peak_bytes is not None:
        rows = [(name, _predicted_range(prediction, field)) for name, field in _CAUSES.items()]
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
        fused = "XLA fuses operations, whose intermediate results then take no memory."
        lines += ["", f"An upper bound: {fused}"]
    shown = (plain(line) if isinstance(line, str) else line for line in lines)
    return panel(shown, "Predicted memory")


def _headline(prediction: MemoryPrediction) -> str:
    batch = f"Batch of {prediction.batch_size:,}, {_STEPS[prediction.execution]}"
    peak, span = units.size(prediction.peak_bytes or 0), _predicted_range(prediction, "total_bytes")
    is_bound = prediction.is_lower_bound or prediction.is_upper_bound
    return f"{batch}: peak {span}" if is_bound else f"{batch}: peak about {peak} ({span})"


def _predicted_range(prediction: MemoryPrediction, field: str) -> str:
    """Returns the range that is predicted for a field of `MemoryByCause`; "" if it is unknown."""
    if prediction.low is None or prediction.high is None:
        return ""
    sizes = sorted((getattr(prediction.low, field), getattr(prediction.high, field)))
    low, high = map(units.size, sizes)
    if prediction.is_lower_bound:
        return f"at least {low}"
    return f"at most {high}" if prediction.is_upper_bound else units.span(low, high)


show_as(MemoryPrediction, memory_view)


_SIZES = ("weights", "slots", "activations", "together")
_CHOSEN_BY = {
    "memory": "balanced by memory",
    "boundaries": "cut at the given layers",
    "layers": "placed as given",
}


def split_view(plan: SplitPlan) -> RenderableType:
    """Returns a table of the stages with their memory, and the transfers between devices."""
    heading = (
        f"Split over {len(plan.stages)} devices, {_CHOSEN_BY[plan.chosen_by]}; activations of "
        f"{plan.batch_size:,} examples, optimizer {plan.optimizer}."
    )
    rows = []
    for stage in plan.stages:
        first, last = stage.layers[0], stage.layers[-1]
        layers = first if first == last else f"{len(stage.layers)}: {first} to {last}"
        sizes = (stage.weight_bytes, stage.slot_bytes, stage.activation_bytes, stage.memory_bytes)
        rows.append((stage.device, layers, *map(units.size, sizes)))
    stages = table(rows, ("device", "layers", *_SIZES), _SIZES)
    notes = (plain(f"Note: {note}.") for note in plan.notes)
    return Group(plain(heading), stages, plain(_crossings(plan)), *notes)


def _crossings(plan: SplitPlan) -> str:
    if not plan.crossings:
        return "The forward pass sends nothing between devices."
    ends: dict[str, list[int | None]] = {}
    for tensor in plan.crossings:
        ends.setdefault(f"{tensor.from_device} to {tensor.to_device}", []).append(tensor.size_bytes)
    sent = []
    for path, sizes in ends.items():
        known = [size for size in sizes if size is not None]
        size = units.size(sum(known)) if len(known) == len(sizes) else "size unknown"
        sent.append(f"{path} {units.count(len(sizes), 'tensor')}, {size}")
    return f"The forward pass sends in each step: {'; '.join(sent)}"


show_as(SplitPlan, split_view)
