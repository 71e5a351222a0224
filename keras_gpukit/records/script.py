"""Where a script's wall time went: imports, calls of `fit` and the like, lines of Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from keras_gpukit.records.machine import Kept
from keras_gpukit.records.steps import RetracedFunction

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

    @property
    def mostly_waits(self) -> bool:
        """Whether threads on this line wait for most of the time, and do not compute."""
        return self.waits_s > self.seconds / 2


@dataclass(frozen=True)
class StackTimes:
    """Lines on which a call or a script spent its time, the longest first.

    Attributes:
        watched_s: Wall time in which the samples were taken.
    """

    samples: int
    watched_s: float
    lines: tuple[LineTime, ...] = ()

    def of(self, part: StackPart, entry_place: str | None = None) -> tuple[LineTime, ...]:
        """Returns the lines of a part; only those below a function, if its place is given."""
        return tuple(
            line
            for line in self.lines
            if line.part == part and entry_place in (None, line.entry_place)
        )


def seconds_at_places(lines: Iterable[LineTime]) -> dict[str, float]:
    """Returns the seconds of each place, whatever its line called."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        seconds[line.place] += line.seconds
    return seconds


Method = Literal[
    "fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"
]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class Calls:
    """Calls of one method from one line of a script. Calls within other calls do not count.

    A call starts until its first batch begins. If it has to trace the step function, as for a new
    model, its first batch and the first one of its first validation belong to the start too, since
    TensorFlow traces and compiles then. What this package does meanwhile is left out.

    Attributes:
        place: File and line of the script that calls it, such as "train.py:31".
        starting_s: Seconds of `total_s` in which calls start; None for methods that take one batch,
            if none of them traced.
        traced_again_s: Seconds of `starting_s` in the calls after the first one that traced the
            step function.
        tracing_cpu_s: Processor time of the calling thread during the first batches of these calls.
            Waiting for a batch is not in it.
        repeated_s: Seconds around the batches of all calls that traced nothing: of those with one
            batch, everything but that batch; of others, the part of `starting_s`.
        compiled: Line that compiled a model just before a call traced it again; empty if none did.
    """

    method: Method
    place: str
    count: int
    total_s: float
    starting_s: float | None = None
    batches: int | None = None
    models: int = 1
    traced_again: int = 0
    traced_again_s: float = 0.0
    tracing_cpu_s: float = 0.0
    repeated_s: float = 0.0
    compiled: str = ""


@dataclass(frozen=True)
class EagerStep:
    """A training step of the script's own whose operations run one by one, from Python.

    Attributes:
        function: Function that computes the gradients, such as "Trainer.step".
        place: Line that defines it or, of code within a loop, that computes the gradients.
        is_function: Whether it is called for each step, and is not the loop itself.
        steps: Number of steps between the first and the last gradients.
        lasted_s: Seconds of these steps.
        eager_s: Seconds of them in which operations ran one by one, from samples.
        in_replicas: Whether it calls `strategy.run`, whose replicas compute the gradients.
    """

    function: str
    place: str
    is_function: bool
    steps: int
    lasted_s: float
    eager_s: float
    in_replicas: bool = False


@dataclass(frozen=True)
class ScriptProfile:
    """A profile that the script itself records, as by `tf.profiler.experimental.start`.

    Attributes:
        place: Line of the script that starts it.
        recorded_s: Seconds from its start to its end, or to that of the script.
        whole_fits: Number of calls of `fit` that began and ended meanwhile.
        stop_s: Seconds that ending it took; None if the script did not end it.
    """

    place: str
    recorded_s: float
    whole_fits: int
    stop_s: float | None


@dataclass(frozen=True)
class ScriptError:
    """The exception that ended a script. Every value is None if unknown.

    Attributes:
        line: Innermost line of the script that it passed, such as "train.py:31".
        method: Method of Keras whose call it ended; None outside of calls.
        batches_done: Batches of that call that had ended, of `batches`.
        device: Device whose memory ran out; None if it is about something else.
        kept: The script's collection that holds the most tensors there, if at least as much as was
            asked for: without it, the request would have fit.
        kept_line: Line that adds to that collection.
    """

    kind: str
    message: str
    line: str | None = None
    method: Method | None = None
    batches_done: int | None = None
    batches: int | None = None
    device: str | None = None
    asked_bytes: int | None = None
    kept: Kept | None = None
    kept_line: str | None = None


@dataclass(frozen=True)
class ScriptRecord:
    """Wall time of a script's process, from its start to the end of the script.

    Attributes:
        before_s: Seconds before the first call, without the imports of TensorFlow and Keras: other
            imports, and preparing data and models. Without any call, all of the script's own code.
        before: Lines of that time, the longest first.
        rest: Lines between the calls, and after the last one.
        eager_step: The script's own training step, if there is one that runs eagerly.
        profiles: Profiles that the script records itself.
        retraced: Functions of the script that were traced more than once while its own loops ran,
            the longest time first.
    """

    wall_s: float
    imports_s: float
    before_s: float
    calls: tuple[Calls, ...] = ()
    before: tuple[LineTime, ...] = ()
    rest: tuple[LineTime, ...] = ()
    eager_step: EagerStep | None = None
    profiles: tuple[ScriptProfile, ...] = ()
    ended_by: ScriptError | None = None
    retraced: tuple[RetracedFunction, ...] = ()

    @property
    def rest_s(self) -> float:
        """Seconds between the calls and after the last one."""
        known_s = self.imports_s + self.before_s + sum(call.total_s for call in self.calls)
        return max(self.wall_s - known_s, 0.0)

    @property
    def fits(self) -> int:
        """Number of calls of `fit`."""
        return sum(call.count for call in self.calls if call.method == "fit")

    def share(self, spent_s: float) -> float:
        """Returns seconds as a share, at most 1, of the time without the imports."""
        return spent_s / max(self.wall_s - self.imports_s, spent_s, 1e-9)
