"""Whether Python code that makes batches slows training down by holding the GIL."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure, Finding
from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.contention import gil_is_contended
from keras_gpukit.rules.input.input_bound import MINIMUM_STEPS, InputBound
from keras_gpukit.rules.input.library_advice import for_library
from keras_gpukit.rules.input.python_advice import for_gil
from keras_gpukit.rules.rule import Outcome, Rule
from keras_gpukit.rules.savings import CRITICAL_FRACTION, of_gil


class InputHoldsGIL(Rule):
    """Batches that are ready in time, made by Python code that slows the steps down.

    Starting a step also runs Python code, and only one thread at a time can do so. So a step takes
    longer without waiting much for its batch. Two figures together show this. A thread that wants
    the GIL (global interpreter lock) waits for it as long as was measured where a producer held it.
    And the pipeline's own Python code runs for at least a fifth of each step. Code that only waits
    for a disk or a network releases the GIL, and threads that wait for it inside the code use no
    processor time: the code holds the GIL for at most the processor time of the input's threads.

    How much of the steps' time this costs is not measured. It is at least their wait for batches,
    and at most the time in which that code holds the GIL in addition.
    """

    code = "input-holds-gil"
    subject = "the GIL"
    title = "Python code that makes batches slows the steps down: it holds the GIL"
    requires = (
        f"waits for the GIL, and the time of {MINIMUM_STEPS} steps and of Python code for batches"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the wait for the GIL, and the Python code's time, with the thresholds."""
        record, throughput = summary.input, summary.throughput
        contention = summary.contention
        if record is None or contention is None or contention.gil_wait_s is None:
            return self.abstain()
        if throughput is None or throughput.step_time_s is None:
            return self.abstain()
        if throughput.measured_steps < MINIMUM_STEPS:
            return self.abstain()
        input_bound = InputBound().judge(summary)
        if isinstance(input_bound, Finding) and input_bound.severity != "info":
            return None
        cores, fraction = summary.environment.cpu_count, contention.input_cores_fraction
        if not gil_is_contended(contention, cores):
            return None
        used_s = None
        if cores is not None and fraction is not None:
            used_s = fraction * cores * throughput.step_time_s
        elif not summary.environment.gpus:
            return self.abstain("needs the processor time of the threads that make batches")
        source = _python_code(record, used_s)
        if source is None:
            return self.abstain("no Python code is known to make this run's batches")
        name, where, time_s = source
        workers = record.python.workers if record.python and record.python.name == name else 1
        if time_s < CRITICAL_FRACTION * throughput.step_time_s:
            return None
        threads = f"its {workers} threads share" if workers > 1 else "it holds"
        python = record.python
        if python is None or python.library == "Keras":
            advice = for_gil(name, workers, cores)
        else:
            advice = for_library(python, _stage(record, name), cores, holds_gil=True)
        return self.find(
            "warning",
            Figure("wait for the GIL", 1000 * contention.gil_wait_s, "ms"),
            Figure(f"{name} per batch", 1000 * time_s, "ms"),
            Figure("step time", 1000 * throughput.step_time_s, "ms"),
            advice=advice,
            saving=of_gil(summary, time_s),
            title=f"{name}{where} slows training down: {threads} the GIL",
        )


def _stage(record: InputRecord, name: str) -> StageRecord | None:
    stages = record.pipeline.stages if record.pipeline else ()
    return next((stage for stage in stages if stage.name == name), None)


def _python_code(record: InputRecord, used_s: float | None) -> tuple[str, str, float] | None:
    """Returns the name, place and time per batch of the slowest Python code; None if unknown.

    Args:
        record: Record of the input.
        used_s: Processor time of the input's threads per batch, in seconds; None if unknown.
    """
    found: list[tuple[str, str, float | None]] = []
    if (source := record.python) is not None and not source.in_processes:
        where = f" ({source.location})" if source.location else ""
        found.append((source.name, where, source.time_per_batch_s or used_s))
    if record.pipeline is not None:
        found += [
            (stage.name, stage.where, stage.cost_per_batch_s)
            for stage in record.pipeline.stages
            if stage.work == "python"
        ]
    known = [
        (name, where, time_s if used_s is None else min(time_s, used_s))
        for name, where, time_s in found
        if time_s is not None
    ]
    return max(known, key=lambda each: each[2], default=None)
