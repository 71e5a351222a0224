"""Estimates how much of a run's wall time removing a cause would save, from where the time went.

No saving exceeds the time that there is to save. Each saving assumes that only its own cause is
removed: savings of several findings do not add up.
"""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.finding import Saving, Severity
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.records.tuning import Rate
from keras_gpukit.rules.input.contention import gil_is_contended, mostly_waits

# Shares of the run's wall time. The rules of xprof begin to suggest something at the first one; its
# input-pipeline analyzer calls the second one "highly input-bound".
WARNING_FRACTION = 0.10
CRITICAL_FRACTION = 0.20
# How far a sampled stall may be off, as a share of the steps' time; see docs on the input wait.
SAMPLED_MARGIN = 0.05
# If two sets of threads want all cores, each gets half. So compute alone takes at least half as
# long as next to a pipeline that never rests. This assumes a fair scheduler; it is not measured.
FAIR_SHARE = 0.5
# On a CPU, a step after a pause takes longer, because the cores slept and their caches cooled down:
# by up to 15 % of the pause (`benchmarks/results/step_after_pause.json`). Not measured on a GPU.
AFTER_PAUSE = 0.15
GPU_MARGINS = 0.04, 0.06
"""Shares of the steps' time by which batches that are ready save less, or more, than the wait on a
GPU: our choices. In 25 fits on an H100 it was up to 3.1 percentage points less, and up to 5.9 more
where Python makes batches (`benchmarks/results/gpu/stall.*.json`, one step per execution)."""
LEAST_WORK = 0.2
"""Share of the steps' own time that they keep, whatever their input does. It was 0.39 or more in
all runs of `benchmarks/verdict_truth.py`; half of that is our choice."""
OTHERS_PERCENT, FULL_PERCENT = 25.0, 90.0
"""Least use of all cores from which other processes count: a desktop or a browser takes less,
another training run takes more. And the use of all cores, by any process, from which others take
time from the run. Both are our choice."""


def severity(saving: Saving | None, summary: RunSummary) -> Severity:
    """Returns the severity of a cause, by the share of the run that was seen to go to it.

    The severity is "warning" if that share is unknown. The first step happens only once and is
    left out of the run's time: a short run with a lasting cause stands for a long one.
    """
    if saving is None:
        return "warning"
    lasting_s = lasting_time_s(summary.breakdown) if summary.breakdown else saving.of_s
    share = saving.low_s / lasting_s if lasting_s > 0 else saving.fraction
    if share >= CRITICAL_FRACTION:
        return "critical"
    return "warning" if share >= WARNING_FRACTION else "info"


def lasting_time_s(parts: TimeBreakdown) -> float:
    """Returns the run's time without its first step, which comes only once."""
    return parts.wall_s - parts.first_step_s or parts.wall_s


def input_of_run(summary: RunSummary) -> float | None:
    """Returns the share of the whole run that steps waited for input; None if unknown.

    Every output gives this share. The wait for an epoch's first batch is part of its start.
    """
    parts = summary.breakdown
    return parts.input_s / parts.wall_s if parts and parts.input_s is not None else None


def wall_s(summary: RunSummary) -> float | None:
    """Returns the run's wall time or, if unknown, the total time of the measured steps."""
    if summary.breakdown is not None:
        return summary.breakdown.wall_s or None
    record = summary.input
    if summary.throughput is not None:
        return summary.throughput.wall_s or _measured_s(summary) or None
    if record is not None and record.wait_s and record.stall_fraction:
        return record.measured_steps * record.wait_s / record.stall_fraction
    return None


def of_run(
    summary: RunSummary,
    low_s: float,
    high_s: float | None,
    *,
    basis: str,
    upper_bound: bool = False,
) -> Saving | None:
    """Returns a `Saving`, limited to the run's wall time; None if that is unknown."""
    of_s = wall_s(summary)
    if of_s is None or of_s <= 0:
        return None
    low_s = min(max(low_s, 0.0), of_s)
    high_s = None if high_s is None else min(max(high_s, low_s), of_s)
    return Saving(low_s, high_s, of_s, basis, upper_bound)


def of_input(summary: RunSummary) -> Saving | None:
    """Returns what a run would save if every batch were ready when its step needs it.

    The section on `input-bound` in the reference says what the range is made of. If other processes
    fill the cores, batches that are computed may be late because of them, and no change of the
    script is sure to save anything; code that waits needs no core.
    """
    saving, record, host = _of_ready_batches(summary), summary.input, summary.host
    if saving is None or record is None or host is None or mostly_waits(record, summary):
        return saving
    used, by_others = host.cpu_percent or 0.0, host.others_cpu_percent or 0.0
    if used < FULL_PERCENT or by_others < OTHERS_PERCENT:
        return saving
    return replace(saving, low_s=0.0, upper_bound=True)


def _of_ready_batches(summary: RunSummary) -> Saving | None:
    wait_s = waited_s(summary)
    if wait_s is None or summary.input is None:
        return None
    if summary.input.confidence == "upper bound":
        return of_run(summary, 0.0, wait_s, basis="wait", upper_bound=True)
    least, most = summary.input.stall_fraction, summary.input.most_stall_fraction
    low_s = wait_s - _sampled_margin_s(summary)
    high_s = wait_s * (most / least if least and most else 1) + _sampled_margin_s(summary)
    if summary.environment.gpus:
        if summary.input.confidence == "exact":
            less_s, more_s = (margin * time_of_steps_s(summary) for margin in GPU_MARGINS)
            low_s, high_s = low_s - less_s, high_s + min(more_s, most_gain_s(summary))
        return of_run(summary, low_s, high_s, basis="wait")
    contended = gil_is_contended(summary.contention, summary.environment.cpu_count)
    if contended and time_of_steps_s(summary) > 0:
        high_s += most_gain_s(summary)
        return of_run(summary, low_s, high_s, basis="wait and GIL", upper_bound=True)
    freed_s = _freed_cores_s(summary)
    if freed_s is None:
        return of_run(summary, low_s, None, basis="wait")
    gained_s = min(freed_s + _slower_after_pauses_s(summary, wait_s), most_gain_s(summary))
    return of_run(summary, low_s, high_s + gained_s, basis="wait and freed cores")


def severity_of_input(summary: RunSummary) -> Severity:
    """Returns the severity of the wait for input, by what was seen of it."""
    wait_s = waited_s(summary)
    if wait_s is None:
        return "warning"
    seen_s = wait_s - _sampled_margin_s(summary)
    return severity(of_run(summary, seen_s, None, basis="wait"), summary)


def of_callbacks(summary: RunSummary, low_s: float, high_s: float) -> Saving | None:
    """Returns what a run would save without callbacks that take a time within these bounds.

    On a CPU, the steps themselves get faster if they no longer start after a pause.
    """
    between_s = max(_measured_s(summary) - time_of_steps_s(summary), 0.0)
    high_s += _slower_after_pauses_s(summary, min(between_s, high_s))
    return of_run(summary, low_s, high_s, basis="callbacks")


def of_rates(summary: RunSummary, ratio: Rate) -> Saving | None:
    """Returns what a run would save if its steps were as fast as without their input."""
    steps_s = time_of_steps_s(summary)
    if not steps_s:
        return None
    low_s, high_s = (steps_s * (1 - 1 / max(factor, 1.0)) for factor in (ratio.low, ratio.high))
    return of_run(summary, low_s, high_s, basis="rates that diagnose measured")


def of_compute(
    summary: RunSummary, fraction: float, *, low: float = 0.0, basis: str
) -> Saving | None:
    """Returns what a run would save without a share of the steps' own time, 0 to 1, at most."""
    compute_s = _compute_s(summary)
    if compute_s <= 0:
        return None
    return of_run(summary, low * compute_s, fraction * compute_s, basis=basis, upper_bound=True)


def input_cores_fraction(summary: RunSummary) -> float | None:
    """Returns the share of all cores that making batches takes at most; None if unknown.

    New threads may do other work, too: all stages of the pipeline together took no less time than
    they used of the cores.
    """
    record, contention = summary.input, summary.contention
    if record is None or contention is None or contention.input_cores_fraction is None:
        return None
    stages = record.pipeline.stages if record.pipeline else ()
    costs_s = [stage.cost_per_batch_s for stage in stages if stage.cost_per_batch_s is not None]
    available_s = (summary.environment.cpu_count or 0) * time_of_steps_s(summary)
    is_known = stages and len(costs_s) == len(stages) and summary.throughput and available_s
    if record.python is not None or not is_known:
        return contention.input_cores_fraction
    return min(contention.input_cores_fraction, sum(costs_s) * (summary.steps or 0) / available_s)


def validation_wait_s(summary: RunSummary) -> float:
    """Returns the total wait for data of all validations, first batches included; 0 if unknown."""
    record, throughput, parts = summary.validation_input, summary.validation, summary.breakdown
    if record is None or throughput is None or parts is None:
        return 0.0
    start = record.pipeline_start
    first_s = start.epochs * start.mean_s if start else 0.0
    return min((record.wait_s or 0.0) * throughput.steps + first_s, parts.validation_s)


def waited_s(summary: RunSummary) -> float | None:
    """Returns the total input wait of the steps, without epochs' first batches; None if unknown."""
    if summary.breakdown is not None and summary.breakdown.input_s is not None:
        return summary.breakdown.input_s
    record = summary.input
    if record is None or record.wait_s is None:
        return None
    return record.wait_s * record.measured_steps


def _sampled_margin_s(summary: RunSummary) -> float:
    """Returns by how much the total wait may be off because it was sampled; 0 if it was not."""
    is_sampled = summary.input is not None and summary.input.confidence == "sampled"
    return SAMPLED_MARGIN * time_of_steps_s(summary) if is_sampled else 0.0


def time_of_steps_s(summary: RunSummary) -> float:
    """Returns the total time of the steps, waits included; 0 if unknown."""
    parts = summary.breakdown
    if parts is not None and parts.input_s is not None and parts.compute_s is not None:
        return parts.input_s + parts.compute_s
    return _measured_s(summary)


def _measured_s(summary: RunSummary) -> float:
    """Returns the total time from step to step; 0 if unknown."""
    throughput = summary.throughput
    return throughput.measured_steps * (throughput.step_time_s or 0.0) if throughput else 0.0


def _compute_s(summary: RunSummary) -> float:
    """Returns the time of the steps without their waits; 0 if unknown."""
    return max(time_of_steps_s(summary) - (waited_s(summary) or 0.0), 0.0)


def most_gain_s(summary: RunSummary) -> float:
    """Returns the most by which the steps' own work gets faster if input disturbs it no more."""
    return (1 - LEAST_WORK) * _compute_s(summary)


def _slower_after_pauses_s(summary: RunSummary, paused_s: float) -> float:
    """Returns the most by which pauses before steps slow the steps down; 0 on a GPU."""
    return 0.0 if summary.environment.gpus else AFTER_PAUSE * paused_s


def _freed_cores_s(summary: RunSummary) -> float | None:
    """Returns the most of the steps' own time that sharing the cores with the pipeline may cost."""
    taken_s = taken_cores_s(summary)
    if taken_s is not None:
        return taken_s
    record = summary.contention
    if record is None or record.cores_busy_fraction is None:
        return None
    # While some cores idle, a lack of cores slows nothing down.
    busy_s = record.cores_busy_fraction * time_of_steps_s(summary)
    return FAIR_SHARE * min(_compute_s(summary), busy_s)


def taken_cores_s(summary: RunSummary) -> float | None:
    """Returns how long threads that make batches computed alongside the steps' own work.

    That is the most by which they slow the steps down: the threads that compute a step wait for
    each other, so one that gets no core delays all. None if that time is unknown, or if other
    processes make the batches, whose time is unknown.
    """
    record, fraction = summary.input, input_cores_fraction(summary)
    available_s = (summary.environment.cpu_count or 0) * time_of_steps_s(summary)
    if record is None or fraction is None or not available_s:
        return None
    if record.python is not None and record.python.in_processes:
        return None
    return min(fraction * available_s, most_gain_s(summary))
