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

from keras_gpukit.distributed.launching.failures import ALONE, Ending, describe
from keras_gpukit.distributed.launching.job import Task, cluster_variables
from keras_gpukit.distributed.launching.lines import Tail
from keras_gpukit.distributed.launching.plan import Start
from keras_gpukit.distributed.launching.ports import REUSE, Arrivals, address_of, reserved_ports
from keras_gpukit.distributed.launching.streams import Output, Stream, streams_of
from keras_gpukit.distributed.launching.workers import ENDING, Signals, WorkerProcess

_TURN_S = 0.25
_MOST_DEATHS = 10
"""Maximum number of times that one server is restarted after it died."""
_SETTLING_S = 2.0
"""Seconds to wait for the cause of a failure after a process ended as its consequence."""


@dataclass(frozen=True)
class _Running:
    start: Start
    process: WorkerProcess
    streams: tuple[Stream, ...]
    tail: Tail
    file: IO[bytes] | None


@dataclass
class Attempt:
    """Starts the processes, shows their output, and ends all of them if one fails.

    Attributes:
        starts: The processes to start.
        output: Destination of their output.
        signals: Signals that the launcher gets.
        arrival_s: Maximum seconds from the first process joining the cluster to the last one.
        grace_s: Seconds from SIGTERM to SIGKILL.
        failures: The processes that failed, in the order in which this was noticed.
        ended_by: Signal that ended the launcher; None if there was none.
    """

    starts: Sequence[Start]
    output: Output
    signals: Signals
    arrival_s: float
    grace_s: float
    failures: list[Ending] = field(default_factory=list)
    ended_by: signal.Signals | None = None
    _running: dict[Task, _Running] = field(default_factory=dict)
    _deaths: Counter[Task] = field(default_factory=Counter)
    _codes: list[int] = field(default_factory=list)  # exit codes of processes that run the script
    _deadline_s: float | None = None
    _is_ending: bool = False
    _told_alone: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> None:
        """Starts the processes, and returns when all of them have ended."""
        tasks = [start.task for start in self.starts]
        with reserved_ports(len(tasks)) as ports, self._selector:
            variables = cluster_variables(tasks, [address_of(port) for port in ports])
            self._variables = dict(zip(tasks, variables, strict=True))
            # A coordinator connects to the servers, and does not wait for connections itself.
            expected = {
                task: port for task, port in zip(tasks, ports, strict=True) if task.has_server
            }
            self._arrivals = Arrivals(expected, self.arrival_s)
            self._selector.register(self.signals.descriptor, selectors.EVENT_READ)
            try:
                for start in self.starts:
                    self._start(start)
                alone_s = time.monotonic() + self.arrival_s
                while not self._is_over():
                    self._turn()
                    if time.monotonic() >= alone_s:
                        self._tell_if_alone()
                if not self.failures and self.ended_by is None:
                    self._tell_if_alone()
            finally:
                self._end_all()
        if self.ended_by is signal.SIGINT and not any(self._codes):
            self.ended_by = None  # the script took the interrupt as a request to finish

    def _start(self, start: Start) -> None:
        tail = Tail()
        number = [each.task for each in self.starts].index(start.task)
        file = self.output.open_log(start.task)
        streams = streams_of(start.task, number, self.output.screens, tail, file)
        process = WorkerProcess(
            start.task,
            start.command,
            {**os.environ, **start.variables, **REUSE, **self._variables[start.task]},
            streams[0].inner,
            streams[-1].inner,
            grace_s=self.grace_s,
            cpus=start.cpus,
        )
        for stream in streams:
            os.close(stream.inner)
            self._selector.register(stream.outer, selectors.EVENT_READ, stream)
        self._running[start.task] = _Running(start, process, streams, tail, file)

    def _is_over(self) -> bool:
        now_s = time.monotonic()
        if self._deadline_s is not None and now_s >= self._deadline_s:
            if self.failures and all(each.is_consequence for each in self.failures):
                self._look_for_the_cause(now_s)
            return True
        if not any(start.task in self._running for start in self.starts if start.task.runs_script):
            return True
        for task in self._arrivals.overdue(now_s) if self._deadline_s is None else ():
            running = self._running.get(task)
            tail = running.tail if running else Tail()
            code = None if running else 0
            self.failures.append(Ending(task, code, now_s, tail, self.arrival_s))
        return any(each.missing_s is not None for each in self.failures)

    def _tell_if_alone(self) -> None:
        if self._arrivals.nobody_came and not self._told_alone:
            self._told_alone = True
            self.output.tell(ALONE)

    def _look_for_the_cause(self, now_s: float) -> None:
        """Adds running processes that printed an exception; TensorFlow may block their end."""
        self.failures += [
            Ending(task, None, now_s, running.tail)
            for task, running in self._running.items()
            if running.tail.traceback() is not None
        ]

    def _turn(self) -> None:
        """Waits for output, a signal or the end of a process, and handles it."""
        for key, _ in self._selector.select(_TURN_S):
            if key.data is None:
                for number in self.signals.read():
                    self._take(number)
            elif not key.data.read():
                self._selector.unregister(key.fileobj)
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
        task = running.start.task
        if task.runs_script:
            self._codes.append(code)
        if self.ended_by is not None or self._is_ending or (code == 0 and task.runs_script):
            return
        ending = Ending(task, code, time.monotonic(), running.tail)
        if task.can_be_replaced and self._starts_again(running.start, ending):
            return
        self.failures.append(ending)
        wait_s = _SETTLING_S if ending.is_consequence else 0.0
        deadline_s = time.monotonic() + wait_s
        self._deadline_s = min(deadline_s, self._deadline_s or deadline_s)

    def _starts_again(self, start: Start, ending: Ending) -> bool:
        """Restarts a server that died, and returns whether it did.

        TensorFlow's coordinator gives the server's work to others, and waits until the server is
        back, at the latest when the script ends. Without the server, the chief would never end.
        """
        self._deaths[start.task] += 1
        if self._deaths[start.task] > _MOST_DEATHS:
            return False
        self.output.tell(f"{describe(ending, ())} It is started again; training continues.")
        self._start(start)
        return True

    def _take(self, number: signal.Signals) -> None:
        if number is signal.SIGWINCH:
            for running in self._running.values():
                for stream in running.streams:
                    stream.resize()
        elif number in ENDING and (self.ended_by is not None or self._is_ending):
            for running in self._running.values():
                running.process.kill()
        elif number in ENDING:
            self.ended_by = number
            now_s = time.monotonic()
            self._deadline_s = now_s
            if number is signal.SIGINT:
                self.output.tell(
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
            self._turn()
