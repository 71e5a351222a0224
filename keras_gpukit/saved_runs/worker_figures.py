"""Compares the workers of a cluster by the records that each of them wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from keras_gpukit.records.cluster import (
    ComparedStep,
    WorkerComparison,
    WorkerFigures,
    trains_with_others,
)
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.names import RUN_FILE_OF_ANY
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules import judge_run
from keras_gpukit.saved_runs.run_file import RunFile

# Largest tolerated difference between the clocks of two machines.
CLOCKS_DIFFER_S = 5.0
# Workers of a synchronous run end together, and each writes its record within about a second.
SUMMARIES_WITHIN_S = 5.0
# A worker writes its first line within this time after its start.
FIRST_LINES_WITHIN_S = 3.0
LOOK_EVERY_S = 0.1


def figures_of(index: int, summary: RunSummary) -> WorkerFigures:
    """Returns a worker's figures over its whole run, without those of single steps."""
    throughput = summary.throughput
    examples = None
    if throughput and throughput.examples_per_s is not None and throughput.step_time_s is not None:
        per_step = throughput.examples_per_s * throughput.step_time_s
        examples = round(per_step * throughput.steps)
    return WorkerFigures(
        index,
        steps=summary.steps,
        step_time_s=summary.step_time_s,
        input_wait_s=summary.input_wait_s,
        examples=examples,
        gpu_percent=mean_busy_percent(summary.gpus),
        cpu_percent=summary.host.process_cpu_percent if summary.host else None,
    )


def compared_steps(profile: ProfileRecord) -> tuple[ComparedStep, ...]:
    """Returns the numbered steps, which other workers may have captured too."""
    count = profile.steps_per_execution
    return tuple(
        ComparedStep(
            step=step.number,
            duration_s=step.duration_s / count,
            input_s=step.parts_s.get("input wait", 0.0) / count,
            collective_s=step.parts_s.get("collectives", 0.0) / count,
        )
        for step in profile.each_step
        if step.number is not None
    )


def compared_replicas(profile: ProfileRecord) -> WorkerComparison | None:
    """Compares the GPUs of one process; None unless there are several and all exchanged data."""
    devices = [device for device in profile.devices if any(device.collectives_s)]
    if len(devices) < 2 or len(devices) < len(profile.devices):
        return None
    count = profile.steps_per_execution
    members = tuple(
        WorkerFigures(
            index,
            steps=profile.steps,
            step_time_s=profile.step_time_s,
            gpu_percent=100 * device.busy_fraction,
            compared=tuple(
                ComparedStep(row, step.duration_s / count, None, collective_s / count)
                for row, (step, collective_s) in enumerate(
                    zip(profile.each_step, device.collectives_s, strict=True)
                )
            ),
        )
        for index, device in enumerate(devices)
    )
    return WorkerComparison(members, len(devices), "replica")


def own_figures(run: RunReport) -> WorkerFigures | None:
    """Returns a worker's figures from its own record; None if the record is not from a worker.

    A run that is not over has no summary yet, so its profiles provide the figures of single steps.
    """
    worker = run.worker
    if worker is None or worker.index is None:
        return None
    saved = run.summary.workers
    for member in saved.members if saved else ():
        if member.index == worker.index:
            return member
    profiles = (report.profile for report in run.captures if report.profile is not None)
    steps = tuple(step for profile in profiles for step in compared_steps(profile))
    return replace(figures_of(worker.index, run.summary), compared=steps)


def _peers(own: RunReport, own_index: int, runs: Iterable[RunReport]) -> dict[int, RunReport]:
    """Returns the run of each other worker, by index: of those at the same time, the nearest."""
    found: dict[int, tuple[float, RunReport]] = {}
    for run in runs:
        index = run.worker.index if run.worker is not None else None
        if index is None or index == own_index:
            continue
        if own.began_s is None or own.ended_s is None or run.began_s is None or run.ended_s is None:
            continue
        distance_s = abs(own.began_s - run.began_s)
        apart_s = max(own.began_s, run.began_s) - min(own.ended_s, run.ended_s)
        is_nearer = index not in found or distance_s < found[index][0]
        if apart_s <= CLOCKS_DIFFER_S and is_nearer:
            found[index] = distance_s, run
    return {index: run for index, (_, run) in found.items()}


def comparison(
    own: WorkerFigures,
    others: Iterable[WorkerFigures],
    expected: int,
    missing_because: str | None = None,
) -> WorkerComparison:
    """Compares the workers that are known, this one and others, of those that train together.

    Without a reason for those that are missing, it is that the log folder lacks their records.
    """
    by_index = {member.index: member for member in (*others, own)}
    missing = [index for index in range(expected) if index not in by_index]
    because = (missing_because or _lacks_records_of(missing)) if missing else None
    return WorkerComparison(
        tuple(by_index[index] for index in sorted(by_index)), expected, unknown_because=because
    )


def _lacks_records_of(missing: Sequence[int]) -> str:
    named = ", ".join(map(str, missing[:3])) + (" and more" if len(missing) > 3 else "")
    workers = f"worker{'' if len(missing) == 1 else 's'} {named}"
    return f"the records of {workers} are not in this log folder: share it, or copy all run-*.jsonl"


def with_comparisons(runs: Sequence[RunReport]) -> list[RunReport]:
    """Adds a comparison with the other workers to each chief's run, and judges it again.

    The other workers are those with records among `runs`. A run on several GPUs of one process gets
    a comparison of these replicas instead, from its newest profile that shows them.
    """
    return [_compared(run, runs) if _is_chief(run) else _with_replicas(run) for run in runs]


def _with_replicas(run: RunReport) -> RunReport:
    if run.worker is not None or run.summary.workers is not None:
        return run
    profiles = (report.profile for report in reversed(run.captures) if report.profile is not None)
    found = next(filter(None, map(compared_replicas, profiles)), None)
    return run if found is None else _judged(run, found)


def _judged(run: RunReport, workers: WorkerComparison) -> RunReport:
    return replace(run, summary=judge_run(replace(run.summary, workers=workers)))


def _compared(chief: RunReport, runs: Sequence[RunReport]) -> RunReport:
    own, count = own_figures(chief), chief.worker.count if chief.worker else None
    if own is None or count is None:
        return chief
    peers = _peers(chief, own.index, runs)
    known = comparison(own, filter(None, map(own_figures, peers.values())), count)
    saved = chief.summary.workers
    if saved is not None and len(saved.members) > len(known.members):
        return chief
    return _judged(chief, known)


def _is_chief(run: RunReport) -> bool:
    is_one_of_several = trains_with_others(run.worker) and not run.summary.environment.trains_alone
    return run.is_chief and is_one_of_several and run.phase in (None, "fit")


def compare_in_folder(
    folder: Path,
    own: WorkerFigures,
    expected: int,
    began_s: float,
    *,
    within_s: float = SUMMARIES_WITHIN_S,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> WorkerComparison:
    """Compares the workers as a run ends, once all records are complete or the time is over.

    A worker whose record is incomplete is compared by the lines that it has written so far. The
    run began at `began_s` on the clock `now`; `folder` is `<log_dir>/gpukit`.
    """
    files: dict[Path, RunFile] = {}
    until_s = now() + within_s
    while True:
        now_s = now()
        for path in folder.iterdir():
            name = RUN_FILE_OF_ANY.fullmatch(path.name)
            if name and (name["worker"] or "").isdigit() and path not in files:
                files[path] = RunFile(path, path.stem)
        recorded = [file.runs(now_s, in_full=False)[-1:] for file in files.values()]
        this = RunReport("", "running", began_s=began_s, ended_s=now_s)
        peers = _peers(this, own.index, [run for runs in recorded for run in runs])
        waits = any(run.summary.ending is None for run in peers.values()) or (
            len(peers) < expected - 1 and now_s < began_s + FIRST_LINES_WITHIN_S
        )
        if not waits or now_s >= until_s:
            break
        sleep(LOOK_EVERY_S)
    return comparison(own, filter(None, map(own_figures, peers.values())), expected)
