"""Runs a job on this machine: on which GPUs and processors, and again after failures."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from keras_gpukit.distributed.launching import supervisor
from keras_gpukit.distributed.launching.failures import (
    ALONE,
    Ending,
    Tail,
    describe,
    first_failure,
)
from keras_gpukit.distributed.launching.job import (
    CLUSTER,
    RUNNER,
    SERVERS,
    Job,
    Task,
    cluster_variables,
    tasks_of,
)
from keras_gpukit.distributed.launching.output import Output, Screen, Stream
from keras_gpukit.distributed.launching.workers import (
    REUSE,
    Arrivals,
    ProcessPlan,
    WorkerProcess,
    address_of,
    caught_signals,
    reserved_ports,
)
from keras_gpukit.rules.setup.no_gpu import VISIBLE, entries_of

_NO_GPU = "-1"
"""The value of `CUDA_VISIBLE_DEVICES` that shows no GPU."""


def launch(
    job: Job,
    *,
    timeout_s: float,
    grace_s: float,
    runner: tuple[str, ...] = RUNNER,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Runs a job's processes on this machine until all have ended.

    Returns the exit code: 0, the exit code of the process that failed first, or 128 plus the number
    of the signal that ended that process or the launcher.
    """
    plans = _plans(job, runner, variables or {})
    out, err = Screen(sys.stdout, os.environ), Screen(sys.stderr, os.environ)
    both = (out, out) if out.is_terminal and err.is_terminal else (out, err)
    output = Output(both, " ".join(job.command), job.log_dir)
    gpus = [(plan.task.name, plan.variables.get(VISIBLE, _NO_GPU)) for plan in plans]
    shares = [f"{name}: {share}" for name, share in gpus if share != _NO_GPU]
    if shares:
        output.say(f"GPUs of {', of '.join(shares)}.")
    restarts = job.restarts
    with caught_signals() as signals:
        while True:
            attempt = JobAttempt(plans, output, signals, arrival_s=timeout_s, grace_s=grace_s)
            attempt.run()
            if attempt.ended_by is not None:
                return 128 + attempt.ended_by
            if not attempt.failures:
                return 0
            failure = first_failure(attempt.failures)
            name = failure.task.name
            if output.screens[1].last != name:  # what is seen last is not repeated
                for line in failure.last_words:
                    output.screens[1].write_line(line, name)
            output.say(describe(failure, [e for e in attempt.failures if e is not failure]))
            if not restarts:
                return failure.exit_code
            output.say(f"All are started again; restarts left after this one: {restarts - 1}.")
            restarts -= 1


def _plans(
    job: Job, runner: tuple[str, ...], variables: Mapping[str, str]
) -> tuple[ProcessPlan, ...]:
    """Plans the process of each of a job's tasks on this machine."""
    if CLUSTER in os.environ:
        raise ValueError(
            "TF_CONFIG is set, so that this process is part of a cluster already; the processes "
            "that it starts would leave that one. Start the script with `python` in each process "
            f"of the cluster, or unset TF_CONFIG. Received: TF_CONFIG={os.environ[CLUSTER]!r}"
        )
    gpus = shared_gpus(job, os.environ, _count_gpus)
    on_linux = sys.platform == "linux"
    cpus = sorted(os.sched_getaffinity(0)) if on_linux else range(os.cpu_count() or 1)
    share = job.cpus_per_worker or 0
    if share * job.workers > len(cpus):
        raise ValueError(
            f"{job.workers} workers with {share} processors each need {share * job.workers}, and "
            f"this process may use {len(cpus)}. Received: --workers={job.workers}, "
            f"--cpus-per-worker={job.cpus_per_worker}"
        )
    plans = []
    for task in tasks_of(job):
        # Output should appear when the script prints it, not once a buffer of 8 KiB is full.
        own = {"PYTHONUNBUFFERED": os.environ.get("PYTHONUNBUFFERED") or "1", **variables}
        is_worker = task.type == "worker"
        visible = gpus[task.index] if is_worker else _NO_GPU
        if visible is not None:
            own[VISIBLE] = visible
        command = (*runner, *job.command) if task.runs_script else ("-m", SERVERS, "training")
        bound = tuple(cpus[share * task.index : share * (task.index + 1)]) if is_worker else ()
        plans.append(ProcessPlan(task, (sys.executable, *command), own, bound))
    return tuple(plans)


def shared_gpus(
    job: Job, environ: Mapping[str, str], count_gpus: Callable[[], int | None]
) -> list[str | None]:
    """Returns the value of `CUDA_VISIBLE_DEVICES` for each worker; None leaves it unchanged."""
    if job.gpus_per_worker == 0:
        return [_NO_GPU] * job.workers
    if VISIBLE in environ:
        gpus = entries_of(environ[VISIBLE])
    else:
        gpus = tuple(str(index) for index in range(count_gpus() or 0))
    share = job.gpus_per_worker
    if share is None:
        if not gpus:
            return [None] * job.workers
        share = len(gpus) // job.workers
    if share == 0 or share * job.workers > len(gpus):
        shown = "CUDA_VISIBLE_DEVICES shows" if VISIBLE in environ else "this machine has"
        raise ValueError(
            f"{job.workers} workers need at least {job.workers * max(share, 1)} GPUs, one or more "
            f"of its own for each, and {shown} {len(gpus)}. Start fewer workers, or train on CPUs "
            f"with --gpus-per-worker 0. Received: --workers={job.workers}, "
            f"--gpus-per-worker={job.gpus_per_worker}"
        )
    return [",".join(gpus[share * i : share * (i + 1)]) for i in range(job.workers)]


def _count_gpus() -> int | None:
    """Returns the number of GPUs that the driver lists; None without one. Untested on a GPU."""
    from keras_gpukit.sensors.driver import read_driver

    driver = read_driver()
    return len(driver.gpus) if driver.error is None else None


_TURN_S = 0.1
_MOST_DEATHS = 10  # after which a server is not restarted once more
_SETTLING_S = 2.0  # in which the cause of a failure may follow its consequence


class _Running(NamedTuple):
    plan: ProcessPlan
    process: WorkerProcess
    streams: tuple[Stream, ...]
    tail: Tail
    file: IO[bytes] | None


@dataclass
class JobAttempt:
    """Starts the processes, shows their output, and ends all of them if one fails."""

    plans: Sequence[ProcessPlan]
    output: Output
    signals: list[signal.Signals]
    arrival_s: float
    grace_s: float
    failures: list[Ending] = field(default_factory=list)
    ended_by: signal.Signals | None = None
    _running: dict[Task, _Running] = field(default_factory=dict)
    _deaths: Counter[Task] = field(default_factory=Counter)
    _codes: list[int] = field(default_factory=list)  # exit codes of processes that run the script
    _deadline_s: float | None = None
    _is_ending: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> None:
        """Starts the processes, and returns when all of them have ended."""
        tasks = [plan.task for plan in self.plans]
        with reserved_ports(len(tasks)) as ports, self._selector:
            self._variables = cluster_variables(tasks, [address_of(port) for port in ports])
            # A coordinator connects to the servers, and does not wait for connections itself.
            by_task = dict(zip(tasks, ports, strict=True))
            of_servers = {task: by_task[task] for task in tasks if task.type != "chief"}
            self._arrivals = Arrivals(of_servers, self.arrival_s)
            try:
                for plan in self.plans:
                    self._start(plan)
                alone_s = time.monotonic() + self.arrival_s
                is_over = is_reported = False
                while not is_over:
                    self._switch()
                    is_over = self._is_over()
                    is_fine = not self.failures and self.ended_by is None
                    is_due = time.monotonic() >= alone_s or (is_over and is_fine)
                    if is_due and self._arrivals.nobody_came and not is_reported:
                        is_reported = True
                        self.output.say(ALONE)
            finally:
                self._end_all()
        if self.ended_by is signal.SIGINT and not any(self._codes):
            self.ended_by = None  # the script took the interrupt as a request to finish

    def _start(self, plan: ProcessPlan) -> None:
        task, tail = plan.task, Tail()
        number = self.plans.index(plan)
        file = self.output.open_log(task)
        streams = tuple(
            Stream(task, number, screen, tail, file, is_error=is_error)
            for screen, is_error in zip(self.output.screens, (False, True), strict=True)
        )
        process = WorkerProcess(
            plan,
            os.environ | self.output.variables(task) | REUSE | self._variables[task],
            streams[0].inner,
            streams[1].inner,
            grace_s=self.grace_s,
        )
        for stream in streams:
            os.close(stream.inner)
            self._selector.register(stream.outer, selectors.EVENT_READ, stream)
        self._running[task] = _Running(plan, process, streams, tail, file)

    def _is_over(self) -> bool:
        now_s = time.monotonic()
        if self._deadline_s is not None and now_s >= self._deadline_s:
            if self.failures and all(failure.is_consequence for failure in self.failures):
                # The cause may have printed an exception, and hang in TensorFlow while it ends.
                self.failures += [
                    Ending(task, None, now_s, running.tail)
                    for task, running in self._running.items()
                    if running.tail.traceback() is not None
                ]
            return True
        if not any(task.runs_script for task in self._running):
            return True
        for task in self._arrivals.overdue(now_s) if self._deadline_s is None else ():
            running = self._running.get(task)
            tail, code = (running.tail, None) if running else (Tail(), 0)
            self.failures.append(Ending(task, code, now_s, tail, self.arrival_s))
        return any(failure.missing_s is not None for failure in self.failures)

    def _switch(self) -> None:
        """Waits for output, and handles it, signals, and the ends of processes."""
        for key, _ in self._selector.select(_TURN_S):
            if not key.data.read_available():
                self._selector.unregister(key.fileobj)
        while self.signals:
            self._handle(self.signals.pop(0))
        for task, running in list(self._running.items()):
            code = running.process.returncode
            if code is not None:
                self._close(task)
                self._judge(running, code)

    def _close(self, task: Task) -> None:
        running = self._running.pop(task)
        for stream in running.streams:
            if stream.outer in self._selector.get_map():
                self._selector.unregister(stream.outer)
            stream.close()
        if running.file is not None:
            running.file.close()

    def _judge(self, running: _Running, code: int) -> None:
        task = running.plan.task
        if task.runs_script:
            self._codes.append(code)
        if self.ended_by is not None or self._is_ending or (code == 0 and task.runs_script):
            return
        now_s = time.monotonic()
        ending = Ending(task, code, now_s, running.tail)
        self._deaths[task] += 1
        is_stateless = task.type == "worker" and not task.runs_script
        if is_stateless and self._deaths[task] <= _MOST_DEATHS:
            # TensorFlow's coordinator gives the server's work to others, and waits until the server
            # is back, at the latest when the script ends.
            self.output.say(f"{describe(ending)} It is started again; training continues.")
            self._start(running.plan)
            return
        self.failures.append(ending)
        deadline_s = now_s + (_SETTLING_S if ending.is_consequence else 0.0)
        self._deadline_s = min(deadline_s, self._deadline_s or deadline_s)

    def _handle(self, number: signal.Signals) -> None:
        if self.ended_by is not None or self._is_ending:
            for running in self._running.values():
                running.process.send(supervisor.KILL)
            return
        self.ended_by = number
        self._deadline_s = time.monotonic()
        if number is signal.SIGINT:
            self.output.say(
                f"Interrupted: all processes are stopped in {self.grace_s:g} s. Press "
                "Ctrl-C again to kill them."
            )
            self._deadline_s += self.grace_s
            for task, running in self._running.items():
                if task.runs_script:
                    running.process.send(supervisor.INTERRUPT)

    def _end_all(self) -> None:
        self._is_ending = True
        for task, running in self._running.items():
            # A server has nothing to save.
            running.process.send(supervisor.STOP if task.runs_script else supervisor.KILL)
        while self._running:
            self._switch()
