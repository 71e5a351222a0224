"""Runs the parts that fit the time, most important first, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.gpu.own_process import ROOT
from benchmarks.gpu.part import PACKAGE, Part, load_part
from benchmarks.gpu.results import (
    Result,
    code_version,
    load,
    save,
    with_outcomes,
)


def wait(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Waits for a process to end.

    Raises:
        subprocess.TimeoutExpired: If it runs longer than its limit.
    """
    process.wait(limit_s)


@dataclass(frozen=True)
class Skipped:
    """A part that did not run, and why."""

    name: str
    reason: str


class Runner:
    """Runs parts on this machine.

    Args:
        folder: Where each part's JSON is written.
        device: The machine, from `describe_device`.
        minutes: Time for all parts together.
        small: Whether each part runs in small.
        package: The package of the parts.
        clock: Returns seconds.
        wait: Waits for a part's process.
    """

    def __init__(
        self,
        folder: Path,
        device: Mapping[str, Any],
        *,
        minutes: float,
        small: bool = False,
        package: str = PACKAGE,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[subprocess.Popen[bytes], float], None] = wait,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._clock = clock
        self._ends_s = clock() + 60 * minutes
        self._wait = wait
        self._package = package
        self._circumstances: dict[str, Any] = {
            "small": small,
            "device": dict(device),
            "code": code_version(),
        }

    def run(self, names: Sequence[str], *, again: bool = False) -> Iterator[Result | Skipped]:
        """Runs parts, and yields each result as soon as it is saved.

        Args:
            names: The parts, most important first.
            again: Whether to run parts that this code has completed on such a machine before.
        """
        for name in names:
            part = load_part(name, self._package)
            left_minutes = (self._ends_s - self._clock()) / 60
            if not again and self._is_complete(name):
                yield Skipped(name, "already complete")
            elif part.minutes > left_minutes:
                yield Skipped(
                    name, f"may take {part.minutes:g} minutes, and {left_minutes:.1f} are left"
                )
            else:
                yield self._run(part)

    def _is_complete(self, name: str) -> bool:
        result = load(self._folder, name) or {}
        return result.get("status") == "complete" and self._circumstances.items() <= result.items()

    def _run(self, part: Part) -> Result:
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        started = {"part": part.name, "status": "running", "date": date, **self._circumstances}
        save(self._folder, started | {"measured": {}})
        with tempfile.TemporaryFile() as log:
            why = self._measure(part, log)
            log.seek(0)
            written = log.read().decode(errors="replace")
        result = load(self._folder, part.name)
        assert result is not None
        if result["status"] == "running":
            status = "killed" if why == "killed" else "failed"
            result |= {"status": status, "traceback": f"{why}\n{written[-3000:]}".strip()}
        try:
            result = with_outcomes(part, result)
        except Exception:  # the other parts must still run
            result["traceback"] = f"{result.get('traceback', '')}\n{traceback.format_exc()}".strip()
        save(self._folder, result)
        return result

    def _measure(self, part: Part, log: Any) -> str:
        """Measures a part in a process group of its own, which is gone afterwards."""
        started = json.dumps(load(self._folder, part.name))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.gpu.one_part"),
                *(started, str(self._folder.resolve()), self._package),
            ],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            self._wait(process, 60 * part.minutes)
            return f"exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            return "killed"
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended, with all that it started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
