"""Compares what trains in lockstep: the workers of a cluster, or the GPUs of one process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_gpukit import profiling
from keras_gpukit.distributed.worker_times import (
    CollectiveClock,
    RoundTrips,
    collective_clock,
    tasks_of,
)
from keras_gpukit.errors import GPUKitError, Guard
from keras_gpukit.input.wait.calls import StepFunction
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.cluster import (
    ComparedStep,
    WorkerComparison,
    WorkerFigures,
    trains_with_others,
)
from keras_gpukit.records.environment import Worker
from keras_gpukit.records.names import FOLDER
from keras_gpukit.records.profile import ProfilerRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.saved_runs.worker_figures import (
    SUMMARIES_WITHIN_S,
    compare_in_folder,
    compared_replicas,
    compared_steps,
    comparison,
    figures_of,
)

MOST_READ = 3
"""Maximum number of captures read at the end of a run, newest first: each takes about 0.1 s."""
ON_GPUS = (
    "on GPUs it takes a profile of the same steps on all workers: Profiler(dir, at_steps=(100,))"
)
NOT_SEEN = "no collective was seen: the training step was traced before this run, or has none"
MOST_STEPS = 256
"""Maximum number of kept steps. When it is reached, every other step is dropped, so the kept steps
cover the whole run evenly."""
FIRST_STEPS = 3
"""Number of calls of the step function at the start of a run that are left out. They trace the
step, fill buffers and warm up."""


def watch_workers(session: Session) -> WorkerWatch | None:
    """Starts to watch the workers that train a call's model in step; None without any."""
    environment = session.environment
    worker = environment.worker
    if session.phase != "fit" or worker is None or environment.trains_alone:
        return None
    return WorkerWatch(session, worker) if trains_with_others(worker) else None


def compared(
    session: Session,
    workers: WorkerWatch | None,
    summary: RunSummary,
    captures: ProfilerRecord | None,
) -> WorkerComparison | None:
    """Compares the workers or GPUs that trained in step, as a run ends; None if that fails.

    It is also None if there is only one, or if no profile shows several GPUs of one process.
    """
    with Guard("Comparing workers", "The verdict is on this worker alone."):
        if workers is not None:
            return workers.compare(summary, captures)
        log_dir, gpus = session.output.log_dir, session.environment.gpus
        if session.phase == "fit" and log_dir is not None and len(gpus) > 1:
            return _compared_gpus(log_dir, captures)
    return None


class WorkerWatch:
    """Measures the figures of a worker, and on the chief compares them with all other workers."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self._index, self._count = worker.index or 0, worker.count or 1
        self._began_s = time.time()
        self._log_dir = session.output.log_dir
        self._round_trips: RoundTrips | None = None
        self._clock: CollectiveClock | None = None
        self._shares: StepShares | None = None
        self._unknown_because: str | None = None
        try:
            self._watch_collectives(session)
        except GPUKitError as error:
            self._unknown_because = str(error)
        self._watch_round_trips(session)

    def compare(self, summary: RunSummary, captures: ProfilerRecord | None) -> WorkerComparison:
        """Returns this worker's figures, and on the chief those of the other workers, too.

        Functions that are traced from now on have no clocks.
        """
        if self._clock is not None:
            self._clock.remove()
        own = self._own(summary, captures)
        if self._index != 0:
            return comparison(own, (), self._count, "the chief compares the workers")
        if self._log_dir is None:
            because = "nothing is written: give Monitor the same log_dir on every worker"
            return comparison(own, (), self._count, because)
        within_s = 0.0 if summary.ending == "interrupted" else SUMMARIES_WITHIN_S
        folder = self._log_dir / FOLDER
        return compare_in_folder(folder, own, self._count, self._began_s, within_s=within_s)

    def _watch_collectives(self, session: Session) -> None:
        environment = session.environment
        if environment.gpus:
            raise GPUKitError(ON_GPUS)
        if environment.jit_compile:
            raise GPUKitError("XLA compiles the training step, and clocks cannot be read in it")
        clock = collective_clock()
        self._shares = shares = StepShares(
            lambda: clock.total_s,
            first_step=session.steps.first_step,
            steps_per_execution=session.model.steps_per_execution,
        )
        clock.install()
        self._clock = clock
        session.steps.own.surround(shares.wrap, shares.pause)

    def _watch_round_trips(self, session: Session) -> None:
        tasks = tasks_of(session.model)
        if len(tasks) != self._count:
            return
        self._round_trips = trips = RoundTrips(self._index, tasks)

        def measure() -> None:
            if session.steps.in_steps:
                trips.ask_peers()

        session.sampling.every_second("the round trip to other workers", measure)

    def _own(self, summary: RunSummary, captures: ProfilerRecord | None) -> WorkerFigures:
        steps = self._shares.steps if self._shares else ()
        because = None if steps else (self._unknown_because or NOT_SEEN)
        if not steps and self._log_dir is not None and captures is not None:
            steps = _captured(self._log_dir, captures)
        return replace(
            figures_of(self._index, summary),
            compared=steps,
            compared_unknown_because=None if steps else because,
            round_trips=self._round_trips.per_peer() if self._round_trips else (),
        )


def _compared_gpus(log_dir: Path, captures: ProfilerRecord | None) -> WorkerComparison | None:
    """Compares the GPUs of this process by the last profile that shows several of them."""
    for capture in reversed(captures.captures if captures else ()):
        if capture.path is None or capture.unread_because is not None:
            continue
        with suppress(GPUKitError):  # the profile is damaged, which the report says
            found = compared_replicas(profiling.read_profile(log_dir / capture.path))
            if found is not None:
                return found
    return None


def _captured(log_dir: Path, record: ProfilerRecord) -> tuple[ComparedStep, ...]:
    """Returns the steps in the run's last profiles, as far as they can be read."""
    steps: list[ComparedStep] = []
    paths: Sequence[str] = [capture.path for capture in record.captures if capture.path is not None]
    for path in paths[-MOST_READ:]:
        with suppress(GPUKitError):  # the profile is damaged, which the report says
            steps += compared_steps(profiling.read_profile(log_dir / path))
    return tuple(steps)


class StepShares:
    """Measures steps from the start of one to the start of the next, and keeps some of them.

    The selection depends only on the numbers of the steps, so all workers keep the same steps.
    """

    def __init__(
        self,
        in_collectives_s: Callable[[], float],
        *,
        first_step: int = 0,
        steps_per_execution: int = 1,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._in_collectives_s = in_collectives_s
        self._step = self._first_step = first_step
        self._per_execution = steps_per_execution
        self._now = now
        self._began: tuple[float, float] | None = None
        self._every = 1
        self._kept: list[ComparedStep] = []

    @property
    def steps(self) -> tuple[ComparedStep, ...]:
        """Kept steps; none if no time in collectives was seen."""
        seen = any(step.collective_s > 0 for step in self._kept)
        return tuple(self._kept) if seen else ()

    def wrap(self, step_function: StepFunction) -> StepFunction:
        """Wraps the step function, so that the start of each call is noted."""

        @functools.wraps(step_function)
        def noted(batches: Any) -> Any:
            self._note()
            outputs = step_function(batches)
            self._step += self._per_execution
            return outputs

        return noted

    def pause(self) -> None:
        """Notes that no step follows directly, so the current step's duration is unknown."""
        self._began = None

    def _note(self) -> None:
        number = self._step // self._per_execution
        began, self._began = self._began, None
        ends = began is not None and number % self._every == 0
        begins = (number + 1) % self._every == 0
        if not (ends or begins):
            return  # nearly always in a long run: reading the clock takes some microseconds
        now = self._now(), self._in_collectives_s()
        if begins:
            self._began = now
        early = self._step <= self._first_step + FIRST_STEPS * self._per_execution
        if ends and not early:
            assert began is not None
            self._keep(number, now[0] - began[0], now[1] - began[1])

    def _keep(self, number: int, passed_s: float, in_collectives_s: float) -> None:
        if len(self._kept) == MOST_STEPS:
            every = 2 * self._every
            kept = [step for step in self._kept if step.step // self._per_execution % every == 0]
            self._every, self._kept = every, kept
            if number % self._every:
                return
        each_s = passed_s / self._per_execution, in_collectives_s / self._per_execution
        self._kept.append(ComparedStep(self._step, each_s[0], None, each_s[1]))
