"""Understands a stack: which line of the script it is on, what runs that line, which code is in it.

Files of Keras and TensorFlow by which a stack is understood, seen on Keras 3.12 to 3.15 and
TensorFlow 2.21. If one is renamed, lines below it are part of the call, and a step's Python counts
as eager while it is traced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import join
from types import CodeType, FrameType
from typing import Literal, NamedTuple

from keras_gpukit.records.script import METHODS, StackPart

Kind = Literal[
    "script",
    "other",
    "hidden",  # wrappers that name nothing
    "own",
    "import",
    "framework",
    "not eager",  # runs or traces a `tf.function`, or takes a batch of a dataset
    "trainer",
    "around",  # our own code around a call of `fit` or the like
    "callbacks",
    "python",  # TensorFlow or Keras calls Python for data
    "start",  # what is outside the script
]

_KINDS: tuple[tuple[str, Kind], ...] = (
    (join("keras_gpukit", "scripts", "main_module.py"), "start"),
    (join("keras_gpukit", "scripts", "script_calls.py"), "around"),
    (join("keras_gpukit", ""), "own"),
    ("traceback_utils.py", "hidden"),
    (join("util", "dispatch.py"), "hidden"),
    ("contextlib.py", "hidden"),
    (join("keras", "src", "callbacks", "callback.py"), "hidden"),
    ("<frozen importlib", "import"),
    (join("eager", "polymorphic_function", ""), "not eager"),
    (join("tensorflow", "python", "data", ""), "not eager"),
    (join("keras", "src", "callbacks", "callback_list.py"), "callbacks"),
    (join("keras", "src", "trainers", "data_adapters", ""), "python"),
    (join("tensorflow", "python", "ops", "script_ops.py"), "python"),
    (join("keras", "src", "backend", "tensorflow", "trainer.py"), "trainer"),
    (join("keras", "src", ""), "framework"),
    (join("tensorflow", "python", ""), "framework"),
)
_NAMELESS = ("hidden", "own", "callbacks")


class Where(NamedTuple):
    """Where a thread is: the script's lines within the part, innermost first."""

    thread: int
    part: StackPart
    lines: tuple[tuple[int, int], ...]
    called: int | None
    entry: int
    is_eager: bool


class StackReader:
    """Finds the script's lines on stacks; `codes` has those of all lines, by their identity."""

    def __init__(self, is_of_the_script: Callable[[str], bool]) -> None:
        self._is_of_the_script = is_of_the_script
        self._kinds: dict[str, Kind] = {}
        self.codes: dict[int, CodeType] = {}

    def find(self, thread: int, stack: Sequence[FrameType]) -> Where | None:
        """Returns where a thread is, from its frames, the innermost first.

        None outside the script's code and outside callbacks.
        """
        part: StackPart = "script"
        lines: list[tuple[int, int]] = []
        called: CodeType | None = None
        outside: FrameType | None = None  # outermost so far outside the script
        entry: CodeType | None = None
        before: Kind = "other"
        seen: set[Kind] = set()
        for frame in stack:
            code = frame.f_code
            kind = self._kinds.get(code.co_filename) or self.kind(code.co_filename)
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
            elif kind == "around":
                part = part if lines else "call"
            elif kind not in _NAMELESS:
                outside = frame
                seen.add(kind)
            before = kind
        if not lines or entry is None:
            return None
        return Where(
            thread,
            part,
            tuple(lines),
            None if called is None else self._kept(called),
            self._kept(entry),
            part != "call" and "framework" in seen and "not eager" not in seen,
        )

    def _kept(self, code: CodeType) -> int:
        """Returns the identity of a code, which lasts from now on."""
        self.codes.setdefault(id(code), code)
        return id(code)

    def kind(self, file: str) -> Kind:
        """Returns the kind of code that a file has."""
        if file not in self._kinds:
            others = (kind for part, kind in _KINDS if part in file)
            is_own = self._is_of_the_script(file)
            self._kinds[file] = "script" if is_own else next(others, "other")
        return self._kinds[file]


def named(code: CodeType) -> str:
    """Returns a function's name with its class, without the functions that define it."""
    return str(getattr(code, "co_qualname", code.co_name)).rpartition("<locals>.")[2]


MINIMUM_SAMPLES = 10
"""Minimum number of looks for a mean."""
MINIMUM_FOUND = 3
"""Number of threads found inside a function before it counts as the slowest: our choice."""


class CodeWatch:
    """Counts the samples at which threads, or one of them, are inside functions.

    If one function calls another, only the called one counts as busy. `when` says if a sample is
    counted. With `in_pool`, the threads of pools run these functions alone, so their processor time
    counts too: a sample needs the GIL, and often gets it only once what held it has returned.
    """

    def __init__(
        self,
        codes: Iterable[CodeType],
        thread: int | None = None,
        when: Callable[[], bool] = lambda: True,
        *,
        in_pool: bool = False,
    ) -> None:
        self._in_pool = in_pool
        self._codes = {id(code): code for code in codes}
        self._thread = thread
        self._when = when
        self.samples = 0
        self._found: Counter[int] = Counter()  # threads inside, over all samples
        self._pool_s: dict[int, float] = {}  # processor time of each thread at the last sample
        self._computed_s = self._watched_s = 0.0

    @property
    def found(self) -> dict[CodeType, int]:
        """Number of threads inside each function that was found, over all samples."""
        return {self._codes[identity]: count for identity, count in self._found.copy().items()}

    def mean_threads(self) -> float | None:
        """Returns the mean number of threads inside the functions; None after too few samples.

        Also returns None if no sample found a thread inside, and none of a pool computed.
        """
        if self.samples < MINIMUM_SAMPLES:
            return None
        computing = self._computed_s / self._watched_s if self._in_pool else 0.0
        return max(sum(self._found.values()) / self.samples, computing) or None

    def slowest(self) -> CodeType | None:
        """Returns the code that most samples found a thread inside; None if too few did."""
        code = max(self._codes, key=lambda identity: self._found[identity], default=None)
        return self._codes[code] if code and self._found[code] >= MINIMUM_FOUND else None

    def see(
        self,
        stacks: Mapping[int, Sequence[int]],
        passed_s: float,
        pool_s: Mapping[int, float],
    ) -> None:
        """Takes one sample of the threads' stacks: the identities of codes, innermost first.

        With the time since the last sample, and the processor time of each thread of a pool.
        """
        before_s, self._pool_s = self._pool_s, dict(pool_s)
        if not self._when():
            return
        self.samples += 1
        self._watched_s += passed_s
        for thread, used_s in self._pool_s.items():
            self._computed_s += max(used_s - before_s.get(thread, 0.0), 0.0)
        for thread, stack in stacks.items():
            if self._thread in (None, thread):
                inside = next(filter(self._codes.__contains__, stack), None)
                if inside is not None:
                    self._found[inside] += 1
