"""Batches that are ready in time, but slow the steps down as they are made: by GIL or cores."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.finding import Advice
from keras_gpukit.records.pipeline import PythonSourceRecord, StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.advice import cache_advice
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION, cores_left, gil_is_contended
from keras_gpukit.rules.input.input_bound import MINIMUM_STEPS, is_input_bound
from keras_gpukit.rules.input.pipeline_causes import slowest_line
from keras_gpukit.rules.input.python_advice import for_gil, for_library, for_line
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share
from keras_gpukit.rules.savings import (
    CRITICAL_FRACTION,
    input_cores_fraction,
    most_gain_s,
    of_run,
    taken_cores_s,
    waited_s,
)
from keras_gpukit.rules.setup.slowing_settings import DEBUG_MODE

MEASURE = "`keras_gpukit.diagnose(model, ds)` measures how fast the steps are without their input"


class InputHoldsGIL(Rule):
    """Batches that are ready in time, made by Python code that slows the steps down."""

    code = "gil-contention"
    title = "Python code that makes batches slows the steps down: it holds the GIL"
    yields_to_remarks = False
    requires = (
        f"waits for the GIL, and the time of {MINIMUM_STEPS} steps and of Python code for batches"
    )
    charts = ("stages", "input", "timeline")
    in_captures = True
    tried_by = ("input",)
    supersedes = ("cpu-contention",)
    wait_for_the_GIL = Measure("A thread waits {value} for the GIL", "ms")
    time_per_batch_of = Measure("{of} takes {value} per batch", "ms")
    step_time = Measure("A step takes {value}", "ms")

    def judge(self, summary: RunSummary) -> Outcome:
        record, contention = summary.input, summary.contention
        throughput, step_s = summary.throughput, summary.step_time_s
        if record is None or contention is None or contention.gil_wait_s is None:
            return self.abstain()
        if throughput is None or step_s is None or throughput.measured_steps < MINIMUM_STEPS:
            return self.abstain()
        cores, fraction = summary.environment.cpu_count, contention.input_cores_fraction
        if not gil_is_contended(contention, cores):
            return None
        used_s = None
        if cores is not None and fraction is not None:
            used_s = fraction * cores * step_s
        elif not summary.environment.gpus:
            return self.abstain("needs the processor time of the threads that make batches")
        source = _python_code(record, used_s)
        if source is None:
            return self.abstain("no Python code is known to make this run's batches")
        code, time_s = source
        python, name = record.python, code.name
        workers = python.workers if python and python.name == name else 1
        if time_s < CRITICAL_FRACTION * step_s:
            return None
        threads = f"its {workers} threads share" if workers > 1 else "it holds"
        line = slowest_line(summary, code.location)
        if python is None or python.library == "Keras":
            advice = (*for_line(line), *for_gil(name, workers, cores))
        else:
            stages = record.pipeline.stages if record.pipeline else ()
            stage = next((stage for stage in stages if stage.name == name), None)
            advice = for_library(python, stage, cores, holds_gil=True)
        # The steps' wait for these batches at least, and the time of that code at most.
        waited, most_s = waited_s(summary) or 0.0, most_gain_s(summary)
        high_s = waited + min(time_s * throughput.steps, most_s)
        saving = of_run(summary, waited, high_s, basis="GIL", upper_bound=True)
        return self.find(
            "warning",
            self.wait_for_the_GIL(1000 * contention.gil_wait_s),
            self.time_per_batch_of(1000 * time_s, name),
            self.step_time(1000 * step_s),
            advice=advice,
            saving=saving if most_s > 0 else None,
            title=f"{name}{code.where} slows training down: {threads} the GIL{line}",
        )


def _python_code(
    record: InputRecord, used_s: float | None
) -> tuple[PythonSourceRecord | StageRecord, float] | None:
    """Returns the slowest Python code, and its seconds per batch; None if unknown."""
    found: list[tuple[PythonSourceRecord | StageRecord, float | None]] = []
    if (source := record.python) is not None and not source.in_processes:
        found.append((source, source.time_per_batch_s or used_s))
    found += [
        (replace(stage, call=None), stage.cost_per_batch_s)  # at its code, not where it is added
        for stage in (record.pipeline.stages if record.pipeline else ())
        if stage.work == "python"
    ]
    known = [
        (code, time_s if used_s is None else min(time_s, used_s))
        for code, time_s in found
        if time_s is not None
    ]
    return max(known, key=lambda pair: pair[1], default=None)


class InputTakesCores(Rule):
    """Batches that are ready in time, but are made on the cores that compute the steps."""

    code = "cpu-contention"
    title = "Making batches takes cores away from the steps"
    requires = f"the cores that making batches keeps busy, in {MINIMUM_STEPS} steps without a GPU"
    charts = ("stages", "input", "timeline")
    in_captures = True
    tried_by = ("input",)
    cores_that_this_process_keeps_busy = Share("This process keeps {value} of all cores busy")
    of_it_making_batches = Share(", {value} of them with making batches")
    time_per_batch_of = InputHoldsGIL.time_per_batch_of

    def judge(self, summary: RunSummary) -> Outcome:
        contention, throughput = summary.contention, summary.throughput
        by_input = input_cores_fraction(summary)
        if contention is None or by_input is None:
            return self.abstain()
        if summary.environment.gpus or contention.cores_busy_fraction is None:
            return self.abstain()
        if DEBUG_MODE in summary.environment.settings:
            return self.abstain("the debug mode runs tf.data in Python, on one core")
        if throughput is None or throughput.measured_steps < MINIMUM_STEPS:
            return self.abstain()
        left = cores_left(summary)
        if contention.cores_busy_fraction < left * CORES_BUSY_FRACTION:
            return None
        if by_input < left * CRITICAL_FRACTION or is_input_bound(summary):
            return None
        stages = summary.pipeline.stages if summary.pipeline else ()
        known = [
            record for record in stages if record.cost_per_batch_s and record.work != "reading"
        ]
        stage = max(known, key=lambda record: record.cost_per_batch_s or 0.0, default=None)
        figures = [
            self.cores_that_this_process_keeps_busy(contention.cores_busy_fraction),
            self.of_it_making_batches(by_input),
        ]
        advice: list[str | Advice] = [
            MEASURE,
            "Do less work per example, or give the run more cores",
        ]
        title = self.title
        if stage is not None:
            title = f"{title}, most of all {stage.name}{stage.where}"
            cost_ms = 1000 * (stage.cost_per_batch_s or 0.0)
            figures.append(self.time_per_batch_of(cost_ms, stage.name))
            advice = [*cache_advice(stages, stage, summary), *advice]
        taken_s = taken_cores_s(summary)
        most = of_run(summary, 0.0, taken_s, basis="freed cores", upper_bound=True)
        return self.find(
            "warning",
            *figures,
            advice=tuple(advice),
            saving=most if taken_s is not None else None,
            title=title,
        )
