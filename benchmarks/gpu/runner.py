"""Runs the slices that fit the time, most important first, each in a process of its own."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import PACKAGE, load_slice
from benchmarks.gpu.results import Result, code_version, load, save

AT_ONCE = max(1, min(10, (os.cpu_count() or 1) - 2))
"""Slices at the same time: each keeps about one core busy, and their memory fits a large GPU."""
POLL_S = 0.05
SMALL_LIMITS = 4
"""How many times as long a slice may take in small, on a CPU that others use too."""
GROWTH = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""Lets several processes share a GPU."""


@dataclass(frozen=True)
class Skipped:
    """A slice that did not run, and why."""

    name: str
    reason: str


class Runner:
    """Runs slices on this machine, within some minutes for all together.

    Each slice's JSON goes to the folder. Processes start by "spawn", or by "fork", which need not
    load TensorFlow if this process has; its runtime must not have started. Up to `at_once` slices
    that need no quiet machine run at the same time.
    """

    def __init__(
        self,
        folder: Path,
        device: Mapping[str, Any],
        *,
        minutes: float,
        small: bool = False,
        package: str = PACKAGE,
        method: str = "spawn",
        at_once: int = AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._package = folder.resolve(), package
        self._clock, self._at_once = clock, at_once
        self._ends_s = clock() + 60 * minutes
        self._process = multiprocessing.get_context(method).Process
        self._circumstances = {"small": small, "device": dict(device), "code": code_version()}

    def run(self, names: Sequence[str], *, again: bool = False) -> Iterator[Result | Skipped]:
        """Runs slices in this order, and yields each result once it is saved.

        Those that this code completed on such a machine only run `again` if asked to.
        """
        waiting, running = list(names), list["_Running"]()
        while waiting or running:
            for name in list(waiting):
                one = load_slice(name, self._package)
                alone = one.alone or len(running) == self._at_once
                if running and (alone or running[0].slice.alone):
                    continue
                waiting.remove(name)
                before = load(self._folder, name) or {}
                left_s = self._ends_s - self._clock()
                done = {**self._circumstances, "status": "complete"}
                if done.items() <= before.items() and not again:
                    yield Skipped(name, "already complete")
                elif one.seconds > left_s:
                    reason = f"may take {one.seconds:.0f} s, and {left_s:.0f} are left"
                    yield Skipped(name, reason)
                else:
                    running.append(self._start(name))
            for slice_ in list(running):
                if slice_.has_ended():
                    running.remove(slice_)
                    yield slice_.result()
            if running:
                time.sleep(POLL_S)

    def _start(self, name: str) -> _Running:
        part, _, of_slice = name.partition(":")
        result = {
            "part": part,
            "slice": of_slice,
            "status": "running",
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            **self._circumstances,
            "measured": {},
            "took_s": 0.0,
        }
        save(self._folder, result)
        return _Running(name, result, self._folder, self._package, self._process, self._clock)


class _Running:
    """A slice that runs; if a case ends its process, another one goes on after that case."""

    def __init__(
        self,
        name: str,
        result: Result,
        folder: Path,
        package: str,
        process: Callable[..., Any],
        clock: Callable[[], float],
    ) -> None:
        self.slice = load_slice(name, package)
        self._name, self._folder, self._clock = name, folder, clock
        self._limit_s = self.slice.seconds * (SMALL_LIMITS if result["small"] else 1)
        descriptor, self._log = tempfile.mkstemp()
        os.close(descriptor)
        self._make = lambda: process(target=measure_alone, args=(name, folder, package, self._log))
        self._started_s = clock()
        self._start()

    def _start(self) -> None:
        self._process = self._make()
        self._process.start()

    def has_ended(self) -> bool:
        """Whether it has ended; starts again after a case that crashed."""
        took_s = self._clock() - self._started_s
        late = took_s >= self._limit_s
        if self._process.is_alive() and not late:
            return False
        with contextlib.suppress(ProcessLookupError):  # it has ended, with all that it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        result, log = self.result(), Path(self._log)
        if result["status"] == "running":
            code = self._process.exitcode
            why = f"killed after {self._limit_s:.0f} s" if late else f"exit code {code}"
            why = f"{why}\n{log.read_text(errors='replace')[-2000:]}".strip()
            case = result.pop("case", None)
            if case is not None:
                result["measured"][case] = {"error": why}
            if case is None or late:
                result |= {"status": "killed" if late else "failed", "why": why, "took_s": took_s}
            save(self._folder, result)
        if result["status"] == "running":
            self._start()
            return False
        log.unlink()
        return True

    def result(self) -> Result:
        """Returns the saved result."""
        result = load(self._folder, self._name)
        assert result is not None
        return result


def measure(name: str, folder: Path, package: str = PACKAGE) -> None:
    """Measures the cases that a slice's saved result does not have yet, and saves it after each."""
    result = load(folder, name)
    assert result is not None
    one = load_slice(name, package)
    os.environ.update({} if one.alone else GROWTH)
    measured, before_s, started_s = result["measured"], result["took_s"], time.monotonic()
    for case, function in one.cases(result["small"]):
        if case in measured:
            continue
        save(folder, result | {"case": case})
        try:
            measured[case] = function()
        except Exception as error:
            measured[case] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        result["took_s"] = before_s + time.monotonic() - started_s
    save(folder, result | {"status": "complete"})


def measure_alone(name: str, folder: Path, package: str, log: str) -> None:
    """What a slice's own process does; it is the leader of those that it starts."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.enable()
    measure(name, folder, package)
    os._exit(0)  # at once: some pipelines would keep the interpreter from ending
