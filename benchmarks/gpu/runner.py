"""Runs the slices that fit the time, most important first, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from benchmarks.gpu.one_slice import measure_and_end
from benchmarks.gpu.part import PACKAGE, error_of, load_slice
from benchmarks.gpu.results import Result, code_version, load, save

AT_ONCE = max(1, min(10, (os.cpu_count() or 1) - 2))
"""Slices at the same time: each keeps about one core busy, and their memory fits a large GPU."""
POLL_S = 0.05
SMALL_LIMITS = 4
"""How many times as long a slice may take in small, on a CPU that others use too."""
Method = Literal["fork", "spawn"]
"""How processes start. A fork need not load TensorFlow, if the runner has; its runtime must not
have started."""


@dataclass(frozen=True)
class Skipped:
    """A slice that did not run, and why."""

    name: str
    reason: str


class Runner:
    """Runs slices on this machine.

    Args:
        folder: Where each slice's JSON is written.
        device: The machine, from `describe_device`.
        minutes: Time for all slices together.
        small: Whether each slice runs in small.
        package: The package of the parts.
        method: How processes start.
        at_once: How many slices that need no quiet machine run at the same time.
        clock: Returns seconds.
    """

    def __init__(
        self,
        folder: Path,
        device: Mapping[str, Any],
        *,
        minutes: float,
        small: bool = False,
        package: str = PACKAGE,
        method: Method = "spawn",
        at_once: int = AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._clock, self._at_once = clock, at_once
        self._ends_s = clock() + 60 * minutes
        self._package = package
        self._start = multiprocessing.get_context(method).Process
        self._circumstances: dict[str, Any] = {
            "small": small,
            "device": dict(device),
            "code": code_version(),
        }

    def run(self, names: Sequence[str], *, again: bool = False) -> Iterator[Result | Skipped]:
        """Runs slices, and yields each result once it is saved.

        A slice that this code began on such a machine before goes on with the cases it lacks.

        Args:
            names: The slices, most important first.
            again: Whether to run complete slices from scratch.
        """
        waiting, running = list(names), list["_Running"]()
        while waiting or running:
            for name in list(waiting):
                alone = load_slice(name, self._package)[1].alone or len(running) == self._at_once
                if running and (alone or running[0].slice.alone):
                    continue
                waiting.remove(name)
                if reason := self._reason_to_skip(name, again):
                    yield Skipped(name, reason)
                else:
                    running.append(self._begin(name))
            for each in list(running):
                if each.has_ended():
                    running.remove(each)
                    yield each.result()
            if running:
                time.sleep(POLL_S)

    def _reason_to_skip(self, name: str, again: bool) -> str | None:
        before = load(self._folder, name) or {}
        if not again and self._is_ours(before) and before["status"] == "complete":
            return "already complete"
        left_s, seconds = self._ends_s - self._clock(), load_slice(name, self._package)[1].seconds
        return f"may take {seconds:.0f} s, and {left_s:.0f} are left" if seconds > left_s else None

    def _is_ours(self, result: Result) -> bool:
        return self._circumstances.items() <= result.items()

    def _begin(self, name: str) -> _Running:
        before = load(self._folder, name) or {}
        resumed = self._is_ours(before) and before["status"] != "complete"
        measured = before["measured"] if resumed else {}
        failed = [case for case, value in measured.items() if error_of(value)]
        part, _, of_slice = name.partition(":")
        small = self._circumstances["small"]
        result = {
            "part": part,
            "slice": of_slice,
            "status": "running",
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            **self._circumstances,
            "failed": failed,
            "measured": {case: measured[case] for case in measured if case not in failed},
            "took_s": before["took_s"] if resumed and "took_s" in before else 0.0,
        }
        save(self._folder, result)
        limit_s = load_slice(name, self._package)[1].seconds * (SMALL_LIMITS if small else 1)
        return _Running(name, limit_s, self._folder, self._package, self._start, self._clock)


class _Running:
    """A slice that runs; if a case ends its process, another one goes on after that case."""

    def __init__(
        self,
        name: str,
        limit_s: float,
        folder: Path,
        package: str,
        start: Callable[..., Any],
        clock: Callable[[], float],
    ) -> None:
        self._name, self._folder, self._package = name, folder, package
        self._limit_s = limit_s
        _, self.slice = load_slice(name, package)
        self._start, self._clock = start, clock
        descriptor, self._log = tempfile.mkstemp()
        os.close(descriptor)
        self._began_s = clock()
        self._begin()

    def _begin(self) -> None:
        arguments = (self._name, self._folder, self._package, self._log)
        self._process = self._start(target=measure_and_end, args=arguments)
        self._process.start()

    def has_ended(self) -> bool:
        """Whether it has ended; begins again after a case that crashed."""
        took_s = self._clock() - self._began_s
        late = took_s >= self._limit_s
        if self._process.is_alive() and not late:
            return False
        with contextlib.suppress(ProcessLookupError):  # it has ended, with all that it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        result = load(self._folder, self._name)
        assert result is not None
        if result["status"] != "running":
            return True
        why = f"killed after {self._limit_s:.0f} s"
        if not late:
            why = f"exit code {self._process.exitcode}"
        written = Path(self._log).read_text(errors="replace")[-2000:]
        case = result.pop("case", None)
        if case is not None:
            result["measured"][case] = {"error": f"{why}\n{written}".strip()}
        if case is None or late:
            why = f"{why}\n{written}".strip()
            result |= {"status": "killed" if late else "failed", "why": why, "took_s": took_s}
        save(self._folder, result)
        if result["status"] == "running":
            self._begin()
        return bool(result["status"] != "running")

    def result(self) -> Result:
        """Returns the saved result."""
        Path(self._log).unlink()
        result = load(self._folder, self._name)
        assert result is not None
        return result
