"""Sentences and figures in words, shared by all reports."""

from __future__ import annotations

from collections import Counter

from keras_gpukit.errors import one_line
from keras_gpukit.records.finding import Finding, Saving, Verdict
from keras_gpukit.records.machine import MemoryRecord, UtilizationRecord, mean_busy_percent
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, ThroughputRecord
from keras_gpukit.reports import units
from keras_gpukit.reports.unseen_compute import how_to_see, unseen_compute
from keras_gpukit.rules.cluster.comparison import common_steps
from keras_gpukit.rules.input.bottleneck import compared_capture
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.rule import TOO_SHORT
from keras_gpukit.rules.savings import input_of_run, time_of_steps_s
from keras_gpukit.rules.slowdown.cpu_captures import AFTER_S

WIDE_RANGE = 0.03
"""Narrower ranges of a stall are shown as one figure, after "about". Our choice."""
LEAST_SHARE = 0.005
_LEAST_IN_SHORT = 0.02
_PARTS_IN_SHORT = 4
_NEARLY_EXACT = 1.25
"""Ranges of a saving are shown as one figure, after "about", if their upper end is at most this
many times their lower one. Our choice."""
NOTHING_FOUND = "Nothing was found that slows this run down."
NOTHING_IN_PROFILE = "Nothing was found that slows the captured steps down."
_INTERRUPTED = "The run was interrupted."
ACCOUNT_OF_TIME = "low-compute-share"
"""Code of the rule that accounts for all of a run's time."""
_CAPTURES_LISTED = 3

MEMORY_CAUSES = {
    "weights": "weights_bytes",
    "optimizer slots": "slots_bytes",
    "batch": "batch_bytes",
    "activations": "activations_bytes",
    "gradients": "gradients_bytes",
    "workspace": "workspace_bytes",
}
"""Causes of memory use, each with its field in `MemoryByCause`."""
UPPER_BOUND = (
    "An upper bound: XLA fuses operations, whose intermediate results then take no memory."
)


def headline(summary: RunSummary) -> tuple[str, ...]:
    """Returns the run's main figures in words; unknown figures are left out."""
    parts = [
        *([_input(summary, summary.input)] if summary.input else ()),
        *_speed_and_use(summary),
    ]
    if summary.overhead_s is not None:
        once = "" if summary.startup_s is None else f" and {units.duration(summary.startup_s)} once"
        parts.append(f"overhead {units.duration(summary.overhead_s)} per step{once}")
    return tuple(parts)


def overhead(summary: RunSummary) -> str | None:
    """Says what monitoring took of the steps' time; None if unknown."""
    if summary.overhead_s is None or not summary.step_time_s:
        return None
    share = units.percentage(summary.overhead_s / summary.step_time_s)
    return f"Monitoring took {share} of the steps' time."


def in_short(summary: RunSummary) -> str | None:
    """Returns the run's speed and where its time went, in a line or two; None if unknown."""
    time = _time(summary, _PARTS_IN_SHORT, _LEAST_IN_SHORT)
    return ". ".join(filter(None, (", ".join(_speed_and_use(summary)), time))) or None


def time_spent(summary: RunSummary) -> str | None:
    """Returns the parts of the wall time in words, the largest first; None if unknown."""
    return _time(summary, None, LEAST_SHARE)


def _speed_and_use(summary: RunSummary) -> list[str]:
    return [
        *(_speed(summary.throughput, summary.environment.workers) if summary.throughput else ()),
        *(_gpus(summary.utilization) if summary.utilization else ()),
        *(_memory(summary.memory) if summary.memory else ()),
    ]


def _time(summary: RunSummary, most: int | None, least: float) -> str | None:
    """Returns the time of the first step, which comes once, and of the largest other parts."""
    parts = summary.breakdown
    if parts is None or not parts.wall_s:
        return None
    named = {**parts.parts, "unknown": parts.unknown_s}
    first = ("first step", named.pop("the first step"))
    largest = sorted(named.items(), key=lambda part: -(part[1] or 0.0))[:most]
    spent = [
        f"{name} {units.duration_of(spent_s, parts.wall_s)}"
        for name, spent_s in (first, *largest)
        if spent_s and spent_s > least * parts.wall_s
    ]
    return f"{units.duration(parts.wall_s)} in total: {', '.join(spent)}" if spent else None


def captured(summary: RunSummary, *, reasons: bool = True) -> str | None:
    """Lists the captures, each with its first step, and its reason if wanted; None without any."""
    captures = summary.captures.captures if summary.captures else ()
    failed = [f"A capture failed: {each.failed_because}" for each in captures if not each.path]
    written = [
        f"step {each.first_step:,}" + (f" ({each.reason})" if reasons else "")
        for each in captures
        if each.path
    ]
    if not written:
        return "; ".join(failed) or None
    more = len(written) - _CAPTURES_LISTED
    places = ", ".join([*written[:_CAPTURES_LISTED], *([f"{more} more"] if more > 0 else [])])
    where = f"at {places}: see TensorBoard's tabs Profile and GPU Kit"
    return "; ".join([f"{units.count(len(written), 'profile')} captured, {where}", *failed])


def correction(summary: RunSummary) -> str | None:
    """Says that a profile corrected the input stall, and by how much; None if none did."""
    capture = compared_capture(summary)
    if capture is None or summary.input is None or summary.input.live_stall_fraction is None:
        return None
    true, live = (
        units.known(each, units.percentage)
        for each in (capture.stall_fraction, capture.live_stall_fraction)
    )
    return (
        f"The input stall is corrected by the profile of step {capture.first_step:,}, which shows "
        f"{true} where {live} was measured during the run."
    )


def compared(summary: RunSummary) -> str | None:
    """Returns how many workers were compared, or why not; None for a run that trains alone."""
    workers = summary.workers
    if workers is None or (workers.expected or 0) < 2:
        return None
    if not workers.is_complete:
        known = f"{len(workers.members)} of {workers.expected} {workers.kind}s"
        return f"{known} compared: {workers.unknown_because or 'the others are unknown'}"
    steps = len(common_steps(workers))
    over = f"over {units.count(steps, 'step')}" if steps else "by their means over the run"
    return f"{workers.expected} {workers.kind}s compared {over}"


def worst(summary: RunSummary) -> Finding | None:
    """Returns the finding that is the run's verdict; None if there are only remarks.

    A short run in which compute took less than half of the time is not called healthy either.
    """
    for each in summary.findings:
        if each.severity != "info" or each.code == ACCOUNT_OF_TIME:
            return summary.findings[0]
    return None


def all_well(summary: RunSummary) -> str:
    """Returns a sentence with the verdict on a run without a problem.

    A run whose speed could not be judged is not called free of problems.
    """
    if summary.ending == "interrupted":
        return _INTERRUPTED
    is_profile = summary.input is not None and summary.input.mechanism == FROM_PROFILE
    too_short = summary.verdict.too_short
    if is_judged(summary) and is_profile:
        return NOTHING_IN_PROFILE
    if is_judged(summary) and _is_short(summary):
        lasted = f" in {units.duration(summary.breakdown.wall_s)}" if summary.breakdown else ""
        waited = input_share(summary)
        seen = f": {waited} waiting" if waited else ""
        return f"No problem seen{lasted}{seen}. Train longer to be sure."
    if is_judged(summary):
        return unseen_compute(summary) or NOTHING_FOUND
    if "input-bound" in too_short:
        return f"Too short to judge: {one_line(too_short['input-bound'])}."
    because = one_line(summary.verdict.not_applicable["input-bound"])
    return f"This {'profile' if is_profile else 'run'} could not be judged: {because}."


def _is_short(summary: RunSummary) -> bool:
    """Whether a run ended before its time, or what its steps compute, could be looked into."""
    parts = summary.breakdown
    ended_early = parts is not None and parts.wall_s < AFTER_S and summary.profile is None
    is_unseen = ended_early and unseen_compute(summary) is not None
    return ACCOUNT_OF_TIME in summary.verdict.too_short or is_unseen


def is_judged(summary: RunSummary) -> bool:
    """Whether the wait for input or the parts of the time could be judged."""
    return not {"input-bound", ACCOUNT_OF_TIME} <= summary.verdict.not_applicable.keys()


def see_more(summary: RunSummary, again: str | None = None) -> str | None:
    """Returns the advice to a run that was too short, or whose compute was not looked into.

    `again` is the command that runs its script with a profile, if that is known.
    """
    judged = is_judged(summary)
    if _is_short(summary) or (not judged and "input-bound" in summary.verdict.too_short):
        return "Train for 10 s and 100 steps or more."
    can_profile = summary.breakdown is not None and summary.profile is None
    is_unseen = can_profile and judged and unseen_compute(summary)
    return how_to_see(again) if is_unseen else None


def checks(verdict: Verdict) -> str | None:
    """Returns how many checks don't apply, and why: "no GPU (14)"; None if all did."""
    reasons = Counter(
        TOO_SHORT
        if code in verdict.too_short
        else "no profile"
        if "a profile" in reason
        else one_line(reason)
        for code, reason in verdict.not_applicable.items()
    )
    if not reasons:
        return None
    listed = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
    count = reasons.total()
    return f"{units.count(count, 'check')} {'does' if count == 1 else 'do'}n't apply: {listed}"


def saved(saving: Saving) -> str:
    """Formats a saving: "1.4× to 1.8× faster (saves 2.4 to 4.1 of 9 s)".

    The factor is left out if it is unknown or would read 1: "saves up to 0.2 of 9 s".
    """
    low, high = (
        _amount(each, saving.of_s) if each else None for each in (saving.low_s, saving.high_s)
    )
    span = _span(low, high)
    if low and saving.low_s <= (saving.high_s or 0.0) <= _NEARLY_EXACT * saving.low_s:
        span = f"about {_amount(float(f'{saving.expected_s:.2g}'), saving.of_s)}"
    saves = f"saves {span} of {units.duration(saving.of_s)}"
    low, high = _factor(saving.speed_up), _factor(saving.highest_speed_up)
    return f"{_span(low, high)} faster ({saves})" if low or high else saves


def _amount(part_s: float, of_s: float) -> str:
    """Formats a part of a duration, without the unit if that is the unit of the whole."""
    unit = units.duration(of_s).rpartition(" ")[2]
    return units.duration_of(part_s, of_s).removesuffix(f" {unit}")


def _span(low: str | None, high: str | None) -> str:
    """Returns a range of two figures in words."""
    if low is None:
        return f"up to {high}" if high else "an unknown part"
    return f"at least {low}" if high is None else units.span(low, high)


def _factor(speed_up: float | None) -> str | None:
    """Returns a factor with one decimal; None if it is unknown or would read 1."""
    rounded = round(speed_up or 1.0, 1)
    return f"{units.number(rounded)}×" if rounded > 1 else None


def _speed(throughput: ThroughputRecord, workers: int) -> list[str]:
    steps = units.count(throughput.steps, "step")
    parts = [steps if throughput.phase == "fit" else f"{throughput.phase}: {steps}"]
    if throughput.step_time_s is not None:
        parts.append(f"{units.duration(throughput.step_time_s)} per step")
    if throughput.examples_per_s is not None:
        each = " on each worker" if workers > 1 else ""
        parts.append(f"{units.number(throughput.examples_per_s)} examples/s{each}")
    return parts


def stall(record: InputRecord) -> str:
    """Formats the stall of steps, such as "34 %", "about 34 %" or "34 % to 41 %"."""
    return _inexact(record, record.stall_fraction or 0.0, record.most_stall_fraction)


def input_share(summary: RunSummary) -> str | None:
    """Formats the share of the whole run that steps waited, as `stall` does; None if unknown."""
    record, parts, share = summary.input, summary.breakdown, input_of_run(summary)
    if record is None or parts is None or share is None:
        return None
    most = record.most_stall_fraction
    of_run = None if most is None else most * time_of_steps_s(summary) / parts.wall_s
    return _inexact(record, share, of_run)


def _inexact(record: InputRecord, fraction: float, most: float | None) -> str:
    if most is not None and most - fraction >= WIDE_RANGE:
        low = fraction if 100 * fraction >= units.LEAST_PERCENT else 0.0
        return units.span(units.percentage(low), units.percentage(min(most, 1.0)))
    hedges = {"sampled": "about ", "upper bound": "at most "}
    hedge = hedges.get(record.confidence or "", "")
    # "about" and "at most" say nothing of a share that is only said to be under 0.1 %.
    return (hedge if 100 * fraction >= units.LEAST_PERCENT else "") + units.percentage(fraction)


def _input(summary: RunSummary, record: InputRecord) -> str:
    share = input_share(summary)
    if share is not None:
        return f"input {share} of the run"
    if record.stall_fraction is None:
        return "input stall unknown"
    return f"input {stall(record)} of the steps' time"


def _gpus(record: UtilizationRecord) -> list[str]:
    mean = mean_busy_percent(record.gpus)
    if mean is None:
        return []
    count = sum(gpu.utilization_percent is not None for gpu in record.gpus)
    said = f"{'GPU' if count == 1 else f'{count} GPUs'} {units.number(mean)} % busy"
    tensor = [gpu.tensor_active_percent for gpu in record.gpus]
    known = [each for each in tensor if each is not None]
    if known:
        said += f", tensor cores {units.number(sum(known) / len(known))} %"
    return [said]


def _memory(record: MemoryRecord) -> list[str]:
    gpus = [memory for memory in record.devices if memory.device.startswith("GPU")]
    if not gpus:
        return []
    fullest = max(gpus, key=lambda memory: memory.needed_bytes)
    limit = "" if fullest.limit_bytes is None else f" of {units.size(fullest.limit_bytes)}"
    predicted = predicted_peak(record.prediction)
    others = [] if predicted is None else [f"{predicted} predicted"]
    if fullest.peak_bytes > fullest.needed_bytes:
        others.append(f"{units.size(fullest.peak_bytes)} in the first step")
    more = f" ({', '.join(others)})" if others else ""
    return [f"{fullest.device} peak {units.size(fullest.needed_bytes)}{limit}{more}"]


def predicted_peak(prediction: MemoryPrediction | None) -> str | None:
    """Returns the peak as "1.2 GiB", "at least 1.2 GiB" or "at most 1.2 GiB"; None if unknown."""
    if prediction is None or prediction.low is None or prediction.peak_bytes is None:
        return None
    if prediction.is_lower_bound:
        return f"at least {units.size(prediction.low.total_bytes)}"
    return f"{'at most ' if prediction.is_upper_bound else ''}{units.size(prediction.peak_bytes)}"
