"""Counts how often functions of user code are traced during a call, and what changed between.

A `tf.function` is traced again for each new Python value and each new shape of an argument. Within
graph steps Keras calls none from Python, but eager steps and callbacks do.

Private names, seen on TensorFlow 2.21: `_frequent_tracing_detector_manager` in the module of
`tf.function`, which hears of each tracing and lends its place to a wrapper; `Function` in the frame
that calls it, and its `_function_cache` with types of class `Literal`; and
`_graph_building_time_counter`, which each tracing asks for first. If one is gone, the functions are
unknown.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.input.pipelines.places import name_and_location
from keras_gpukit.records.steps import RetraceCause, RetracedFunction
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

_LITERAL = "Literal"  # TensorFlow's type of a Python value
_MANAGER = "_frequent_tracing_detector_manager"
_COUNTER = "_graph_building_time_counter"
Change = tuple[RetraceCause, str | None]


@dataclass
class _Seen:
    name: str
    location: str
    function: int
    times: int = 0
    spent_s: float = 0.0
    changes: Counter[Change] = field(default_factory=Counter)


class RetracedFunctions:
    """Notes each tracing of a function of user code between `start` and `close`."""

    def __init__(self) -> None:
        self._guard = Guard("Counting tracings", "Functions that are traced again are unknown.")
        self._replaced: list[ReplacedAttribute] = []
        self._seen: dict[Any, _Seen] = {}
        self._began_s = 0.0

    def start(self) -> None:
        """Starts to note tracings."""
        with self._guard:
            from tensorflow.python.eager.polymorphic_function import (
                polymorphic_function,
                tracing_compilation,
            )

            manager = ReplacedAttribute(polymorphic_function, _MANAGER)
            counter = ReplacedAttribute(tracing_compilation, _COUNTER)
            self._replaced = [manager, counter]
            manager.replace(_Manager(manager.current, self._note))
            counter.replace(_Counter(counter.current, self._begin))

    def close(self) -> None:
        """Notes no more tracings; may be called repeatedly."""
        for each in self._replaced:
            each.restore()

    def record(self) -> tuple[RetracedFunction, ...]:
        """Returns the functions that were traced more than once, the longest time first."""
        again = [each for each in tuple(self._seen.values()) if each.times > 1]
        return tuple(
            RetracedFunction(
                each.name,
                each.location,
                each.times,
                each.spent_s,
                *(each.changes.most_common(1)[0][0] if each.changes else (None, None)),
            )
            for each in sorted(again, key=lambda each: -each.spent_s)
        )

    def _begin(self) -> None:
        self._began_s = time.perf_counter()

    def _note(self, key: Any, python_function: Any, function: Any) -> None:
        with self._guard:
            name, location = name_and_location(python_function)
            if name is None or location is None:
                return  # a function of a library, such as Keras' own step
            seen = self._seen.setdefault(key, _Seen(name, location, id(function)))
            seen.times += 1
            seen.spent_s += time.perf_counter() - self._began_s
            if seen.function != id(function):
                seen.function = id(function)
                seen.changes["made again", None] += 1
            else:
                seen.changes.update(_changes(function))


class _Manager:
    """Takes the place of TensorFlow's manager, and passes all calls on."""

    def __init__(self, manager: Any, note: Callable[[Any, Any, Any], None]) -> None:
        self.__wrapped__ = manager
        self._note = note
        self.called_without_tracing = manager.called_without_tracing

    def called_with_tracing(self, key: Any, python_function: Any, omit_warning: bool) -> None:
        self.__wrapped__.called_with_tracing(key, python_function, omit_warning)
        self._note(key, python_function, sys._getframe(1).f_locals.get("self"))


class _Counter:
    """Takes the place of TensorFlow's counter of the time for building graphs."""

    def __init__(self, counter: Any, begin: Callable[[], None]) -> None:
        self.__wrapped__ = counter
        self._begin = begin

    def get_cell(self) -> Any:
        self._begin()
        return self.__wrapped__.get_cell()


def _changes(function: Any) -> list[Change]:
    """Returns what differs between a function's last two tracings."""
    traced = function._function_cache.values()[-2:]
    if len(traced) < 2:
        return []
    before, after = (each.function_type.parameters for each in traced)
    changes: list[Change] = []
    for name, parameter in after.items():
        old, new = before[name].type_constraint, parameter.type_constraint
        if old == new:
            continue
        if _LITERAL in (type(old).__name__, type(new).__name__):
            changes.append(("Python value", name))
        elif hasattr(old, "shape") and hasattr(new, "shape"):
            changes.append(("shape" if old.shape != new.shape else "dtype", name))
    return changes
