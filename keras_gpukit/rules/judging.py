"""The one door to a verdict: a run with all that is known of it in, what every output shows out."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.environment import Environment, GPUInfo
from keras_gpukit.records.finding import Verdict
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.records.steps import InputRecord, ThroughputRecord
from keras_gpukit.rules.compute.profile_shares import is_compiled
from keras_gpukit.rules.input.bottleneck import corrected
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.rule import ScriptRule
from keras_gpukit.rules.verdict import RULES, judge
from keras_gpukit.rules.whole_run.hangs import with_hangs

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
        others = tuple(each for each in verdict.findings if each.code not in _OF_SCRIPTS)
        verdict = replace(verdict, findings=others)
    return replace(run, verdict=verdict)


def of_profile(profile: ProfileRecord) -> RunSummary:
    """Returns what a profile alone shows of a run, with its verdict."""
    return judge_run(RunSummary(Environment({}), profile=profile))


def of_script(script: ScriptRecord) -> RunSummary:
    """Returns a script without a monitored run, with the findings on it; remarks are about runs."""
    summary = RunSummary(Environment({}), ending="completed", script=script)
    found = tuple(each for each in judge(summary).findings if each.severity != "info")
    return replace(summary, verdict=Verdict(found))


def _is_known(run: RunSummary) -> bool:
    """Whether a run can be judged: it may have ended before its first step, or be in it."""
    seen = (
        *(run.throughput, run.ending, run.first_step_s),
        *(run.out_of_memory, run.host_at_end, run.killed_in),
    )
    # Without the environment, rules would take the machine for one without GPUs.
    return run.environment != Environment({}) and any(each is not None for each in seen)


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
