"""Samples the stacks of Python threads, without hooks or tracing."""

from __future__ import annotations

import gc
import linecache
import os
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

from keras_gpukit.records.script import LineTime, StackPart, StackTimes
from keras_gpukit.sensors.stack_parts import CodeWatch, StackReader, Where, named

MOST_SAMPLES = 8192
"""Samples that are kept, about a quarter of an hour; of older ones, every second stands for two."""
MOST_LINES = 20
"""Lines of one record; our choice."""
DEEPEST = 400
"""Frames that are looked at; a deeper recursion has no line. Our choice."""
WAITS_BELOW = 0.1
"""A thread that used less than this share of the time since the last sample waited. Our choice."""
MOST_SOURCE = 80
"""Characters of a line's text."""


_IN_CALLS = ("call", "step", "callback")
# Modules and lines of Python on which a thread waits.
_WAITING_FILES = re.compile(r"(threading|socket|ssl|selectors|queue|subprocess|connection)\.py$")
_WAITING_LINES = re.compile(r"\b(sleep|acquire|wait|recv|urlopen)\(")


# The function that a thread of a pool runs, as those with which Keras reads a `PyDataset`. Its
# module is not imported: multiprocessing remembers which module is `__main__` then.
_POOL, _RUNS_TASKS = os.path.join("multiprocessing", "pool.py"), "worker"

_Key = tuple[StackPart, tuple[int, int], int | None, int]


class _StackSample(NamedTuple):
    at_s: float
    stands_for_s: float
    threads: tuple[tuple[Where, bool], ...]


class StackSampler:
    """Looks at the stacks of all threads, and adds up the time by lines of the script.

    Only the main thread and threads that are inside the script's code, or inside a callback, count.
    Lines are those of the script's files; names and places are made when they are asked for, as
    "train.py:31" by `place`.
    """

    def __init__(
        self,
        is_of_the_script: Callable[[str], bool],
        place: Callable[[str, int], str],
        *,
        now: Callable[[], float] = time.perf_counter,
        stacks: Callable[[], Mapping[int, Sequence[FrameType]]] | None = None,
        thread_s: Callable[[int], float | None] | None = None,
    ) -> None:
        self._reader = StackReader(is_of_the_script)
        self._place = place
        self._now = now
        self._stacks = stacks or stacks_of_threads
        self._thread_s = thread_s or thread_seconds
        self._known_waits: dict[tuple[str, int], bool] = {}
        self._used: dict[int, tuple[float, float]] = {}
        self._samples: list[_StackSample] = []
        self._watches: list[CodeWatch] = []
        self._before_s = now()

    def watch(self, watch: CodeWatch) -> CodeWatch:
        """Lets a watch see every sample from now on, until `unwatch`."""
        self._watches = [*self._watches, watch]
        return watch

    def unwatch(self, watch: CodeWatch | None) -> None:
        """Ends what `watch` started; does nothing if it has ended."""
        self._watches = [other for other in self._watches if other is not watch]

    def resume(self) -> None:
        """Notes that samples go on now; the time since the last one is not covered."""
        self._before_s = self._now()

    def poll(self) -> None:
        """Samples all threads once."""
        now_s = self._now()
        passed_s, self._before_s = now_s - self._before_s, now_s
        found, codes, pool_s = [], {}, {}
        for thread, stack in self._stacks().items():
            codes[thread] = [id(frame.f_code) for frame in stack]
            if self._watches and any(map(_is_of_a_pool, stack)):
                pool_s[thread] = self._thread_s(thread) or 0.0
            where = self._reader.find(thread, stack)
            if where is not None:
                found.append((where, self._waits(thread, stack[0], now_s)))
        for watch in self._watches:
            watch.see(codes, passed_s, pool_s)
        self._samples.append(_StackSample(now_s, passed_s, tuple(found)))
        if len(self._samples) > MOST_SAMPLES:
            self._thin()

    def times(
        self,
        since_s: float = 0.0,
        until_s: float = float("inf"),
        *,
        parts: Iterable[StackPart] = ("script", "import", "call", "step", "callback", "python"),
        thread: int | None = None,
        outside_calls: bool = False,
    ) -> StackTimes:
        """Returns the time by lines of some parts between two moments on the clock.

        Of one thread, if given, and of part "python". With `outside_calls`, samples at which any
        thread was in a call of `fit` or the like are left out: another one may have waited for it.
        """
        samples = [sample for sample in tuple(self._samples) if since_s < sample.at_s <= until_s]
        if not samples:
            return StackTimes(0, 0.0)
        began_s = samples[0].at_s - samples[0].stands_for_s
        third_s = (samples[-1].at_s - began_s) / 3
        wanted = frozenset(parts)
        sums: defaultdict[_Key, list[float]] = defaultdict(lambda: [0.0] * 4)
        for sample in samples:
            seconds = sample.stands_for_s
            if outside_calls and any(where.part in _IN_CALLS for where, _ in sample.threads):
                continue
            for where, waits in sample.threads:
                if where.part not in wanted or (
                    thread not in (None, where.thread) and where.part != "python"
                ):
                    continue
                added = sums[where.part, where.lines[0], where.called, where.entry]
                added[0] += seconds
                added[1] += seconds * (sample.at_s <= began_s + third_s)
                added[2] += seconds * (sample.at_s > began_s + 2 * third_s)
                added[3] += seconds * waits
        longest = sorted(sums.items(), key=lambda item: -item[1][0])[:MOST_LINES]
        watched_s = sum(sample.stands_for_s for sample in samples)
        return StackTimes(
            len(samples), watched_s, tuple(self._line(*key, *added) for key, added in longest)
        )

    def eager_s(self, code: CodeType, since_s: float, until_s: float) -> float:
        """Returns the seconds in a function in which operations ran one by one, from Python."""
        return sum(
            sample.stands_for_s
            for sample in tuple(self._samples)
            if since_s < sample.at_s <= until_s
            for where, _ in sample.threads
            if where.is_eager and any(id(code) == identity for identity, _ in where.lines)
        )

    def _waits(self, thread: int, frame: FrameType, now_s: float) -> bool:
        file, line = frame.f_code.co_filename, frame.f_lineno or 0
        known = self._known_waits.get((file, line))
        if known is None:
            # Of libraries, no source is read: some files have thousands of lines.
            text = linecache.getline(file, line) if self._reader.kind(file) == "script" else ""
            known = bool(_WAITING_FILES.search(file) or _WAITING_LINES.search(text))
            self._known_waits[file, line] = known
        used_s = self._thread_s(thread)
        if used_s is None:
            return known
        before_s, at_s = self._used.get(thread, (used_s, now_s))
        self._used[thread] = used_s, now_s
        return known or used_s - before_s < WAITS_BELOW * (now_s - at_s)

    def _thin(self) -> None:
        """Lets every second sample of the older half stand for the one before it, too."""
        half = len(self._samples) // 2
        pairs = zip(self._samples[:half:2], self._samples[1:half:2], strict=False)
        kept = [b._replace(stands_for_s=a.stands_for_s + b.stands_for_s) for a, b in pairs]
        self._samples = kept + self._samples[2 * len(kept) :]

    def _line(
        self,
        part: StackPart,
        line: tuple[int, int],
        called: int | None,
        entry: int,
        *seconds: float,
    ) -> LineTime:
        codes = self._reader.codes
        code, begins = codes[line[0]], codes[entry]
        total_s, first_s, last_s, waits_s = seconds
        return LineTime(
            place=self._place(code.co_filename, line[1]),
            function=named(code),
            called=None if called is None else named(codes[called]),
            source=linecache.getline(code.co_filename, line[1]).strip()[:MOST_SOURCE],
            seconds=total_s,
            part=part,
            entry=named(begins),
            entry_place=self._place(begins.co_filename, begins.co_firstlineno),
            first_third_s=first_s,
            last_third_s=last_s,
            waits_s=waits_s,
        )


def _is_of_a_pool(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name == _RUNS_TASKS and code.co_filename.endswith(_POOL)


def thread_seconds(thread: int) -> float | None:
    """Returns the processor time of one of Python's threads; None if unknown.

    It asks for the clock by the thread's number, as Linux' `clock_gettime(2)` describes it. Unlike
    `pthread_getcpuclockid`, that fails without harm if the thread has ended.
    """
    found = threading._active.get(thread) if sys.platform == "linux" else None  # type: ignore[attr-defined]
    if found is None or found.native_id is None:
        return None
    try:
        return time.clock_gettime((~found.native_id << 3) | 6)
    except (OSError, OverflowError):
        return None


def stacks_of_threads() -> dict[int, list[FrameType]]:
    """Returns the frames of each thread, the innermost first; at most `DEEPEST` of each."""
    with _no_collection():
        return {
            thread: list(islice(outwards(frame), DEEPEST))
            for thread, frame in sys._current_frames().items()
        }


def stack_of_thread(thread: int) -> list[FrameType]:
    """Returns the frames of a thread, the innermost first; none if it has ended."""
    with _no_collection():
        return list(outwards(sys._current_frames().get(thread)))


_one_reader = threading.RLock()


def _new_lock() -> None:
    global _one_reader
    _one_reader = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)  # another thread may have held it


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keeps the garbage collector from running while stacks of other threads are read.

    Python 3.11 makes a frame's object when it is asked for, and may collect garbage as it does so,
    in the middle of reading a stack. What that frees may let other threads go on: the frames that
    are read are gone then, and the process ends with a segmentation fault; or it stands still, as
    the list of all threads is locked (gh-106883).
    """
    with _one_reader:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields a frame, and the frames that called it, outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back
