"""The one door to a verdict: judges a run with all that is known of it by every rule."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.environment import Environment, GPUInfo
from keras_gpukit.records.finding import Finding, Verdict
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.records.steps import InputRecord, ThroughputRecord
from keras_gpukit.rules.cluster import waiting_workers
from keras_gpukit.rules.compute import (
    dominant_layer,
    host_cpu,
    host_work,
    launch_bound,
    precision,
    slow_kernels,
    slow_layers,
)
from keras_gpukit.rules.compute.host_cpu import machine_load
from keras_gpukit.rules.compute.profile_shares import is_compiled
from keras_gpukit.rules.input import input_bound, input_slows_steps
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.input.pipeline_causes import corrected
from keras_gpukit.rules.known_faults import explained
from keras_gpukit.rules.rule import NotApplicable, Outcome, Rule, ScriptRule
from keras_gpukit.rules.savings import CRITICAL_FRACTION, WARNING_FRACTION
from keras_gpukit.rules.setup import gpus, no_gpu, slowing_settings
from keras_gpukit.rules.whole_run import (
    between_epochs,
    endings,
    hangs,
    memory_grows,
    memory_ran_out,
    not_learning,
    slower_over_time,
    starting_again,
    time_parts,
    whole_script,
)
from keras_gpukit.rules.whole_run.hangs import with_hangs
from keras_gpukit.rules.whole_run.slower_over_time import MOSTLY

RULES: tuple[Rule, ...] = (
    memory_ran_out.DeviceOutOfMemory(),
    endings.HostOutOfMemory(),
    endings.EndedByError(),
    endings.Killed(),
    not_learning.LossNotFinite(),
    not_learning.NotLearning(),
    not_learning.DataRanOut(),
    hangs.FirstStepNotOver(),
    slowing_settings.SlowSettings(),
    starting_again.ManyShortCalls(),
    starting_again.LongEvaluation(),
    whole_script.StepRunsEagerly(),
    whole_script.OwnProfile(),
    whole_script.TimeOutsideCalls(),
    hangs.Hung(),
    input_bound.InputBound(),
    input_slows_steps.InputHoldsGIL(),
    input_slows_steps.InputTakesCores(),
    slower_over_time.SlowerOverTime(),
    between_epochs.SlowEpochStart(),
    starting_again.TracingAgain(),
    time_parts.SlowCallbacks(),
    host_work.CPUFallback(),
    waiting_workers.WorkersTrainAlone(),
    waiting_workers.Straggler(),
    waiting_workers.CommunicationBound(),
    waiting_workers.UnevenShards(),
    waiting_workers.BatchNotScaled(),
    host_work.PreprocessingInModel(),
    host_work.PythonInStep(),
    host_work.BatchCopy(),
    slow_kernels.Float64Kernels(),
    slow_kernels.MisalignedProducts(),
    slow_kernels.LayoutChanges(),
    slow_layers.Float32Layers(),
    slow_layers.DenseEmbeddingUpdate(),
    slow_layers.SlowMetrics(),
    slow_layers.MostlyPadding(),
    slow_layers.FrozenFeatures(),
    dominant_layer.RepeatedForwardPass(),
    dominant_layer.LoopInStep(),
    slow_kernels.UnfusedOperations(),
    launch_bound.LaunchBound(),
    dominant_layer.DominantLayer(),
    dominant_layer.ComputeOutsideLayers(),
    launch_bound.LowUtilization(),
    host_cpu.HostCPUSaturated(),
    host_cpu.PageFaults(),
    launch_bound.TinySteps(),
    precision.Float32OnTensorCores(),
    precision.HalfPrecisionOnCPU(),
    gpus.MemoryNearlyFull(),
    gpus.MemoryMostlyUnused(),
    memory_grows.MemoryGrows(),
    memory_grows.InputFillsMemory(),
    gpus.FirstStepMemory(),
    gpus.Throttled(),
    gpus.OtherProcessesOnGPU(),
    between_epochs.LongValidation(),
    hangs.MostlyNotCompute(),
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
            if not isinstance(found, Finding) or rule.ends_run or rule.code in _WITH_MEMORY:
                continue
            if found.severity != "info" or not rule.judges_first_step:
                outcomes[rule.code] = NotApplicable("memory ran out")
    findings = [
        explained(finding, summary) for finding in outcomes.values() if isinstance(finding, Finding)
    ]
    whole_s = summary.script.wall_s if summary.script else 0.0
    unjudged = {
        code: outcome for code, outcome in outcomes.items() if isinstance(outcome, NotApplicable)
    }
    return Verdict(
        _beginning_first(sorted(findings, key=lambda finding: _weight(finding, whole_s))),
        passed=tuple(code for code, outcome in outcomes.items() if outcome is None),
        not_applicable={code: outcome.reason for code, outcome in unjudged.items()},
        too_short={
            code: outcome.too_short
            for code, outcome in unjudged.items()
            if outcome.too_short is not None
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
    first = [finding for finding in findings if _comes_first(finding)]
    first.sort(key=lambda finding: [*_BY_CODE].index(finding.code))
    others = [finding for finding in findings if finding not in first]
    slower = next((finding for finding in others if _is_same_cause(finding, others[0])), None)
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


_OF_SCRIPTS = {rule.code for rule in RULES if isinstance(rule, ScriptRule)}


def judge_run(run: RunSummary, *, within: ScriptRecord | None = None) -> RunSummary:
    """Returns a run with its verdict, by everything that its fields say.

    A profile fills in what the run did not record, and corrects its wait for input; hangs are no
    compute. Once more is known, such as the other workers, the run can be judged again.

    Args:
        run: Run to judge. If too little is known of it, it gets no verdict.
        within: Script of which the run is only a part: what is found about the script is left out.
    """
    if run.profile is not None:
        run = _with_profile(run, run.profile)
    elif not _is_known(run):
        return run
    run = corrected(with_hangs(run))
    verdict = judge(run if within is None else replace(run, script=within))
    if within is not None:
        others = tuple(finding for finding in verdict.findings if finding.code not in _OF_SCRIPTS)
        verdict = replace(verdict, findings=others)
    return replace(run, verdict=verdict)


def of_profile(profile: ProfileRecord) -> RunSummary:
    """Returns what a profile alone shows of a run, with its verdict."""
    return judge_run(RunSummary(Environment({}), profile=profile))


def of_script(script: ScriptRecord) -> RunSummary:
    """Returns a script without a monitored run, with the findings on it; remarks are about runs."""
    summary = RunSummary(Environment({}), ending="completed", script=script)
    found = tuple(finding for finding in judge(summary).findings if finding.severity != "info")
    return replace(summary, verdict=Verdict(found))


def _is_known(run: RunSummary) -> bool:
    """Whether a run can be judged: it may have ended before its first step, or be in it."""
    seen = (
        *(run.throughput, run.ending, run.first_step_s),
        *(run.out_of_memory, run.host_at_end, run.killed_in),
    )
    # Without the environment, rules would take the machine for one without GPUs.
    return run.environment != Environment({}) and any(value is not None for value in seen)


def _with_profile(run: RunSummary, profile: ProfileRecord) -> RunSummary:
    """Returns a run with what only its profile shows."""
    return replace(
        run,
        environment=run.environment if run.environment.versions else _environment(profile),
        throughput=run.throughput or _throughput(profile),
        input=run.input or _input(profile),
    )


def _environment(profile: ProfileRecord) -> Environment:
    unknown = RunSummary(Environment({}))
    return Environment(
        {},
        gpus=tuple(
            GPUInfo(index, compute_capability=_capability(device.compute_capability))
            for index, device in enumerate(profile.devices)
        ),
        jit_compile=is_compiled(unknown, profile) if profile.layers or profile.kernels else None,
        steps_per_execution=profile.steps_per_execution if profile.steps else None,
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _throughput(profile: ProfileRecord) -> ThroughputRecord | None:
    if not profile.steps:
        return None
    return ThroughputRecord(
        "fit",
        steps=profile.steps,
        measured_steps=profile.steps,
        step_time_s=profile.step_time_s,
        examples_per_s=None,
        examples_unknown_because="a profile does not show how many examples a batch has",
    )


def _input(profile: ProfileRecord) -> InputRecord:
    stall, step_s = profile.stall_fraction, profile.step_time_s
    return InputRecord(
        "fit",
        mechanism=FROM_PROFILE,
        measured_steps=profile.steps,
        wait_s=None if stall is None or step_s is None else stall * step_s,
        stall_fraction=stall,
        unknown_because=profile.stall_unknown_because,
    )
