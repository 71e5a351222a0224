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
from keras_gpukit.reports.unseen_compute import HOW, unseen_compute
from keras_gpukit.rules.cluster.comparison import common_steps
from keras_gpukit.rules.input.bottleneck import compared_capture
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.savings import input_of_run, lasting_time_s, time_of_steps_s
from keras_gpukit.rules.verdict import RULES

WIDE_RANGE = 0.03
"""Narrower ranges of a stall are shown as one figure, after "about". Our choice."""
LEAST_SHARE = 0.005
_LEAST_IN_SHORT = 0.02
_PARTS_IN_SHORT = 4
_REASONS = 3
_SUBJECTS = {rule.code: rule.subject for rule in RULES}
_LONGER = "run under 10 s or 100 steps"
"""Reason if a longer run has the evidence; the figures are the largest that a rule asks for."""
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
    """Returns the time of the first step, which comes once, and the largest shares of the rest."""
    parts = summary.breakdown
    if parts is None or not parts.wall_s:
        return None
    named = {**parts.parts, "unknown": parts.unknown_s}
    first_s, lasting_s = named.pop("the first step") or 0.0, lasting_time_s(parts)
    known = {name: spent_s / lasting_s for name, spent_s in named.items() if spent_s}
    largest = sorted(known.items(), key=lambda part: -part[1])[:most]
    shares = [f"{name} {units.percentage(share)}" for name, share in largest if share > least]
    spent = [f"first step {units.duration(first_s)}"] if first_s > least * parts.wall_s else []
    spent += [f"{'then ' if spent else ''}{', '.join(shares)}"] if shares else []
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


def conclusion(summary: RunSummary) -> str | None:
    """Returns the conclusion and how much was judged; None if a rule found a problem."""
    if worst(summary) is not None:
        return None
    return " ".join(filter(None, (all_well(summary), checks(summary.verdict))))


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
    if is_judged(summary) and ACCOUNT_OF_TIME in too_short:
        return f"Nothing was found, but the run was short: {one_line(too_short[ACCOUNT_OF_TIME])}."
    if is_judged(summary):
        return unseen_compute(summary) or NOTHING_FOUND
    if "input-bound" in too_short:
        return f"Too short to judge: {one_line(too_short['input-bound'])}."
    because = one_line(summary.verdict.not_applicable["input-bound"])
    return f"This {'profile' if is_profile else 'run'} could not be judged: {because}."


def is_judged(summary: RunSummary) -> bool:
    """Whether the wait for input or the parts of the time could be judged."""
    return not {"input-bound", ACCOUNT_OF_TIME} <= summary.verdict.not_applicable.keys()


def see_more(summary: RunSummary) -> str | None:
    """Returns the advice to a run that was too short, or whose compute was not looked into."""
    decisive = {ACCOUNT_OF_TIME} if is_judged(summary) else {ACCOUNT_OF_TIME, "input-bound"}
    if decisive.isdisjoint(summary.verdict.too_short):
        can_profile = summary.breakdown is not None and summary.profile is None
        return HOW if can_profile and is_judged(summary) and unseen_compute(summary) else None
    return "Train for 10 s and 100 steps or more."


def checks(verdict: Verdict) -> str | None:
    """Returns what was looked at, and how many checks don't apply and why; None if all did.

    Of checks that do not concern the run, such as those of clusters, nothing is said.
    """
    reasons = Counter(
        _LONGER if code in verdict.too_short else one_line(reason)
        for code, reason in verdict.not_applicable.items()
        if code not in verdict.not_concerned
    )
    if not verdict.not_applicable:
        return None
    count = units.count(reasons.total(), "check")
    listed = "; ".join(reason for reason, _ in reasons.most_common(_REASONS))
    looked_at = ", ".join(dict.fromkeys(_SUBJECTS.get(code, code) for code in verdict.passed))
    seen = [f"Looked at: {looked_at}."] if looked_at else []
    unseen = [f"{count} don't apply here ({listed})."] if reasons else []
    return " ".join((*seen, *unseen)) or None


def saved(saving: Saving) -> str:
    """Formats a saving: "2.4 to 4.1 s of 9 s, 1.4 to 1.8× faster (basis: wait and freed cores)"."""
    time, faster, basis = saved_parts(saving)
    return f"{', '.join(filter(None, (time, faster)))} ({basis})"


def saved_parts(saving: Saving) -> tuple[str, str | None, str]:
    """Returns a saving's time, its factor (None if unknown or it would read 1), and its basis."""
    most = "at most" if saving.upper_bound else "up to"
    span = _span(
        units.duration_of(saving.low_s, saving.of_s) if saving.low_s else None,
        None if saving.high_s is None else units.duration_of(saving.high_s, saving.of_s),
        most,
    )
    low, high = _factor(saving.speed_up), _factor(saving.highest_speed_up)
    return (
        f"{span} of {units.duration(saving.of_s)}",
        f"{_span(low, high, most)} faster" if low or high else None,
        f"basis: {saving.basis}",
    )


def _span(low: str | None, high: str | None, most: str) -> str:
    """Returns a range of two figures in words, `most` before an upper one that stands alone."""
    if low is None:
        return f"{most} {high}" if high else "an unknown part"
    if high is None:
        return f"{low} or more"
    return units.span(low, high)


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
