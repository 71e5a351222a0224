"""Whether steps wait for their next batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Figure, Finding, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, Mechanism
from keras_gpukit.rules.input.advice import (
    CHEAPEST,
    ON_CACHES,
    advice_for,
    bottleneck,
    change_for,
    general_advice,
)
from keras_gpukit.rules.input.pipeline_causes import (
    SHORTEST_WAIT_S,
    PipelineMeasures,
    cause_of,
    slowest_line,
)
from keras_gpukit.rules.input.python_advice import for_line
from keras_gpukit.rules.rule import Measure, NotApplicable, Outcome, Rule, Share, advise, too_short
from keras_gpukit.rules.savings import (
    SAMPLED_MARGIN,
    WARNING_FRACTION,
    input_of_run,
    of_input,
    severity_of_input,
)
from keras_gpukit.rules.setup.slowing_settings import in_effect, undone, written

MINIMUM_STEPS = 10
FROM_PROFILE: Mechanism = "profile"
"""Mechanism of a wait that is known from a profile alone, which has few steps, but all of each."""
PROFILED_STEPS = 2
STARVED_BATCHES = 0.5
NEARLY_ALL = 0.9
"""Least share of the slowest segment from which a stage is said to make the batch; our choice."""
FIRST_EPOCH = "later epochs hardly wait: over more epochs this matters less"
FILLS_CACHE = f"the first epoch fills the cache, {FIRST_EPOCH}"


class InputBound(PipelineMeasures, Rule):
    """The share of the steps' time that goes to waiting for data."""

    code = "input-bound"
    title = "Steps wait for data"
    requires = f"the input wait of at least {MINIMUM_STEPS} steps"
    charts = ("stages", "input", "timeline")
    in_captures = True
    tried_by = ("input",)
    supersedes = ("gil-contention", "low-compute-share: input")
    after_the_first_epoch = Share(", after the first epoch {value}")
    input_stall_at_most = Share("Steps spend at most {value} of their time waiting for input")
    batches_in_the_buffer = Measure("The buffer holds {value} batches on average")
    wait_per_step = Measure("A step waits {value} for its batch", "ms")
    a_stall_every = Measure("A stall comes every {value}", "steps")
    input_stall = Share("So it waits {value} of each step")
    at_most = Share(", at most {value}")
    time_per_batch_of = Measure("A batch takes {value} in {of}", "ms")
    own_time_per_step = Measure("; the model needs {value} for it", "ms")
    busy_of = Measure(", {value} of {of} busy")
    in_parallel = Measure(", {value} in parallel")
    parallel_calls_asked_for = Measure(", although {value} parallel calls are asked for")

    def judge(self, summary: RunSummary) -> Outcome:
        record, waits = summary.input, _waits(summary)
        if isinstance(waits, NotApplicable):
            return self.abstain(waits)
        if record is None or not waits:
            return None
        stall = record.stall_fraction or 0.0
        if record.confidence == "upper bound":
            return self._at_most(summary, record, stall)
        later = record.later_stall_fraction
        advice = advice_for(record, summary)
        what, figures = None, []
        if later is not None and later < WARNING_FRACTION:
            # If a cache helps, the run already has one: its later epochs show that.
            others = (action for action in advice if action.kind not in ON_CACHES)
            what = "Steps of the first epoch wait for data"
            stages = record.pipeline.stages if record.pipeline else ()
            is_cached = any(stage.work == "caching" for stage in stages)
            advice = (advise(FILLS_CACHE if is_cached else FIRST_EPOCH), *others)
            figures.append(self.after_the_first_epoch(later))
        saving = of_input(summary)
        order = cause_of(record.pipeline, at_start=False) if what is None else None
        if order is not None:
            cheap = (action for action in advice if action.kind in CHEAPEST)
            advice = (*map(advise, order.advice), *cheap)
            saving = saving and replace(saving, low_s=order.share * saving.low_s)
        level: Severity = "warning" if figures else severity_of_input(summary)
        known = in_effect(summary.environment).items()
        causes = {key: setting for key, setting in known if setting.slows == "input"}
        if what is None and (share := input_of_run(summary)) is not None:
            what = f"{100 * share:.0f} % of the time is spent waiting for data"
        what = what or f"{100 * stall:.0f} % of the steps' time is spent waiting for data"
        code = bottleneck(record) or record.python
        line = slowest_line(summary, code.location) if code else ""
        if order is not None:
            title = f"{what}{order.ending}"
        else:
            title = f"{what}: the bottleneck is {code.name}{code.where}{line}" if code else what
            advice = (*map(advise, for_line(line)), *advice)
        if causes:
            key, cause = next(iter(causes.items()))
            title = f"{what}: {written(summary.environment, key)} {cause.does}"
            advice = undone(causes)
            # What batches take without the setting is unknown.
            saving = saving and replace(saving, low_s=0.0)
        most, distribution = record.most_stall_fraction, record.distribution
        evidence = [*_stage(record, stall), self.input_stall(stall)]
        if most is not None and most - stall >= SAMPLED_MARGIN:
            evidence.append(self.at_most(most))
        evidence += figures
        if distribution is not None and distribution.burst_period_steps is not None:
            evidence.append(self.a_stall_every(distribution.burst_period_steps))
        evidence += order.evidence if order is not None else ()
        found = self.find(level, *evidence, advice=advice, saving=saving, title=title)
        stage, change = bottleneck(record), change_for(record, found.actions[0])
        is_named = stage is not None and f"{stage.name}{stage.where}" in title
        return replace(found, change=change, defined=stage.defined if stage and is_named else "")

    def _at_most(self, summary: RunSummary, record: InputRecord, stall: float) -> Finding:
        return self.find(
            "warning",
            self.input_stall_at_most(stall),
            self.batches_in_the_buffer(record.buffered_batches or 0.0),
            advice=(
                "`compile(steps_per_execution=1)` for a run: its wait is exact",
                *general_advice(record, summary),
            ),
            saving=of_input(summary),
            title="Steps may wait for data",
        )


def is_input_bound(summary: RunSummary) -> bool | None:
    """Whether input explains a slow run; None if unknown."""
    waits = _waits(summary)
    return None if isinstance(waits, NotApplicable) else waits


def _waits(summary: RunSummary) -> bool | NotApplicable:
    """Whether the wait for input passes the thresholds of `InputBound`; the reason if unknown."""
    record = summary.input
    if record is None or record.stall_fraction is None:
        because = record.unknown_because if record else None
        return NotApplicable(one_line(because or f"needs {InputBound.requires}"))
    if record.mechanism == FROM_PROFILE:
        if record.measured_steps < PROFILED_STEPS:
            return NotApplicable(f"the profile has fewer than {PROFILED_STEPS} complete steps")
    elif record.measured_steps < MINIMUM_STEPS:
        return too_short(
            f"the wait of {record.measured_steps} of the {MINIMUM_STEPS} steps needed was measured"
        )
    margin = SAMPLED_MARGIN if record.confidence == "sampled" else 0.0
    if record.stall_fraction - margin < WARNING_FRACTION:
        return False
    if record.wait_s is not None and record.wait_s < SHORTEST_WAIT_S:
        return False
    filled = record.buffered_batches
    if record.confidence == "upper bound" and (filled is None or filled >= STARVED_BATCHES):
        return NotApplicable(
            "the wait is known only as an upper bound, part of it may hide behind compute"
        )
    return True


def _stage(record: InputRecord, stall: float) -> Iterator[Figure]:
    """Yields how long a batch takes to make, and the step without it."""
    source, stage = record.python, bottleneck(record)
    if record.pipeline is None or not record.pipeline.stages:
        stage = None  # the start of an epoch makes batches ahead: its time is of more than one
    # The stage is timed at each batch; the code is sampled only once per second.
    if source is not None and stage is not None and stage.name == source.name:
        source = source if source.workers > 1 or stage.cost_per_batch_s is None else None
    if source is not None and source.time_per_batch_s is not None:
        yield _made(source.time_per_batch_s, source.name)
        if source.busy_workers is not None and source.workers > 1:
            yield InputBound.busy_of(source.busy_workers, f"{source.workers} workers")
    # How many calls of a chain of `concatenate` an element passes is not the same for all.
    elif stage is not None and stage.cost_per_batch_s is not None and not stage.joined:
        made = _made(stage.cost_per_batch_s, stage.name)
        in_stage = InputBound.time_per_batch_of.sentence
        yield made if stage.share >= NEARLY_ALL else replace(made, sentence=in_stage)
        if stage.parallelism > 1:
            yield InputBound.in_parallel(stage.parallelism)
        if stage.asked_parallelism is not None:
            yield InputBound.parallel_calls_asked_for(stage.asked_parallelism)
    elif record.wait_s is not None:
        yield InputBound.wait_per_step(1000 * record.wait_s)
    if record.wait_s is not None and stall:
        yield InputBound.own_time_per_step(1000 * record.wait_s * (1 / stall - 1))


def _made(spent_s: float, of: str) -> Figure:
    figure = InputBound.time_per_batch_of(1000 * spent_s, of)
    return replace(figure, sentence="A batch takes {value} to make")
