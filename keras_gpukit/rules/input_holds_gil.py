"""Whether Python code that makes batches slows training down by holding the GIL."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.contention import GIL_WAIT_S
from keras_gpukit.rules.input_bound import MINIMUM_STEPS, is_input_bound
from keras_gpukit.rules.library_advice import for_library
from keras_gpukit.rules.python_advice import for_gil
from keras_gpukit.rules.rule import Outcome, Rule
from keras_gpukit.rules.savings import CRITICAL_FRACTION, of_gil


class InputHoldsGIL(Rule):
    """Batches that are ready in time, made by Python code that slows the steps down.

    Starting a step also runs Python code, and only one thread at a time can do so. So a step takes
    longer without ever waiting for its batch. Two figures together show this. A thread that wants
    the GIL (global interpreter lock) waits for it as long as was measured where a producer held it.
    And the pipeline's own Python code runs for at least a fifth of each step. Code that only waits
    for a disk or a network releases the GIL.

    How much of the steps' time this costs is not measured. It is at most the run time of that code.
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
        gil_wait_s = summary.contention.gil_wait_s if summary.contention else None
        if record is None or gil_wait_s is None:
            return self.abstain()
        if throughput is None or throughput.step_time_s is None:
            return self.abstain()
        if throughput.measured_steps < MINIMUM_STEPS:
            return self.abstain()
        if gil_wait_s < GIL_WAIT_S or is_input_bound(summary):
            return None
        source = _python_code(record)
        if source is None:
            return self.abstain("no Python code is known to make this run's batches")
        name, time_s = source
        workers = record.python.workers if record.python and record.python.name == name else 1
        if time_s < CRITICAL_FRACTION * throughput.step_time_s:
            return None
        python, cores = record.python, summary.environment.cpu_count
        if python is None or python.library == "Keras":
            advice = for_gil(name, workers, cores)
        else:
            advice = for_library(python, _stage(record, name), cores, holds_gil=True)
        return self.find(
            "warning",
            Figure("wait for the GIL", 1000 * gil_wait_s, "ms"),
            Figure(f"{name} per batch", 1000 * time_s, "ms"),
            Figure("step time", 1000 * throughput.step_time_s, "ms"),
            advice=advice,
            saving=of_gil(summary, time_s),
        )


def _stage(record: InputRecord, name: str) -> StageRecord | None:
    stages = record.pipeline.stages if record.pipeline else ()
    return next((stage for stage in stages if stage.name == name), None)


def _python_code(record: InputRecord) -> tuple[str, float] | None:
    """Returns the name and time per batch of the slowest Python code here; None if unknown."""
    found = []
    if record.python is not None and not record.python.in_processes:
        found.append((record.python.name, record.python.time_per_batch_s))
    if record.pipeline is not None:
        found += [
            (stage.name, stage.cost_per_batch_s)
            for stage in record.pipeline.stages
            if stage.work == "python"
        ]
    known = [(name, time_s) for name, time_s in found if time_s is not None]
    return max(known, key=lambda each: each[1], default=None)
