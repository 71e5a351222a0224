"""Measures the devices of this machine, the most important rows first, within a time budget."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from keras_gpukit.errors import one_line
from keras_gpukit.records.report import (
    BenchmarkRow,
    DeviceBenchmark,
    DeviceKind,
    MachineBenchmark,
)
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.host import results_file
from keras_gpukit.sensors.interpreter import usable_cores
from keras_gpukit.tuning.bench_device import MODELS, measure_ceilings, measure_row, open_device
from keras_gpukit.tuning.sources import ShowProgress
from keras_gpukit.whole_files import replace_file

PRECISIONS = ("float32", "TF32", "bfloat16", "float16", "float64")
# In this order, as long as there is time: device, precision and whether XLA compiles the step.
SETTINGS: tuple[tuple[DeviceKind, str, bool], ...] = (
    ("GPU", "TF32", False),  # Keras' default
    ("CPU", "float32", False),
    ("GPU", "bfloat16", False),
    ("GPU", "bfloat16", True),
    ("GPU", "float32", False),
    ("GPU", "float16", False),
    ("CPU", "float32", True),
    ("GPU", "TF32", True),
    ("GPU", "float16", True),
    ("GPU", "float32", True),
    ("CPU", "bfloat16", True),
    ("CPU", "bfloat16", False),
    ("CPU", "float16", True),
    ("CPU", "float16", False),
)
LONGEST = 1 / 3
"""Share of the budget after which a row is given up: it may hang, and others have to follow."""


def bench(
    seconds: float, show_progress: ShowProgress = lambda what, done_s: None
) -> MachineBenchmark:
    """Measures ceilings and rates. Ctrl-C ends it, and keeps what is known."""
    kinds: tuple[DeviceKind, ...] = ("GPU", "CPU") if read_driver().gpus else ("CPU",)
    began_s, interrupted = time.monotonic(), False
    rows = [
        BenchmarkRow(kind, name, precision, jit, model.batches[kind])
        for kind, precision, jit in SETTINGS
        for name, model in MODELS.items()
        if kind in kinds
    ]
    devices = {kind: _Device(kind, [row for row in rows if row.device == kind]) for kind in kinds}
    try:
        for task in (*kinds, *rows):
            passed_s = time.monotonic() - began_s
            if isinstance(task, BenchmarkRow):
                kind, what = task.device, task.model
            else:
                kind, what = task, "ceilings"
            show_progress(f"{kind}: {what}", min(passed_s, seconds))
            devices[kind].measure(task, seconds - passed_s, LONGEST * seconds)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for device in devices.values():
            device.close()
    found = tuple(device.found for device in devices.values())
    return MachineBenchmark(found, seconds, interrupted)


class _Device:
    """A process that measures on one device; after a failure another one goes on."""

    def __init__(self, kind: DeviceKind, rows: Iterable[BenchmarkRow]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._found = DeviceBenchmark(kind, usable_cores(), now)
        self._rows = {row: row for row in rows}
        self._pool: ProcessPoolExecutor | None = None
        self._pid: int | None = None
        self._is_usable = True

    @property
    def found(self) -> DeviceBenchmark:
        """Results so far."""
        return replace(self._found, rows=tuple(self._rows.values()))

    def measure(self, task: BenchmarkRow | DeviceKind, left_s: float, longest_s: float) -> None:
        """Measures a row, or the ceilings, unless there is no time left for it."""
        if not self._is_usable:
            return
        until_s = time.monotonic() + left_s
        try:
            if left_s <= 0:
                raise FutureTimeout
            pool = self._pool or self._opened(left_s)
            longest_s = min(longest_s, until_s - time.monotonic())
            if isinstance(task, BenchmarkRow):
                self._rows[task] = pool.submit(measure_row, task).result(longest_s)
            else:
                ceilings = pool.submit(measure_ceilings, task, PRECISIONS).result(longest_s)
                self._found = replace(self._found, ceilings=ceilings)
        except FutureTimeout:
            self.close()
            if time.monotonic() < until_s:
                self._fail(task, f"it took more than {longest_s:.0f} s")
        except BrokenProcessPool:
            self.close()
            self._fail(task, "its process ended by itself: TF_CPP_MIN_LOG_LEVEL=0 shows its log")
        except Exception as error:
            self._fail(task, one_line(f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        """Ends the process."""
        pool, pid, self._pool, self._pid = self._pool, self._pid, None, None
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if pool is not None:
            pool.shutdown(wait=pid is not None, cancel_futures=True)

    def _opened(self, within_s: float) -> ProcessPoolExecutor:
        until_s = time.monotonic() + within_s
        self._pool = pool = ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),
            # Ctrl-C in a terminal goes to all processes.
            initializer=signal.signal,
            initargs=(signal.SIGINT, signal.SIG_IGN),
        )
        self._pid = pool.submit(os.getpid).result(within_s)
        self._is_usable = False
        opening = pool.submit(open_device, self._found.kind)
        name, versions = opening.result(max(until_s - time.monotonic(), 0))
        self._is_usable = True
        self._found = replace(self._found, name=name, versions=versions)
        return pool

    def _fail(self, task: BenchmarkRow | DeviceKind, because: str) -> None:
        if isinstance(task, BenchmarkRow) and self._is_usable:
            self._rows[task] = replace(task, failed_because=because)
        else:
            self._found = replace(self._found, failed_because=because)


def save(found: DeviceBenchmark) -> Path | None:
    """Writes a device's results where the roofline reads its ceilings; None without ceilings."""
    import msgspec

    if found.name is None or found.ceilings is None:
        return None
    path = results_file(found.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, msgspec.json.format(msgspec.json.encode(found), indent=2))
    return path
