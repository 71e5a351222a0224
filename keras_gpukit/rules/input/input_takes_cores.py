"""Whether making batches keeps cores busy that training needs."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure, Finding
from keras_gpukit.records.pipeline import PipelineRecord, StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.input.cache_advice import cache_advice
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input.input_bound import MINIMUM_STEPS, is_input_bound
from keras_gpukit.rules.input.input_holds_gil import InputHoldsGIL
from keras_gpukit.rules.rule import Outcome, Rule, percent
from keras_gpukit.rules.savings import CRITICAL_FRACTION, input_cores_fraction, of_input_cores

MEASURE = "keras_gpukit.diagnose(model, ds) measures how fast the steps are without their input"


class InputTakesCores(Rule):
    """Batches that are ready in time, but are made on the cores that compute the steps.

    Such steps take longer without ever waiting. Two figures together show this. This process keeps
    at least 70 % of its cores busy, as measured where pipelines that compute slowed training down.
    And the threads that make batches take at least a fifth of all cores, our choice. A stage that
    waits for a disk or a network uses no processor time and does not count. The threads' share
    is at most the time of all stages of the pipeline, if that is known.

    How much of the steps' time this costs is not measured. It is at most the time for which those
    threads computed.
    """

    code = "input-takes-cores"
    subject = "cores for input"
    title = "Making batches takes cores away from the steps"
    requires = f"the cores that making batches keeps busy, in {MINIMUM_STEPS} steps without a GPU"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the share of busy cores, and the share that input takes, with the thresholds."""
        contention, throughput = summary.contention, summary.throughput
        by_input = input_cores_fraction(summary)
        if contention is None or by_input is None:
            return self.abstain()
        if summary.environment.gpus or contention.cores_busy_fraction is None:
            return self.abstain()
        if throughput is None or throughput.measured_steps < MINIMUM_STEPS:
            return self.abstain()
        if contention.cores_busy_fraction < CORES_BUSY_FRACTION:
            return None
        if by_input < CRITICAL_FRACTION or is_input_bound(summary):
            return None
        if isinstance(InputHoldsGIL().judge(summary), Finding):
            return None  # the same code also holds the GIL, which is scarcer than cores
        stage = _costliest(summary.pipeline)
        figures = [
            percent("cores that this process keeps busy", contention.cores_busy_fraction),
            percent("of it making batches", by_input),
        ]
        advice = [MEASURE, "Do less work per example, or give the run more cores"]
        title = self.title
        if stage is not None:
            title = f"{title}, most of all {stage.name}{stage.where}"
            figures.append(Figure(f"{stage.name} per batch", _cost_ms(stage), "ms"))
            stages = summary.pipeline.stages if summary.pipeline else ()
            advice = [*cache_advice(stages, stage, summary), *advice]
        return self.find(
            "warning",
            *figures,
            advice=tuple(advice),
            saving=of_input_cores(summary),
            title=title,
        )


def _costliest(pipeline: PipelineRecord | None) -> StageRecord | None:
    """Returns the stage that takes longest per batch, without those that read; None if unknown."""
    stages = pipeline.stages if pipeline else ()
    known = [each for each in stages if each.cost_per_batch_s and each.work != "reading"]
    return max(known, key=_cost_ms, default=None)


def _cost_ms(stage: StageRecord) -> float:
    return 1000 * (stage.cost_per_batch_s or 0.0)
