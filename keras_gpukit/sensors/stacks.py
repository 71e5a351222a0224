"""Samples the stacks of Python threads, without hooks or tracing.

Files of Keras and TensorFlow by which a stack is understood, seen on Keras 3.12 to 3.15 and
TensorFlow 2.21. If one is renamed, lines below it are part of the call, and a step's Python counts
as eager while it is traced.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType
from typing import Literal, NamedTuple

from keras_gpukit.records.script import METHODS
from keras_gpukit.records.stacks import LineTime, StackPart, StackTimes

MOST_LOOKS = 8192
"""Looks that are kept, about a quarter of an hour; of older ones, every second stands for two."""
MINIMUM_LOOKS = 10
"""Minimum number of looks for a mean."""
MINIMUM_FOUND = 3
"""Number of threads found inside a function before it counts as the slowest: our choice."""
MOST_LINES = 20
"""Lines of one record; our choice."""
DEEPEST = 400
"""Frames that are looked at; a deeper recursion has no line. Our choice."""
WAITS_BELOW = 0.1
"""A thread that used less than this share of the time since the last look waited. Our choice."""
MOST_SOURCE = 80
"""Characters of a line's text."""


_Kind = Literal[
    "script",
    "other",
    "hidden",  # wrappers that name nothing
    "own",
    "import",
    "framework",
    "not eager",  # runs or traces a `tf.function`, or takes a batch of a dataset
    "trainer",
    "callbacks",
    "python",  # TensorFlow or Keras calls Python for data
    "start",  # what is outside the script
]


def _path(*parts: str) -> str:
    return os.path.join(*parts)


_KINDS: tuple[tuple[str, _Kind], ...] = (
    (_path("keras_gpukit", "scripts", "main_module.py"), "start"),
    (_path("keras_gpukit", ""), "own"),
    ("traceback_utils.py", "hidden"),
    (_path("util", "dispatch.py"), "hidden"),
    ("contextlib.py", "hidden"),
    (_path("keras", "src", "callbacks", "callback.py"), "hidden"),
    ("<frozen importlib", "import"),
    (_path("eager", "polymorphic_function", ""), "not eager"),
    (_path("tensorflow", "python", "data", ""), "not eager"),
    (_path("keras", "src", "callbacks", "callback_list.py"), "callbacks"),
    (_path("keras", "src", "trainers", "data_adapters", ""), "python"),
    (_path("tensorflow", "python", "ops", "script_ops.py"), "python"),
    (_path("keras", "src", "backend", "tensorflow", "trainer.py"), "trainer"),
    (_path("keras", "src", ""), "framework"),
    (_path("tensorflow", "python", ""), "framework"),
)
_NAMELESS = ("hidden", "own", "callbacks")
# Modules and lines of Python on which a thread waits.
_WAITING_FILES = re.compile(r"(threading|socket|ssl|selectors|queue|subprocess|connection)\.py$")
_WAITING_LINES = re.compile(r"\b(sleep|acquire|wait|recv|urlopen)\(")


class CodeWatch:
    """Counts the looks at which threads are inside functions.

    Args:
        codes: Code of the functions. If one calls another, only the called one counts as busy.
        thread: Thread that is looked at; None for all.
        when: Whether a look counts.
    """

    def __init__(
        self,
        codes: Iterable[CodeType],
        thread: int | None = None,
        when: Callable[[], bool] = lambda: True,
    ) -> None:
        self._codes = {id(code): code for code in codes}
        self._thread = thread
        self._when = when
        self.looks = 0
        self._found: Counter[int] = Counter()  # threads inside, over all looks

    @property
    def found(self) -> dict[CodeType, int]:
        """Number of threads inside each function that was found, over all looks."""
        return {self._codes[each]: count for each, count in self._found.copy().items()}

    def mean_threads(self) -> float | None:
        """Returns the mean number of threads inside the functions; None after too few looks.

        Also returns None if no look found a thread inside: a look needs the GIL, and may get it
        only once the function has returned.
        """
        inside = sum(self._found.values())
        return inside / self.looks if inside and self.looks >= MINIMUM_LOOKS else None

    def slowest(self) -> CodeType | None:
        """Returns the code that most looks found a thread inside; None if too few did."""
        code = max(self._codes, key=lambda each: self._found[each], default=None)
        return self._codes[code] if code and self._found[code] >= MINIMUM_FOUND else None

    def see(self, stacks: Mapping[int, Sequence[int]]) -> None:
        """Takes one look at the threads' stacks: the identities of codes, innermost first."""
        if not self._when():
            return
        self.looks += 1
        for thread, stack in stacks.items():
            if self._thread in (None, thread):
                inside = next(filter(self._codes.__contains__, stack), None)
                if inside is not None:
                    self._found[inside] += 1


class _Where(NamedTuple):
    """Where a thread is: the script's lines within the part, innermost first."""

    thread: int
    part: StackPart
    lines: tuple[tuple[int, int], ...]
    called: int | None
    entry: int
    is_eager: bool


_Key = tuple[StackPart, tuple[int, int], int | None, int, bool]


class _Look(NamedTuple):
    at_s: float
    stands_for_s: float
    threads: tuple[tuple[_Where, bool], ...]


class StackSampler:
    """Looks at the stacks of all threads, and adds up the time by lines of the script.

    Only the main thread and threads that are inside the script's code, or inside a callback, count.
    Lines are those of the script's files; names and places are made when they are asked for.

    Args:
        is_of_the_script: Whether a file is the script's own.
        place: Returns "train.py:31" for a file and a line.
        now: The clock, in seconds.
        stacks: Returns the innermost frame of each thread.
        thread_s: Returns the processor time of a thread, in seconds; None if unknown.
        main_thread: Identity of the script's main thread.
    """

    def __init__(
        self,
        is_of_the_script: Callable[[str], bool],
        place: Callable[[str, int], str],
        *,
        now: Callable[[], float] = time.perf_counter,
        stacks: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
        thread_s: Callable[[int], float | None] | None = None,
        main_thread: int | None = None,
    ) -> None:
        self._is_of_the_script = is_of_the_script
        self._place = place
        self._now = now
        self._stacks = stacks
        self._thread_s = thread_s or thread_seconds
        self._main = main_thread or threading.main_thread().ident
        self._kinds: dict[str, _Kind] = {}
        self._codes: dict[int, CodeType] = {}
        self._known_waits: dict[tuple[str, int], bool] = {}
        self._used: dict[int, tuple[float, float]] = {}
        self._looks: list[_Look] = []
        self._watches: list[CodeWatch] = []
        self._before_s = now()

    def watch(self, watch: CodeWatch) -> CodeWatch:
        """Lets a watch see every look from now on, until `unwatch`."""
        self._watches = [*self._watches, watch]
        return watch

    def unwatch(self, watch: CodeWatch | None) -> None:
        """Ends what `watch` started; does nothing if it has ended."""
        self._watches = [each for each in self._watches if each is not watch]

    def resume(self) -> None:
        """Notes that looks go on now; the time since the last one was not looked at."""
        self._before_s = self._now()

    def look(self) -> None:
        """Looks at all threads once."""
        now_s = self._now()
        passed_s, self._before_s = now_s - self._before_s, now_s
        found, codes = [], {}
        for thread, frame in self._stacks().items():
            stack = list(islice(_outwards(frame), DEEPEST))
            codes[thread] = [id(each.f_code) for each in stack]
            where = self._find(thread, stack)
            if where is not None:
                found.append((where, self._waits(thread, frame, now_s)))
        for watch in self._watches:
            watch.see(codes)
        self._looks.append(_Look(now_s, passed_s, tuple(found)))
        if len(self._looks) > MOST_LOOKS:
            self._thin()

    def times(
        self,
        since_s: float = 0.0,
        until_s: float = float("inf"),
        *,
        parts: Iterable[StackPart] = ("script", "import", "call", "step", "callback", "python"),
        thread: int | None = None,
    ) -> StackTimes:
        """Returns the time by lines between two moments on the clock.

        Args:
            since_s: Looks until then do not count.
            until_s: Looks after that do not count.
            parts: Parts whose lines are returned.
            thread: Thread whose lines are returned, and those of part "python"; None for all.
        """
        looks = [each for each in tuple(self._looks) if since_s < each.at_s <= until_s]
        if not looks:
            return StackTimes(0, 0.0)
        began_s = looks[0].at_s - looks[0].stands_for_s
        third_s = (looks[-1].at_s - began_s) / 3
        wanted = frozenset(parts)
        sums: defaultdict[_Key, list[float]] = defaultdict(lambda: [0.0] * 5)
        for look in looks:
            seconds = look.stands_for_s
            for where, waits in look.threads:
                if where.part not in wanted or (
                    thread not in (None, where.thread) and where.part != "python"
                ):
                    continue
                added = sums[
                    where.part,
                    where.lines[0],
                    where.called,
                    where.entry,
                    where.thread == self._main,
                ]
                added[0] += seconds
                added[1] += seconds * (look.at_s <= began_s + third_s)
                added[2] += seconds * (look.at_s > began_s + 2 * third_s)
                added[3] += seconds * waits
                added[4] += seconds * where.is_eager
        longest = sorted(sums.items(), key=lambda each: -each[1][0])[:MOST_LINES]
        watched_s = sum(each.stands_for_s for each in looks)
        return StackTimes(
            len(looks), watched_s, tuple(self._line(*key, *added) for key, added in longest)
        )

    def below(self, code: CodeType) -> dict[str | None, tuple[float, float]]:
        """Returns the seconds below a function of the script, by the function that it called.

        Such a one is named as "step (train.py:52)". None is the function's own code, with what it
        calls outside the script. The second figure are the seconds in which operations ran one by
        one, not in a `tf.function`.
        """
        found: dict[str | None, tuple[float, float]] = {}
        for look in tuple(self._looks):
            for where, _ in look.threads:
                codes = [each for each, _ in where.lines]
                if where.part in ("script", "step") and id(code) in codes:
                    at = codes.index(id(code))
                    name = self._defined(codes[at - 1]) if at else None
                    total_s, eager_s = found.get(name, (0.0, 0.0))
                    eager_s += look.stands_for_s * where.is_eager
                    found[name] = total_s + look.stands_for_s, eager_s
        return found

    def _find(self, thread: int, stack: Sequence[FrameType]) -> _Where | None:
        part: StackPart = "script"
        lines: list[tuple[int, int]] = []
        called: CodeType | None = None
        outside: FrameType | None = None  # outermost so far outside the script
        entry: CodeType | None = None
        before: _Kind = "other"
        seen: set[_Kind] = set()
        for frame in stack:
            code = frame.f_code
            kind = self._kinds.get(code.co_filename) or self._kind(code.co_filename)
            if kind == "script":
                if not lines:
                    called = outside.f_code if outside is not None else None
                    if part == "script" and before == "import":
                        part = "import"
                lines.append((self._kept(code), frame.f_lineno or 0))
                entry = code
            elif kind == "start":
                break
            elif kind == "callbacks" and before != "own" and (lines or outside is not None):
                part = "callback"
                if not lines and outside is not None:
                    entry = outside.f_code
                    lines.append((self._kept(entry), outside.f_lineno or 0))
                break
            elif kind == "python" and lines:
                part = "python"
                break
            elif kind == "trainer" and code.co_name in METHODS:
                if lines:
                    part = "step"
                    break
                part, outside = "call", frame
            elif kind not in _NAMELESS:
                outside = frame
                seen.add(kind)
            before = kind
        if not lines or entry is None:
            return None
        return _Where(
            thread,
            part,
            tuple(lines),
            None if called is None else self._kept(called),
            self._kept(entry),
            part != "call" and "framework" in seen and "not eager" not in seen,
        )

    def _kept(self, code: CodeType) -> int:
        """Returns the identity of a code, which lasts from now on."""
        self._codes.setdefault(id(code), code)
        return id(code)

    def _defined(self, identity: int) -> str:
        code = self._codes[identity]
        return f"{named(code)} ({self._place(code.co_filename, code.co_firstlineno)})"

    def _kind(self, file: str) -> _Kind:
        found: _Kind | None = next((kind for part, kind in _KINDS if part in file), None)
        if found is None:
            found = "script" if self._is_of_the_script(file) else "other"
        self._kinds[file] = found
        return found

    def _waits(self, thread: int, frame: FrameType, now_s: float) -> bool:
        file, line = frame.f_code.co_filename, frame.f_lineno or 0
        known = self._known_waits.get((file, line))
        if known is None:
            text = linecache.getline(file, line)
            known = bool(_WAITING_FILES.search(file) or _WAITING_LINES.search(text))
            self._known_waits[file, line] = known
        used_s = self._thread_s(thread)
        if used_s is None:
            return known
        before_s, at_s = self._used.get(thread, (used_s, now_s))
        self._used[thread] = used_s, now_s
        return known or used_s - before_s < WAITS_BELOW * (now_s - at_s)

    def _thin(self) -> None:
        """Lets every second look of the older half stand for the one before it, too."""
        half = len(self._looks) // 2
        pairs = zip(self._looks[:half:2], self._looks[1:half:2], strict=False)
        kept = [b._replace(stands_for_s=a.stands_for_s + b.stands_for_s) for a, b in pairs]
        self._looks = kept + self._looks[2 * len(kept) :]

    def _line(
        self,
        part: StackPart,
        line: tuple[int, int],
        called: int | None,
        entry: int,
        is_main: bool,
        *seconds: float,
    ) -> LineTime:
        code, begins = self._codes[line[0]], self._codes[entry]
        total_s, first_s, last_s, waits_s, eager_s = seconds
        return LineTime(
            place=self._place(code.co_filename, line[1]),
            function=named(code),
            called=None if called is None else named(self._codes[called]),
            source=linecache.getline(code.co_filename, line[1]).strip()[:MOST_SOURCE],
            seconds=total_s,
            part=part,
            entry=named(begins),
            entry_place=self._place(begins.co_filename, begins.co_firstlineno),
            first_third_s=first_s,
            last_third_s=last_s,
            waits_s=waits_s,
            eager_s=eager_s,
            is_main=is_main,
        )


def named(code: CodeType) -> str:
    """Returns a function's name with its class, without the functions that define it."""
    return str(getattr(code, "co_qualname", code.co_name)).rpartition("<locals>.")[2]


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


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
