"""A run that ended because a device ran out of memory: in which part, for what, and what fits."""

from __future__ import annotations

from math import ceil

from keras_gpukit.records.memory import MemoryByCause, MemoryOption, OptionKind, OutOfMemory
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome
from keras_gpukit.rules.whole_run.endings import EndingRule, advice_on, title_of

MIXED_PRECISION_SHARE = 0.7
"""Upper bound of the share of activations and gradients that remains with mixed precision. float16
halves them, but some stay in float32, such as batch statistics and softmax. Our choice, on the safe
side of a half."""
REMATERIALISATION_SHARE = 0.6
"""Upper bound of the share of activations that remains with rematerialization. Measured once on a
convolutional model: 45 MB instead of 100."""


def memory_options(
    needs: MemoryByCause,
    *,
    batch_size: int,
    fitting: tuple[int, MemoryByCause] | None,
    accumulating: tuple[int, MemoryByCause] | None,
    trainable_bytes: int,
    precision: str | None,
    allowed_bytes: int | None,
) -> tuple[MemoryOption, ...]:
    """Returns the ways to need less memory, each with its predicted peak.

    Args:
        needs: Upper bound of the memory that the step needs without a change, by cause.
        batch_size: Examples per batch of that step.
        fitting: Largest batch size that fits, and what its step needs; None if none fits.
        accumulating: Largest micro-batch that fits next to accumulated gradients, and what its step
            needs without them; None if none fits.
        trainable_bytes: Size of the trainable weights. Accumulated gradients take as much.
        precision: Name of the model's dtype policy; None if unknown.
        allowed_bytes: Memory that a step may use; None if unknown.
    """
    options = []

    def add(kind: OptionKind, needs_bytes: int, size: int, note: str | None = None) -> None:
        fits = None if allowed_bytes is None else needs_bytes <= allowed_bytes
        options.append(MemoryOption(kind, needs_bytes, fits, size, note))

    if fitting is not None:
        add("batch size", fitting[1].total_bytes, fitting[0])
    if accumulating is not None:
        micro, step = accumulating
        note = f"{ceil(batch_size / micro)} micro-batches per update"
        add("accumulation", step.total_bytes + trainable_bytes, micro, note)
    varying = needs.activations_bytes + needs.gradients_bytes
    if precision is not None and not precision.startswith("mixed"):
        rest = needs.total_bytes - varying + needs.weights_bytes // 2
        needed = rest + int(varying * MIXED_PRECISION_SHARE)
        add("mixed precision", needed, batch_size, "on GPUs with tensor cores it is faster too")
    saved = int(needs.activations_bytes * (1 - REMATERIALISATION_SHARE))
    note = "activations are computed twice, which takes about a quarter more time"
    add("rematerialization", needs.total_bytes - saved, batch_size, note)
    return tuple(options)


NOT_ONE_FITS = "not even one example is predicted to fit"
PREDICT_BATCH = 32
"""Batch size of `evaluate` and `predict` unless the script gives one: Keras' default."""
_FRAGMENTED = (
    "Enough is free in total, but not in one block: set `TF_GPU_ALLOCATOR=cuda_malloc_async` "
    "before TensorFlow starts, and keep batches to one shape, or to a few"
)
_CHANGES = {
    "batch size": "Train with `batch_size={batch}`",
    "accumulation": "`keras_gpukit.accumulate_gradients` with micro-batches of {batch}",
    "mixed precision": '`keras_gpukit.configure_gpus(mixed_precision="auto")`',
    "rematerialization": "`keras_gpukit.rematerialize`: activations are recomputed, not kept",
}
_WEIGHTS = (
    "Weights of {layer} have this size, which a smaller batch does not change: make the input of "
    "the layer smaller, as `GlobalAveragePooling2D` in place of `Flatten` does"
)
_UNUSUAL = "The data make batches of different sizes: cut the large ones into batches of {size:,}"
_LONG = (
    "One long example makes all examples of its batch as long: cut it (`x[:n]`) or drop it. Where "
    "many are long, `bucket_by_sequence_length` makes smaller batches of them"
)
_ARGUMENTS = {
    "validation": ("fit", "validation_batch_size", "validation_data"),
    "evaluation": ("evaluate", "batch_size", "the data of `evaluate`"),
    "prediction": ("predict", "batch_size", "the data of `predict`"),
}


class DeviceOutOfMemory(EndingRule):
    """A run that ended with TensorFlow's `ResourceExhaustedError`."""

    code = "out-of-memory"
    title = "The run ended because memory ran out"
    requires = "the exception that ended the run"
    charts = ("device-memory",)
    asked_for = Measure("An operation asked for {value}", "B")
    in_use = Measure(", {value} were in use", "B")
    in_use_at_most = Measure(", at most {value} were in use", "B")
    free = Measure(", {value} were free", "B")
    free_at_least = Measure(", at least {value} were free", "B")
    largest_free_block = Measure(", {value} of that in one block", "B")
    limit = Measure("TensorFlow may take {value}", "B")
    held_by_other_processes = Measure(", other processes hold {value}", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        record = summary.out_of_memory
        script_error = summary.script.ended_by if summary.script else None
        if record is None and script_error is not None and script_error.device is not None:
            to_do, title = advice_on(script_error), title_of(script_error)
            return self.find("critical", advice=to_do, title=title)
        if record is None:
            return self.abstain() if summary.ending is None else None
        state = record.state
        figures = {
            self.asked_for: state.asked_bytes,
            self.in_use_at_most if state.in_use_is_peak else self.in_use: state.in_use_bytes,
            self.free_at_least if state.in_use_is_peak else self.free: state.free_bytes,
            self.largest_free_block: state.largest_free_bytes,
            self.limit: state.limit_bytes,
        }
        evidence = [measure(size) for measure, size in figures.items() if size is not None]
        if record.holders:
            held = sum(holder.used_bytes for holder in record.holders)
            evidence.append(self.held_by_other_processes(held))
        return self.find("critical", *evidence, advice=_advice(record), title=_title(record))


def asking(record: OutOfMemory) -> str | None:
    """Names what asked for the memory: "the loss 'batch_all' (train.py:31)"; None if unknown."""
    # In a callback, the line is the one that calls the part.
    line = f" ({record.line})" if record.line and not record.in_callback else ""
    if record.role:
        name = f" {record.function!r}" if record.function else ""
        return f"the {record.role}{name}{line}"
    if record.layer:
        return f"layer {record.layer!r}{line}"
    return f"{record.function}{line}" if record.function and line else None


def place_advice(record: OutOfMemory) -> tuple[str, ...]:
    """Returns how to make the batches smaller of a validation, evaluation or prediction."""
    if record.part not in _ARGUMENTS:
        return ()
    call, argument, data = _ARGUMENTS[record.part]
    size, fits = record.batch_size, record.training_batch_size
    is_tried = record.part == "validation" and fits is not None
    size_to_try = fits if is_tried else PREDICT_BATCH
    if size_to_try is None or (size is not None and size_to_try >= size):
        than = "" if size is None else f" than {size:,}"
        change = f"a smaller `{argument}`{than} in `{call}`"
    else:
        change = f"`{call}({argument}={size_to_try})`"
        change += ": training's batches of that size did fit" if is_tried else ", Keras' default"
    if record.batches_given:
        change = f"Make the batches of {data} smaller" + (f" than {size:,}" if size else "")
    powers = [length for length in record.shape or () if length == size]
    if len(powers) > 1:
        change += f" (half the batch needs 1/{2 ** len(powers)} of this tensor)"
    return (change,)


def _title(record: OutOfMemory) -> str:
    fragmented = ": the free memory is fragmented" if record.is_fragmented else ""
    who = asking(record)
    if record.part is None and not record.in_callback:
        who = f"{who[:1].upper()}{who[1:]} on {record.device}" if who else record.device
        return f"{who} ran out of memory{fragmented}"
    part = "A callback" if record.part is None else record.part.capitalize()
    if record.in_callback:
        part += "" if record.part is None else " in a callback"
        part += f" ({record.line})" if record.line else ""
    title = f"{part} ran out of memory on {record.device}{fragmented}"
    if who is None and record.shape is None:
        return title
    size = record.state.asked_bytes
    amount = "" if size is None else _size(size)
    shape = "" if record.shape is None else f"[{', '.join(map(str, record.shape))}]"
    title += f": {who or 'an operation'} asked for {', '.join(filter(None, (shape, amount)))}"
    if record.batch_size is not None:
        title += f"; the batch has {record.batch_size:,} examples"
    if record.usual_batch_size is not None:
        title += f", those before had {record.usual_batch_size:,}"
    if record.varying_length is not None:
        length = f"of a length ({record.varying_length:,}) that varies"
        title += f", {length}; the batches before did fit"
    return title


def _size(size_bytes: int) -> str:
    gib = size_bytes / 2**30
    return f"{gib:,.3g} GiB" if gib >= 1 else f"{size_bytes / 2**20:,.0f} MiB"


def _advice(record: OutOfMemory) -> tuple[str, ...]:
    if record.of_weights:
        return (
            _WEIGHTS.format(layer=asking(record) or "this layer"),
            "Or fewer units in this layer",
        )
    if record.usual_batch_size is not None:
        return (_UNUSUAL.format(size=record.usual_batch_size),)
    if record.varying_length is not None:
        return (_LONG,)
    lines = [_FRAGMENTED] if record.is_fragmented else []
    lines += place_advice(record)
    if record.options_unknown_because == NOT_ONE_FITS:
        lines.append(f"A smaller tensor in {asking(record) or 'the step'}: {NOT_ONE_FITS}")
    elif record.part == "training" and all(o.kind != "batch size" for o in record.options):
        lines.append("Train with a smaller batch")
    for option in sorted(record.options, key=lambda change: change.fits is False):
        line = _CHANGES[option.kind].format(batch=option.batch_size)
        if option.needs_bytes is not None:
            line += f": at most {option.needs_bytes / 2**20:,.0f} MiB, predicted"
        lines.append(f"Not enough on its own: {line}" if option.fits is False else line)
    if record.is_crowded:
        lines.append("End the other processes on this GPU, or train on another GPU")
    if record.is_capped:
        lines.append("A higher limit: `configure_gpus(memory=...)`")
    if lines:
        return tuple(lines)
    if record.in_callback:
        return ("Take fewer examples at a time in the callback",)
    return ("Train with a smaller batch",)
