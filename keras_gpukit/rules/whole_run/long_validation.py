"""Whether validation within `fit` takes much of a run's time, and why."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.finding import Advice, Figure, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, TimeBreakdown
from keras_gpukit.rules.input.advice import CHEAPEST, advice_for, bottleneck
from keras_gpukit.rules.input.pipeline_causes import (
    PipelineMeasures,
    cause_of,
    slowest_at_start,
    slowest_line,
)
from keras_gpukit.rules.rule import Measure, Outcome
from keras_gpukit.rules.savings import (
    WARNING_FRACTION,
    lasting_time_s,
    of_run,
    severity,
    validation_wait_s,
)
from keras_gpukit.rules.whole_run.time_parts import MOSTLY, TimeRule

LONG_VALIDATION_FRACTION = 0.30
LEAST_WAIT = 1 / 3
"""Least share of validation from which its wait is explained; our choice. The first validation's
trace, and its wait for the first batch, are in no wait."""
LESS_OF_IT = (
    "`fit(validation_freq=...)` or validation_steps: validate less",
    "a larger validation_batch_size",
)
FASTER = (
    "make batches of validation_data faster: `ds.cache()`, parallel maps, `ds.prefetch()`; "
    "`workers=4` of a PyDataset"
)


class LongValidation(PipelineMeasures, TimeRule):
    """The share of the time that goes to validation within `fit`."""

    code = "long-validation"
    title = "Validation takes a large part of the time"
    supersedes = ("low-compute-share: validation",)
    time_of_validation = Measure("This takes {value}", "s")
    steps_of_validation = Measure(", in {value} steps")
    of_it_waiting_for_input = Measure(", {value} of it waiting for input", "s")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        lasting_s, wait_s = lasting_time_s(parts), validation_wait_s(summary)
        is_long = parts.validation_s >= LONG_VALIDATION_FRACTION * lasting_s
        if not is_long and wait_s / lasting_s < WARNING_FRACTION:
            return None
        figures = [self.time_of_validation(parts.validation_s)]
        if summary.validation is not None:
            figures.append(self.steps_of_validation(summary.validation.steps))
        title = f"Validation takes {100 * parts.validation_s / parts.wall_s:.0f} % of the time"
        advice: tuple[str | Advice, ...] = LESS_OF_IT
        saved = 1.0
        if wait_s >= LEAST_WAIT * parts.validation_s and summary.validation_input is not None:
            figures.append(self.of_it_waiting_for_input(wait_s))
            title += f", {100 * wait_s / parts.validation_s:.0f} % of it waiting for data"
            why, lines, more, saved = _cause(summary, summary.validation_input, wait_s)
            title, advice, figures = title + why, (*lines, *advice), [*figures, *more]
        saving = of_run(
            summary, saved * wait_s, parts.validation_s, basis="validation", upper_bound=True
        )
        least: Severity = "info" if (parts.compute_s or 0.0) >= MOSTLY * parts.wall_s else "warning"
        waiting = severity(of_run(summary, wait_s, None, basis="validation"), summary)
        return self.find(
            least if waiting == "info" else waiting,
            *figures,
            saving=saving,
            advice=advice,
            title=title,
        )


def _cause(
    summary: RunSummary, record: InputRecord, wait_s: float
) -> tuple[str, tuple[str | Advice, ...], tuple[Figure, ...], float]:
    """Returns why validation waits, as the end of a title; advice, figures, and the share saved."""
    start, pipeline = record.pipeline_start, record.pipeline
    at_start = start is not None and start.epochs * start.mean_s >= MOSTLY * wait_s
    order = cause_of(pipeline, at_start=at_start)
    stage = bottleneck(record)
    if at_start and start is not None:
        stage = slowest_at_start(pipeline, start.mean_s)
    if pipeline is not None and stage is not None:
        stages = pipeline.starts if at_start else pipeline.stages
        pipeline = replace(pipeline, stages=stages, bottleneck=stage)
    record = replace(record, pipeline=pipeline, contention=summary.contention)
    if stage is None and record.python is None:
        lines: tuple[str | Advice, ...] = (FASTER,)
    else:
        lines = tuple(each for each in advice_for(record, summary) if each.kind != "measure")
    if order is not None:
        cheap = [each for each in lines if isinstance(each, Advice) and each.kind in CHEAPEST]
        return f": {order.text}", (*order.advice, *cheap), order.evidence, order.share
    slowest = stage or record.python
    if slowest is None:
        return "", lines, (), 1.0
    line = slowest_line(summary, slowest.location)
    return f": the bottleneck is {slowest.name}{slowest.where}{line}", lines, (), 1.0
