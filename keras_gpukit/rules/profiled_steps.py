"""Judges a run by a profile of its steps, also where nothing else is known of the run."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.environment import Environment, GPUInfo
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import InputRecord, ThroughputRecord
from keras_gpukit.rules.compute.profile_shares import is_compiled
from keras_gpukit.rules.input.input_bound import FROM_PROFILE
from keras_gpukit.rules.verdict import judge


def of_profile(profile: ProfileRecord) -> RunSummary:
    """Returns what a profile alone shows of a run, with its verdict.

    What rules cannot judge is not missing: most of them concern whole runs.
    """
    summary = with_profile(RunSummary(Environment({})), profile)
    verdict = summary.verdict
    return replace(summary, verdict=replace(verdict, not_concerned=tuple(verdict.not_applicable)))


def with_profile(summary: RunSummary, profile: ProfileRecord) -> RunSummary:
    """Returns a summary with a profile and the verdict on both.

    What the run did not record is taken from the profile, as far as that shows it.
    """
    is_known = bool(summary.environment.versions)
    summary = replace(
        summary,
        environment=summary.environment if is_known else _environment(profile),
        throughput=summary.throughput or _throughput(profile),
        input=summary.input or _input(profile),
        profile=profile,
    )
    return replace(summary, verdict=judge(summary))


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
