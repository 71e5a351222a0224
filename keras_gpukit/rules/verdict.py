"""Judges a run by every rule."""

from __future__ import annotations

from keras_gpukit.records.finding import Finding, Verdict
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.cluster.workers import (
    BatchNotScaled,
    CommunicationBound,
    Straggler,
    UnevenShards,
    WorkersTrainAlone,
)
from keras_gpukit.rules.compute.cpu_fallback import CPUFallback
from keras_gpukit.rules.compute.dominant_layer import DominantLayer
from keras_gpukit.rules.compute.host_cpu import HostCPUSaturated
from keras_gpukit.rules.compute.host_work import BatchCopy, PythonInStep
from keras_gpukit.rules.compute.launch_bound import LaunchBound, LowUtilization, TinySteps
from keras_gpukit.rules.compute.precision import Float32OnTensorCores
from keras_gpukit.rules.compute.preprocessing_in_model import PreprocessingInModel
from keras_gpukit.rules.compute.slow_kernels import (
    Float64Kernels,
    LayoutChanges,
    MisalignedProducts,
)
from keras_gpukit.rules.compute.slow_layers import (
    DenseEmbeddingUpdate,
    Float32Layers,
    SlowMetrics,
)
from keras_gpukit.rules.compute.tracing_again import TracingAgain
from keras_gpukit.rules.compute.unfused import UnfusedOperations
from keras_gpukit.rules.input.input_bound import InputBound
from keras_gpukit.rules.input.input_slows_steps import InputHoldsGIL, InputTakesCores
from keras_gpukit.rules.memory.gpu_memory import (
    FirstStepMemory,
    MemoryMostlyUnused,
    MemoryNearlyFull,
)
from keras_gpukit.rules.memory.host_buffers import InputFillsMemory
from keras_gpukit.rules.memory.memory_grows import MemoryGrows
from keras_gpukit.rules.rule import NotApplicable, Outcome, Rule
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION
from keras_gpukit.rules.setup.gpu_use import OtherProcessesOnGPU, Throttled
from keras_gpukit.rules.setup.no_gpu import NoGPU
from keras_gpukit.rules.setup.settings import SlowSettings
from keras_gpukit.rules.slowdown.slowdown_causes import MOSTLY
from keras_gpukit.rules.slowdown.slower_over_time import SlowerOverTime
from keras_gpukit.rules.whole_run.endings import (
    DeviceOutOfMemory,
    EndedByError,
    HostOutOfMemory,
    Killed,
)
from keras_gpukit.rules.whole_run.hangs import FirstStepNotOver, Hung
from keras_gpukit.rules.whole_run.many_calls import ManyShortCalls
from keras_gpukit.rules.whole_run.not_compute import MostlyNotCompute
from keras_gpukit.rules.whole_run.not_learning import LossNotFinite, NotLearning
from keras_gpukit.rules.whole_run.time_parts import (
    LongValidation,
    SlowCallbacks,
    SlowEpochStart,
)

RULES: tuple[Rule, ...] = (
    DeviceOutOfMemory(),
    HostOutOfMemory(),
    EndedByError(),
    Killed(),
    LossNotFinite(),
    NotLearning(),
    FirstStepNotOver(),
    SlowSettings(),
    ManyShortCalls(),
    Hung(),
    InputBound(),
    InputHoldsGIL(),
    InputTakesCores(),
    SlowerOverTime(),
    SlowEpochStart(),
    TracingAgain(),
    SlowCallbacks(),
    CPUFallback(),
    WorkersTrainAlone(),
    Straggler(),
    CommunicationBound(),
    UnevenShards(),
    BatchNotScaled(),
    PreprocessingInModel(),
    PythonInStep(),
    BatchCopy(),
    Float64Kernels(),
    MisalignedProducts(),
    LayoutChanges(),
    Float32Layers(),
    DenseEmbeddingUpdate(),
    SlowMetrics(),
    UnfusedOperations(),
    LaunchBound(),
    DominantLayer(),
    LowUtilization(),
    HostCPUSaturated(),
    TinySteps(),
    Float32OnTensorCores(),
    MemoryNearlyFull(),
    MemoryMostlyUnused(),
    MemoryGrows(),
    InputFillsMemory(),
    FirstStepMemory(),
    Throttled(),
    OtherProcessesOnGPU(),
    LongValidation(),
    MostlyNotCompute(),
    NoGPU(),
)
"""All rules, in the order in which findings of equal severity and saving are shown."""

ENDED_BY = tuple(rule.code for rule in RULES if rule.ends_run)
"""Codes of the findings on what ended a run."""
_BY_CODE = {rule.code: rule for rule in RULES}
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
    findings = [each for each in outcomes.values() if isinstance(each, Finding)]
    unjudged = {code: each for code, each in outcomes.items() if isinstance(each, NotApplicable)}
    return Verdict(
        _beginning_first(sorted(findings, key=_weight)),
        passed=tuple(code for code, outcome in outcomes.items() if outcome is None),
        not_applicable={code: each.reason for code, each in unjudged.items()},
        too_short={
            code: each.too_short for code, each in unjudged.items() if each.too_short is not None
        },
        not_concerned=tuple(code for code, each in unjudged.items() if not each.concerns),
    )


def _leave_out_superseded(outcomes: dict[str, Outcome]) -> None:
    """Leaves out each finding of which another rule says more."""
    # A rule that yields to all others does so last, to the findings that are left.
    for rule in sorted(RULES, key=lambda rule: rule.yields_to is None):
        found = outcomes[rule.code]
        if not isinstance(found, Finding):
            continue
        codes = rule.superseded_by(found)
        for code in outcomes if codes is None else codes:
            other = outcomes[code]
            if not isinstance(other, Finding) or other is found:
                continue
            if rule.yields_to_remarks or other.severity != "info":
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
    is_same = _BY_CODE[slower.code].same_cause.get(slower.saving.basis) == whole.code
    return is_same and slower.saving.low_s >= MOSTLY * whole.saving.low_s


def _weight(finding: Finding) -> tuple[int, float]:
    saving, least = finding.saving, _LEAST_SHARES[finding.severity]
    share = least if saving is None else saving.expected_s / saving.of_s
    return _RANKS[finding.severity], -share
