"""Counts and times a script's calls of `fit`, `evaluate`, `predict` and the methods for one batch.

That takes about as long as a few calls of Python functions, so it goes on however many calls
there are. Calls of other models within a call, as by a callback, belong to that call.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks import keras_models
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.records.script import Calls, Method, ScriptRecord
from keras_gpukit.scripts.main_module import PACKAGE

_OWN_BATCHES = {"fit": "train", "evaluate": "test", "predict": "predict"}


class _Batch(NamedTuple):
    """The first batch of its kind in a call: its seconds, and processor time of the thread."""

    began_s: float
    lasted_s: float
    cpu_s: float


class _Call:
    """A call under way."""

    def __init__(self, method: Method, model: Any, place: str, cost_s: float) -> None:
        self.method, self.model, self.place, self.cost_s = method, model, place, cost_s
        names = keras_models.STEP_FUNCTIONS[method]
        self.traces = {
            name.partition("_")[0] for name in names if getattr(model, name, None) is None
        }
        self.batches: int | None = None if method in _OWN_BATCHES else 1
        self.batches_done: int | None = 0 if method == "predict" else None
        self.first: dict[str, _Batch] = {}
        self.began_s, self.began_cpu_s = time.perf_counter(), time.thread_time()


class _CallSums:
    """Calls of one method from one place that have ended; public fields as in `Calls`."""

    def __init__(self) -> None:
        self.count = self._traced = self.traced_again = self.models = 0
        self.total_s = self.traced_again_s = self.tracing_cpu_s = self.repeated_s = 0.0
        self.starting_s: float | None = None
        self.batches: int | None = 0
        self.compiled = ""
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def add_call(self, call: _Call, total_s: float, cost_s: float, compiled: str) -> None:
        """Adds a call, the seconds of this package in it, and the line that compiled its model."""
        self.count += 1
        self.total_s += total_s
        self.batches = None if None in (self.batches, call.batches) else self.batches + call.batches  # type: ignore[operator]
        if call.model not in self._seen:
            self._seen.add(call.model)
            self.models += 1
        own = call.first.get(_OWN_BATCHES.get(call.method, "all"))
        if own is None:
            return
        before_s = max(own.began_s - call.began_s - cost_s, 0.0)
        traced = [batch for kind, batch in call.first.items() if kind in call.traces]
        starting_s = before_s + sum(batch.lasted_s for batch in traced)
        self.starting_s = (self.starting_s or 0.0) + starting_s
        if not traced:
            around_s = total_s - own.lasted_s - cost_s
            self.repeated_s += max(around_s, 0.0) if call.batches == 1 else before_s
            return
        self._traced += 1
        if self._traced > 1:
            self.traced_again += 1
            self.compiled = compiled or self.compiled
            self.traced_again_s += starting_s
            self.tracing_cpu_s += sum(batch.cpu_s for batch in traced)


class ScriptCalls:
    """Counts and times the calls of this process.

    Args:
        cost_s: Returns the seconds that monitoring calls has taken so far. What it adds to a call
            is not counted as the call's start.

    Attributes:
        first_began_s: When the first call began, on `time.perf_counter`; None before it.
        failed: The last call that an exception ended; None without one.
    """

    def __init__(self, cost_s: Callable[[], float]) -> None:
        self._cost_s = cost_s
        self._call: _Call | None = None
        self._compiled: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._sums: dict[tuple[Method, str], _CallSums] = {}
        self.first_began_s: float | None = None
        self.failed: _Call | None = None
        self._libraries: tuple[str, ...] = (PACKAGE + os.sep,)
        self._guard = Guard("Timing the script's calls", "Their times are incomplete.")

    def install(self) -> None:
        """Starts to time calls. Needs Keras imported."""
        import keras

        self._libraries += (os.path.dirname(os.path.abspath(keras.__file__)) + os.sep,)
        keras_models.around_each_call(self._timed)
        keras_models.around_each_call(self._compiling, ("compile",))

    def follow(self, method: str, callback_list: Any) -> None:
        """Times the first batches of the call under way, from the call's callback list."""
        call = self._call
        if call is None or call.method != method or call.model is not callback_list.model:
            return
        with self._guard:
            params = callback_list.params or {}
            steps = params.get("steps")
            call.batches = None if steps is None else steps * (params.get("epochs") or 1)
            for kind in {_OWN_BATCHES[method], *call.traces}:
                _time_first_batch(call, callback_list, kind)

    def fits(self) -> tuple[int, int]:
        """Returns how many calls of `fit` have ended, and how many are under way: 0 or 1."""
        ended = sum(sums.count for (method, _), sums in self._sums.items() if method == "fit")
        return ended, int(self._call is not None and self._call.method == "fit")

    def script_record(self, began_s: float, imports_s: float) -> ScriptRecord:
        """Returns what the script did from its start until now."""
        now_s = first_s = time.time()
        if self.first_began_s is not None:
            first_s -= time.perf_counter() - self.first_began_s
        calls = [
            Calls(*key, **{name: sum for name, sum in vars(sums).items() if name[0] != "_"})
            for key, sums in self._sums.items()
        ]
        calls.sort(key=lambda call: -call.total_s)
        before_s = max(first_s - began_s - imports_s, 0.0)
        return ScriptRecord(now_s - began_s, imports_s, before_s, tuple(calls))

    def _timed(self, method: Method, original: Any) -> Any:
        @functools.wraps(original)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            outermost = None if self._call is not None else self._begin(method, model)
            try:
                return original(model, *args, **kwargs)
            except BaseException:
                self.failed = outermost or self.failed
                raise
            finally:
                if outermost is not None:
                    self._end(outermost)

        return call

    def _compiling(self, _method: str, original: Any) -> Any:
        @functools.wraps(original)
        def compile_(model: Any, *args: Any, **kwargs: Any) -> Any:
            with self._guard:
                self._compiled[model] = self._place()
            return original(model, *args, **kwargs)

        return compile_

    def _begin(self, method: Method, model: Any) -> _Call | None:
        with self._guard:
            if self.first_began_s is None:
                self.first_began_s = time.perf_counter()
            self._call = _Call(method, model, self._place(), self._cost_s())
            return self._call
        return None

    def _end(self, call: _Call) -> None:
        self._call = None
        with self._guard:
            now_s = time.perf_counter()
            total_s = now_s - call.began_s
            if call.traces and call.method not in _OWN_BATCHES:  # the whole call is one batch
                cpu_s = time.thread_time() - call.began_cpu_s
                kinds = ("all", *call.traces)
                call.first = dict.fromkeys(kinds, _Batch(call.began_s, total_s, cpu_s))
            key = call.method, call.place
            sums = self._sums.get(key) or self._sums.setdefault(key, _CallSums())
            sums.add_call(
                call, total_s, self._cost_s() - call.cost_s, self._compiled.pop(call.model, "")
            )
        call.model = None  # the callback list refers to the call

    def _place(self) -> str:
        """Returns the line outside Keras and this package that calls."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(self._libraries) and frame.f_back is not None:
            frame = frame.f_back
        return place(frame.f_code.co_filename, frame.f_lineno)


def _time_first_batch(call: _Call, callback_list: Any, kind: str) -> None:
    """Notes the first batch of a kind, without the callbacks before and after it.

    The list has its own hooks only until then, unless other code has wrapped them meanwhile. They
    do not refer to the list: the two would keep each other, and the model, alive.
    """
    list_of = weakref.ref(callback_list)
    began: list[float] = []

    def begin() -> None:
        if not began:
            began[:] = time.perf_counter(), time.thread_time()

    def end() -> None:
        if began and kind not in call.first:
            now_s, cpu_s = time.perf_counter(), time.thread_time()
            call.first[kind] = _Batch(began[0], now_s - began[0], cpu_s - began[1])
        if call.batches_done is not None:
            call.batches_done += 1

    def replace(name: str, *, at_end: bool) -> None:
        hook = getattr(type(callback_list), name)

        def at_batch(batch: int, logs: Any = None) -> None:
            this = list_of()
            if at_end:
                end()
            hook(this, batch, logs)
            if not at_end:
                begin()
            is_counted = at_end and call.batches_done is not None
            if vars(this).get(name) is at_batch and not is_counted:
                del vars(this)[name]

        setattr(callback_list, name, at_batch)

    replace(f"on_{kind}_batch_begin", at_end=False)
    replace(f"on_{kind}_batch_end", at_end=True)
