"""Whether caches and shuffle buffers of the input will need more memory than the host has."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.pipeline import HostBuffer, HostBuffers
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Measure, Outcome, Rule

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
        unknown = [each for each in record.buffers if each.held_bytes(record.steps) is None]
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
            *(self.full_size_of(each.full_bytes or 0.0, each.name) for each in record.buffers),
            self.still_to_come(missing_bytes),
            self.free_host_memory(left_bytes),
            advice=_advice(record.buffers, largest),
            title=f"{largest.name} runs out of host memory {_when(record)}" if runs_out else None,
        )


def _when(record: HostBuffers) -> str:
    """Returns when memory runs out, from the rate at which steps pass elements through caches."""
    left_bytes = record.left_bytes or 0
    fills_first = sum(
        (each.full_bytes or 0.0) - (each.held_bytes(record.steps) or 0.0)
        for each in record.buffers
        if each.kind == "shuffle"
    )
    caches = [each for each in record.buffers if each.kind == "cache" and each.per_step]
    # Before the first step, a cache takes in the elements that fill the shuffle buffers after it.
    fills_first += sum(
        each.ahead * (each.element_bytes or 0.0) for each in caches if not record.steps
    )
    rate = sum((each.per_step or 0.0) * (each.element_bytes or 0.0) for each in caches)
    if (fills_first and fills_first >= left_bytes) or not rate:
        return "before the first step: while the shuffle buffer is filled"
    step = record.steps + max(left_bytes - fills_first, 0.0) / rate
    if record.epoch_steps:
        epochs = step / record.epoch_steps
    else:
        largest = max(caches, key=lambda each: each.full_bytes or 0.0)
        epochs = step * (largest.per_step or 0.0) / max(largest.elements or 1, 1)
    if epochs < 1:
        return f"after about {100 * epochs:.0f} % of the first epoch"
    return f"in epoch {int(epochs) + 1:,}"


def _advice(buffers: tuple[HostBuffer, ...], largest: HostBuffer) -> tuple[str, ...]:
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
