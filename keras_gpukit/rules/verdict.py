"""Judges a run by every rule."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Verdict
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.cluster import workers
from keras_gpukit.rules.compute import (
    cpu_fallback,
    dominant_layer,
    host_cpu,
    host_work,
    launch_bound,
    precision,
    preprocessing_in_model,
    slow_kernels,
    slow_layers,
    tracing_again,
    unfused,
)
from keras_gpukit.rules.compute.host_cpu import machine_load
from keras_gpukit.rules.input import input_bound, input_slows_steps
from keras_gpukit.rules.known_faults import explained
from keras_gpukit.rules.memory import gpu_memory, host_buffers, memory_grows
from keras_gpukit.rules.rule import NotApplicable, Outcome, Rule
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION
from keras_gpukit.rules.setup import gpu_use, no_gpu, settings
from keras_gpukit.rules.slowdown import slower_over_time
from keras_gpukit.rules.slowdown.slowdown_causes import MOSTLY
from keras_gpukit.rules.whole_run import (
    endings,
    epoch_starts,
    hangs,
    long_validation,
    many_calls,
    memory_ran_out,
    not_compute,
    not_learning,
    outside_calls,
    time_parts,
    whole_script,
)

RULES: tuple[Rule, ...] = (
    memory_ran_out.DeviceOutOfMemory(),
    endings.HostOutOfMemory(),
    endings.EndedByError(),
    endings.Killed(),
    not_learning.LossNotFinite(),
    not_learning.NotLearning(),
    not_learning.DataRanOut(),
    hangs.FirstStepNotOver(),
    settings.SlowSettings(),
    many_calls.ManyShortCalls(),
    whole_script.StepRunsEagerly(),
    whole_script.OwnProfile(),
    outside_calls.TimeOutsideCalls(),
    hangs.Hung(),
    input_bound.InputBound(),
    input_slows_steps.InputHoldsGIL(),
    input_slows_steps.InputTakesCores(),
    slower_over_time.SlowerOverTime(),
    epoch_starts.SlowEpochStart(),
    tracing_again.TracingAgain(),
    time_parts.SlowCallbacks(),
    cpu_fallback.CPUFallback(),
    workers.WorkersTrainAlone(),
    workers.Straggler(),
    workers.CommunicationBound(),
    workers.UnevenShards(),
    workers.BatchNotScaled(),
    preprocessing_in_model.PreprocessingInModel(),
    host_work.PythonInStep(),
    host_work.BatchCopy(),
    slow_kernels.Float64Kernels(),
    slow_kernels.MisalignedProducts(),
    slow_kernels.LayoutChanges(),
    slow_layers.Float32Layers(),
    slow_layers.DenseEmbeddingUpdate(),
    slow_layers.SlowMetrics(),
    unfused.UnfusedOperations(),
    launch_bound.LaunchBound(),
    dominant_layer.DominantLayer(),
    launch_bound.LowUtilization(),
    host_cpu.HostCPUSaturated(),
    host_cpu.PageFaults(),
    launch_bound.TinySteps(),
    precision.Float32OnTensorCores(),
    precision.HalfPrecisionOnCPU(),
    gpu_memory.MemoryNearlyFull(),
    gpu_memory.MemoryMostlyUnused(),
    memory_grows.MemoryGrows(),
    host_buffers.InputFillsMemory(),
    gpu_memory.FirstStepMemory(),
    gpu_use.Throttled(),
    gpu_use.OtherProcessesOnGPU(),
    long_validation.LongValidation(),
    not_compute.MostlyNotCompute(),
    no_gpu.NoGPU(),
)
"""All rules, in the order in which findings of equal severity and saving are shown."""

ENDED_BY = tuple(rule.code for rule in RULES if rule.ends_run)
"""Codes of the findings on what ended a run."""
_BY_CODE = {rule.code: rule for rule in RULES}
_WITH_MEMORY = ("memory-grows", "host-memory-runs-out", "loss-not-finite")
"""Codes of findings that matter to a run whose device ran out of memory, too."""
_RANKS = {"critical": 0, "warning": 1, "info": 2}
_LEAST_SHARES = {"critical": CRITICAL_FRACTION, "warning": WARNING_FRACTION, "info": 0.0}


def judge(summary: RunSummary) -> Verdict:
    """Applies every rule and sorts the findings: the most severe first, then the largest saving.

    A finding without a saving is sorted by the smallest saving that its severity stands for.
    """
    was_killed = summary.killed_in is not None and not summary.steps
    ended_in_first = summary.ending is not None and summary.first_step_s is not None
    no_step = was_killed or ended_in_first or summary.steps == 0
    outcomes: dict[str, Outcome] = {
        rule.code: NotApplicable("no step ended")
        if no_step and not rule.judges_first_step
        else rule.judge(summary)
        for rule in RULES
    }
    _leave_out_superseded(outcomes)
    if isinstance(outcomes["out-of-memory"], Finding):  # until it fits, speed is no question
        for rule in RULES:
            found = outcomes[rule.code]
            is_remark = isinstance(found, Finding) and found.severity == "info"
            stays = (
                rule.ends_run or rule.code in _WITH_MEMORY or (rule.judges_first_step and is_remark)
            )
            if isinstance(found, Finding) and not stays:
                outcomes[rule.code] = NotApplicable("memory ran out")
    findings = [explained(each, summary) for each in outcomes.values() if isinstance(each, Finding)]
    whole_s = 0.0 if summary.script is None else summary.script.wall_s
    unjudged = {code: each for code, each in outcomes.items() if isinstance(each, NotApplicable)}
    return Verdict(
        _beginning_first(sorted(findings, key=lambda each: _weight(each, whole_s))),
        passed=tuple(code for code, outcome in outcomes.items() if outcome is None),
        not_applicable={code: each.reason for code, each in unjudged.items()},
        too_short={
            code: each.too_short for code, each in unjudged.items() if each.too_short is not None
        },
        context=None if no_step else machine_load(summary),
    )


def _leave_out_superseded(outcomes: dict[str, Outcome]) -> None:
    """Leaves out each finding of which another rule says more."""
    # A rule that yields to all others does so last, to the findings that are left.
    for rule in sorted(RULES, key=lambda rule: rule.yields_to_all):
        found = outcomes[rule.code]
        if not isinstance(found, Finding):
            continue
        for other in RULES:
            more = outcomes[other.code]
            if other is rule or not isinstance(more, Finding) or not rule.yields_to(other, found):
                continue
            if rule.yields_to_remarks or more.severity != "info":
                outcomes[rule.code] = None
                break


def _beginning_first(findings: list[Finding]) -> tuple[Finding, ...]:
    """Puts a slowdown before the finding on input or callbacks that has the same cause.

    Both must be equally severe, and the slowdown must account for most of the other saving. It
    comes first because it also says when it began. A finding on what ended the run, then one on
    training that is dead, then one on the whole script, precede all.
    """
    first = [each for each in findings if _comes_first(each)]
    first.sort(key=lambda each: [*_BY_CODE].index(each.code))
    others = [each for each in findings if each not in first]
    slower = next((each for each in others if _is_same_cause(each, others[0])), None)
    return *first, *sorted(others, key=lambda finding: finding is not slower)


def _comes_first(finding: Finding) -> bool:
    when = _BY_CODE[finding.code].comes_first
    return when == "always" or (when == "if critical" and finding.severity == "critical")


def _is_same_cause(slower: Finding, whole: Finding) -> bool:
    if slower.saving is None or whole.saving is None or slower.severity != whole.severity:
        return False
    is_same = _BY_CODE[slower.code].same_cause.get(slower.about) == whole.code
    return is_same and slower.saving.low_s >= MOSTLY * whole.saving.low_s


def _weight(finding: Finding, whole_s: float) -> tuple[int, float]:
    # Savings of a run and of the script around it are compared in seconds.
    saving, least = finding.saving, _LEAST_SHARES[finding.severity]
    share = least if saving is None else saving.expected_s / max(saving.of_s, whole_s)
    return _RANKS[finding.severity], -share
