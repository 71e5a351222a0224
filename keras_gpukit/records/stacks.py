"""Time by lines of Python, from sampled stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StackPart = Literal["script", "import", "call", "step", "callback", "python"]
"""Code that runs a line: the script itself, one of its `import` statements, a call of `fit` or the
like (then it is the line that calls), a step within such a call, a callback, or TensorFlow and
Keras calling back into Python for data, as for a generator, a `PyDataset` or a `numpy_function`."""


@dataclass(frozen=True)
class LineTime:
    """Time that threads spent on one line, in what it called included.

    Attributes:
        place: Innermost line of the script on the stack, such as "train.py:31". In a callback that
            a library defines, its first line.
        function: Function of that line, such as "Photos.__getitem__"; "<module>" outside any.
        called: Outermost function outside the script that the line called, such as
            "TextVectorization.adapt"; None if the line is the script's own code, or calls C code.
        source: Text of the line; empty if unknown.
        seconds: Time of all threads that were there.
        entry: Outermost function within the part, such as "Slow.on_train_batch_end"; equal to
            `function` if that calls no other function of the script.
        entry_place: Where `entry` is defined, such as "train.py:12".
        first_third_s: Part of `seconds` in the first third of the time that was sampled.
        last_third_s: Part of `seconds` in the last third.
        waits_s: Part of `seconds` in which the thread waited, as for a sleep, a lock, a socket or
            other threads: it used hardly any processor time, or the line is known to wait.
        eager_s: Part of `seconds` in which TensorFlow or Keras ran operations one by one from
            Python, not in a `tf.function`.
        is_main: Whether the main thread was there.
    """

    place: str
    function: str
    called: str | None
    source: str
    seconds: float
    part: StackPart = "script"
    entry: str = ""
    entry_place: str = ""
    first_third_s: float = 0.0
    last_third_s: float = 0.0
    waits_s: float = 0.0
    eager_s: float = 0.0
    is_main: bool = True

    @property
    def mostly_waits(self) -> bool:
        """Whether threads on this line wait for most of the time, and do not compute."""
        return self.waits_s > self.seconds / 2


@dataclass(frozen=True)
class StackTimes:
    """Lines on which a call or a script spent its time, the longest first.

    Attributes:
        looks: Number of samples.
        watched_s: Wall time in which they were taken.
    """

    looks: int
    watched_s: float
    lines: tuple[LineTime, ...] = ()

    def of(self, part: StackPart, entry_place: str | None = None) -> tuple[LineTime, ...]:
        """Returns the lines of a part; only those below a function, if its place is given."""
        return tuple(
            line
            for line in self.lines
            if line.part == part and entry_place in (None, line.entry_place)
        )
