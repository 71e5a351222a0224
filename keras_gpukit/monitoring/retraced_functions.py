"""Counts how often functions of user code are traced during a call, and what changed between.

A `tf.function` is traced again for each new Python value and each new shape of an argument. Within
graph steps Keras calls none from Python, but eager steps and callbacks do. From Keras 3.16 on, the
step itself is traced again for a smaller last batch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.errors import Guard
from keras_gpukit.frameworks.tf_functions import Change, changes, tracing_hooks
from keras_gpukit.input.pipelines.places import name_and_location
from keras_gpukit.monitoring.replaced_attribute import ReplacedAttribute
from keras_gpukit.records.steps import RetracedFunction

_STEPS = ("one_step_on_data", "multi_step_on_iterator")  # names of Keras' own steps


@dataclass
class _Seen:
    name: str
    location: str
    function: int
    times: int = 0
    spent_s: float = 0.0
    changes: Counter[Change] = field(default_factory=Counter)


class RetracedFunctions:
    """Notes each tracing of a function of user code between `start` and `close`.

    `on_step` is called with the seconds of each tracing of Keras' own step.
    """

    def __init__(self, on_step: Callable[[float], None] = lambda spent_s: None) -> None:
        self._on_step = on_step
        self._guard = Guard("Counting tracings", "Functions that are traced again are unknown.")
        self._replaced: list[ReplacedAttribute] = []
        self._seen: dict[Any, _Seen] = {}
        self._began_s = 0.0

    def start(self) -> None:
        """Starts to note tracings."""
        with self._guard:
            hooks = tracing_hooks(self._begin, self._note)
            self._replaced = [ReplacedAttribute(owner, name) for owner, name, _ in hooks]
            for attribute, (_, _, wrapper) in zip(self._replaced, hooks, strict=True):
                attribute.replace(wrapper)

    def close(self) -> None:
        """Notes no more tracings; may be called repeatedly."""
        for attribute in self._replaced:
            attribute.restore()
        self._on_step = lambda spent_s: None  # the other one refers to the run

    def functions(self) -> tuple[RetracedFunction, ...] | None:
        """Returns the functions that were traced more than once, the longest time first.

        None if they are unknown.
        """
        if self._guard.failed_because is not None:
            return None
        again = [function for function in tuple(self._seen.values()) if function.times > 1]
        return tuple(
            RetracedFunction(
                function.name,
                function.location,
                function.times,
                function.spent_s,
                *(function.changes.most_common(1)[0][0] if function.changes else (None, None)),
            )
            for function in sorted(again, key=lambda function: -function.spent_s)
        )

    def _begin(self) -> None:
        self._began_s = time.perf_counter()

    def _note(self, key: Any, python_function: Any, function: Any) -> None:
        with self._guard:
            name, location = name_and_location(python_function)
            if name is None or location is None:
                if getattr(python_function, "__name__", None) in _STEPS:
                    self._on_step(time.perf_counter() - self._began_s)
                return  # a function of a library
            seen = self._seen.setdefault(key, _Seen(name, location, id(function)))
            seen.times += 1
            seen.spent_s += time.perf_counter() - self._began_s
            if seen.function != id(function):
                seen.function = id(function)
                seen.changes["made again", None] += 1
            else:
                seen.changes.update(changes(function))
