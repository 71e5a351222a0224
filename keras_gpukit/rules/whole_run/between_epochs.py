"""Whether what is between epochs takes long: their start, and validation; and why."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.finding import Advice, Severity
from keras_gpukit.records.pipeline import ARRAYS, StageRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, PipelineStartRecord, TimeBreakdown
from keras_gpukit.rules.input.advice import CHEAPEST, advice_for, bottleneck, starting_advice
from keras_gpukit.rules.input.pipeline_causes import (
    PipelineCause,
    PipelineMeasures,
    cause_of,
    slowest_at_start,
    slowest_line,
)
from keras_gpukit.rules.input.python_advice import (
    ONE_PIPELINE,
    SLOW_ONES,
    for_line,
    starts_advice,
)
from keras_gpukit.rules.rule import Measure, Outcome, advise, seconds
from keras_gpukit.rules.savings import (
    WARNING_FRACTION,
    lasting_time_s,
    of_run,
    severity,
    validation_wait_s,
)
from keras_gpukit.rules.setup.slowing_settings import SlowSettings
from keras_gpukit.rules.whole_run.time_parts import MOSTLY, NOTABLE_FRACTION, TimeRule

FEW, NEARLY_ALL = 0.25, 0.8
SMALLER_BUFFER = "a smaller shuffle buffer, or shuffle file names instead of examples"
RESTARTS_FRACTION = 0.25
"""Share of the time from which starts that do not wait for data are no remark; our choice."""
OPENING_RATIO = 3.0
"""Smallest ratio of what a stage takes per element at an epoch's start to what it takes later, from
which the start itself is what takes long; our choice."""


class SlowEpochStart(PipelineMeasures, TimeRule):
    """The share of the time that goes to starting epochs, until their first batches arrive."""

    code = "slow-epoch-start"
    title = "Each epoch takes long to start"
    requires = f"{TimeRule.requires}, and the start of an epoch after the first"
    charts = ("wall-time", "timeline", "stages")
    tried_by = ("input",)
    supersedes = ("low-compute-share: epoch_starts",)
    of_the_time_in = SlowSettings.of_the_time_in
    start_of_an_epoch = Measure("An epoch takes {value} to start", "s")
    of_it_waiting_for_the_first_batch = Measure(", {value} of it to wait for the first batch", "s")
    longest_first_wait = Measure(", the longest wait for a first batch took {value}", "s")
    time_per_start_of = Measure("{of} takes {value} per start", "s")
    of_it_filling_the_shuffle_buffer = Measure(", {value} of it to fill the shuffle buffer", "s")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        start = summary.input.pipeline_start if summary.input else None
        if start is None:
            return self.abstain("no epoch after the first began, or its start was not measured")
        # The first epoch's pipeline starts in any case; its wait is part of the first step.
        waits_s = start.epochs * start.mean_s
        lasting_s = max(waits_s, parts.epoch_start_s * start.epochs / (start.epochs + 1))
        share, each_s = lasting_s / parts.wall_s, lasting_s / start.epochs
        if share < NOTABLE_FRACTION:
            return None
        figures = [
            self.of_the_time_in(share, "starting later epochs"),
            self.start_of_an_epoch(each_s),
            self.of_it_waiting_for_the_first_batch(start.mean_s),
        ]
        low_s, high_s = lasting_s, max(parts.epoch_start_s, lasting_s) + start.mean_s
        seen = severity(of_run(summary, low_s, None, basis="epoch starts"), summary)
        title = f"Each epoch takes {seconds(each_s)} s to start"
        advice: tuple[str | Advice, ...]
        waits_little = start.mean_s < MOSTLY * each_s
        longest_s, epochs, all_s = start.longest_s, start.epochs, waits_s
        if waits_little:
            seen = seen if share >= RESTARTS_FRACTION else "info"
            longest_s, epochs = parts.longest_restarts_s, start.epochs + 1
            all_s = parts.epoch_start_s - waits_s
        if few := _slow_ones(longest_s, epochs, all_s):
            title = _slow(few, epochs, longest_s[0])
            # What slowed them down may not come again.
            advice, low_s = (SLOW_ONES,), 0.0
            if not waits_little:
                figures.append(self.longest_first_wait(longest_s[0]))
        elif waits_little:
            advice = starts_advice(summary.input, waits_first=False)
        else:
            why = _cause(summary, start)
            title, advice = f"{title}{why.ending}", why.advice
            figures += why.evidence
            low_s = why.share * waits_s
            if not why.share:
                # What is only made earlier, or later, still takes its time, at best during steps.
                high_s = min(high_s, parts.compute_s or high_s)
        saving = of_run(summary, low_s, high_s, basis="epoch starts")
        return self.find(seen, *figures, advice=advice, saving=saving, title=title)


def _cause(summary: RunSummary, start: PipelineStartRecord) -> PipelineCause:
    """Returns why the first batches of epochs come late."""
    record = summary.input
    pipeline = record.pipeline if record else None
    order = cause_of(pipeline, at_start=True)
    if order is not None:
        return order
    stage = slowest_at_start(pipeline, start.mean_s)
    python = record.python if record else None
    of_arrays = pipeline and any(starter.name.startswith(ARRAYS) for starter in pipeline.starts)
    if stage is not None and pipeline is not None and python is None and not of_arrays:
        advice, is_sure = starting_advice(
            pipeline, stage, summary, opens=_opens(stage, pipeline.stages)
        )
        takes = SlowEpochStart.time_per_start_of(stage.cost_per_batch_s or 0.0, stage.name)
        line = slowest_line(summary, stage.location)
        nearer = pipeline.starts[: pipeline.starts.index(stage)]
        fills = any(other.kind == "shuffle" for other in nearer)
        does = "makes what fills the shuffle buffer" if fills else "takes most of it"
        text = f"{stage.name}{stage.where} {does}{line}"
        return PipelineCause(text, advice, (takes,), stage.share if is_sure else 0.0)
    if start.shuffle_s is not None and start.shuffle_s >= MOSTLY * start.mean_s:
        figures = (SlowEpochStart.of_it_filling_the_shuffle_buffer(start.shuffle_s),)
        return PipelineCause("", (SMALLER_BUFFER, ONE_PIPELINE), figures, 0.0)
    return PipelineCause("", starts_advice(record, waits_first=True))


def _opens(stage: StageRecord, later: tuple[StageRecord, ...]) -> bool:
    """Whether a stage takes much longer for its first elements than for later ones."""
    same = (other for other in later if (other.name, other.kind) == (stage.name, stage.kind))
    steady_s = next((other.cost_s for other in same), None)
    if stage.cost_s is None:
        return True
    return steady_s is not None and stage.cost_s >= OPENING_RATIO * steady_s


def _slow(few: int, of: int, longest_s: float) -> str:
    slow, end = ("One", "") if few == 1 else (str(few), " were slow, the longest")
    return f"{slow} of {'two' if of == 2 else of} epoch starts{end} took {seconds(longest_s)} s"


def _slow_ones(longest_s: tuple[float, ...], epochs: int, total_s: float) -> int:
    """Returns how many epochs account for most of the seconds of all; 0 if not few."""
    most = min(len(longest_s), epochs - 1, int(max(FEW * epochs, 1)))
    counts = range(1, most + 1)
    return next((few for few in counts if sum(longest_s[:few]) >= NEARLY_ALL * total_s), 0)


LONG_VALIDATION_FRACTION = 0.30
LEAST_WAIT = 1 / 3
"""Least share of validation from which its wait is explained; our choice. The first validation's
trace, and its wait for the first batch, are in no wait."""
LESS_OF_IT = (
    "`fit(validation_freq=...)` or validation_steps: validate less",
    "a larger validation_batch_size",
)
AGAIN = (
    "`validation_steps` counts batches, not examples: leave it out, and `ds.repeat()` of the "
    "validation data too, so that each validation is one pass"
)
SEVERAL_PASSES = 1.5
"""Passes over the same data from which a validation repeats itself; our choice: one that ends
within its second pass may be meant."""
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
    passes_over_the_data = Measure(", and each validation goes {value} times over its data")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        lasting_s, wait_s = lasting_time_s(parts), validation_wait_s(summary)
        is_long = parts.validation_s >= LONG_VALIDATION_FRACTION * lasting_s
        if not is_long and wait_s / lasting_s < WARNING_FRACTION:
            return None
        figures = [self.time_of_validation(parts.validation_s)]
        title = f"Validation takes {100 * parts.validation_s / parts.wall_s:.0f} % of the time"
        advice: tuple[str | Advice, ...] = LESS_OF_IT
        saved, least_s, passes = 1.0, 0.0, None
        if summary.validation is not None:
            figures.append(self.steps_of_validation(summary.validation.steps))
            passes = summary.validation.passes
        if summary.validation is not None and passes and passes >= SEVERAL_PASSES:
            figures.append(self.passes_over_the_data(passes))
            title += f": it goes {passes:.3g} times over the same data"
            advice = (AGAIN, *advice)
            # Tracing comes once, however often the data are gone over.
            steps_s = summary.validation.steps * (summary.validation.step_time_s or 0.0)
            least_s = (1 - 1 / passes) * min(steps_s, parts.validation_s)
        if wait_s >= LEAST_WAIT * parts.validation_s and summary.validation_input is not None:
            figures.append(self.of_it_waiting_for_input(wait_s))
            title += f", {100 * wait_s / parts.validation_s:.0f} % of it waiting for data"
            why = _validation_cause(summary, summary.validation_input, wait_s)
            title, advice, saved = title + why.ending, (*why.advice, *advice), why.share
            figures += why.evidence
        saved_s = max(saved * wait_s, least_s)
        saving = of_run(summary, saved_s, parts.validation_s, basis="validation", upper_bound=True)
        least: Severity = "info" if (parts.compute_s or 0.0) >= MOSTLY * parts.wall_s else "warning"
        waiting = severity(of_run(summary, wait_s, None, basis="validation"), summary)
        return self.find(
            least if waiting == "info" else waiting,
            *figures,
            saving=saving,
            advice=advice,
            title=title,
        )


def _validation_cause(summary: RunSummary, record: InputRecord, wait_s: float) -> PipelineCause:
    """Returns why validation waits."""
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
    slowest = stage or record.python
    known = advice_for(record, summary) if slowest else ()
    lines = tuple(line for line in known if line.kind != "measure")
    if order is not None:
        cheap = [line for line in lines if line.kind in CHEAPEST]
        return order._replace(advice=(*order.advice, *cheap))
    if slowest is None:
        return PipelineCause("", (FASTER,))
    line = slowest_line(summary, slowest.location)
    advice = (*map(advise, for_line(line)), *lines)
    return PipelineCause(f"the bottleneck is {slowest.name}{slowest.where}{line}", advice)
