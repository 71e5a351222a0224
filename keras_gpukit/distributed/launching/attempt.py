"""One attempt to run a job's processes on this machine, until all of them have ended."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from keras_gpukit.distributed.launching.failures import ALONE, Ending, Tail, describe
from keras_gpukit.distributed.launching.job import Task, cluster_variables
from keras_gpukit.distributed.launching.output import Output, Stream
from keras_gpukit.distributed.launching.workers import (
    REUSE,
    Arrivals,
    ProcessPlan,
    WorkerProcess,
    address_of,
    reserved_ports,
)

_TURN_S = 0.1
_MOST_DEATHS = 10
"""Maximum number of times that one server is restarted after it died."""
_SETTLING_S = 2.0
"""Seconds to wait for the cause of a failure after a process ended as its consequence."""


@dataclass(frozen=True)
class _Running:
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
            variables = cluster_variables(tasks, [address_of(port) for port in ports])
            self._variables = dict(zip(tasks, variables, strict=True))
            # A coordinator connects to the servers, and does not wait for connections itself.
            of_servers = {
                task: port for task, port in zip(tasks, ports, strict=True) if task.has_server
            }
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
            if self.failures and all(each.is_consequence for each in self.failures):
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
        return any(each.missing_s is not None for each in self.failures)

    def _switch(self) -> None:
        """Waits for output, and handles it, signals, and the ends of processes."""
        for key, _ in self._selector.select(_TURN_S):
            if not key.data.read():
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
        if task.can_be_replaced and self._deaths[task] <= _MOST_DEATHS:
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
                running.process.kill()
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
                    running.process.interrupt()

    def _end_all(self) -> None:
        self._is_ending = True
        for task, running in self._running.items():
            if task.runs_script:
                running.process.stop()
            else:
                running.process.kill()  # a server has nothing to save
        while self._running:
            self._switch()
