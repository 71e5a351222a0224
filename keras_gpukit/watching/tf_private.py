"""Private names of TensorFlow that monitoring a call needs, seen on TensorFlow 2.21.

Of tracings: `_frequent_tracing_detector_manager` in the module of `tf.function`, which hears of
each tracing and lends its place to a wrapper; `Function` in the frame that calls it, and its
`_function_cache` with types of class `Literal`; and `_graph_building_time_counter`, which each
tracing asks for first. If one is gone, the functions are unknown.

Of settings: `debug_mode.DEBUG_MODE` of tf.data, the attributes `check_numerics_callback` and
`dumping_callback` of the `_state` of their modules, and `profiler_v2._profiler`. A setting whose
name is missing counts as not set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from keras_gpukit.records.steps import RetraceCause
from keras_gpukit.rules.setup import settings
from keras_gpukit.watching.replaced_attribute import ReplacedAttribute

Change = tuple[RetraceCause, str | None]
"""Difference between two tracings of a function: the cause, and the name of its argument."""
_LITERAL = "Literal"  # TensorFlow's type of a Python value


class _Passing:
    """Takes the place of an object, and passes all calls on."""

    def __init__(self, wrapped: Any, note: Callable[..., None]) -> None:
        self.__wrapped__ = wrapped
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)


class _Manager(_Passing):
    def __init__(self, wrapped: Any, note: Callable[..., None]) -> None:
        super().__init__(wrapped, note)
        self.called_without_tracing = wrapped.called_without_tracing  # at every step: no look-up

    def called_with_tracing(self, key: Any, python_function: Any, omit_warning: bool) -> None:
        self.__wrapped__.called_with_tracing(key, python_function, omit_warning)
        frame = sys._getframe(1)
        while isinstance(frame.f_locals.get("self"), _Manager) and frame.f_back is not None:
            frame = frame.f_back  # a wrapper around this one
        self._note(key, python_function, frame.f_locals.get("self"))


class _Counter(_Passing):
    def get_cell(self) -> Any:
        self._note()
        return self.__wrapped__.get_cell()


def tracing_hooks(
    begins: Callable[[], None], traced: Callable[[Any, Any, Any], None]
) -> list[tuple[ReplacedAttribute, Any]]:
    """Returns attributes and the wrappers to replace them by, which call functions at each tracing.

    Args:
        begins: Called before a tracing.
        traced: Called after it with a key of the function, the Python function and the `Function`.
    """
    names = "polymorphic_function", "tracing_compilation"
    modules = [import_module(f"tensorflow.python.eager.polymorphic_function.{n}") for n in names]
    manager = ReplacedAttribute(modules[0], "_frequent_tracing_detector_manager")
    counter = ReplacedAttribute(modules[1], "_graph_building_time_counter")
    if manager.current is None or counter.current is None:
        raise AttributeError("this TensorFlow notes tracings in another way")
    return [
        (manager, _Manager(manager.current, traced)),
        (counter, _Counter(counter.current, begins)),
    ]


def changes(function: Any) -> list[Change]:
    """Returns what differs between the last two tracings of a `Function`."""
    traced = function._function_cache.values()[-2:]
    if len(traced) < 2:
        return []
    before, after = (each.function_type.parameters for each in traced)
    found: list[Change] = []
    for name, parameter in after.items():
        old, new = before[name].type_constraint, parameter.type_constraint
        if old == new:
            continue
        if _LITERAL in (type(old).__name__, type(new).__name__):
            found.append(("Python value", name))
        elif hasattr(old, "shape") and hasattr(new, "shape"):
            found.append(("shape" if old.shape != new.shape else "dtype", name))
    return found


def slow_settings() -> dict[str, Callable[[], Any]]:
    """Returns functions that say whether a setting is in effect, by key in `rules.setup.settings`.

    Raises:
        AttributeError, ImportError: By the functions, if the setting is unknown to TensorFlow.
    """

    def private(module: str) -> Any:
        return import_module(f"tensorflow.python.{module}")

    def debugs(name: str) -> bool:
        return hasattr(private(f"debug.lib.{name}")._state, name)

    return {
        settings.DEBUG_MODE: lambda: private("data.ops.debug_mode").DEBUG_MODE,
        settings.DUMP: lambda: debugs("dumping_callback"),
        settings.CHECK_NUMERICS: lambda: debugs("check_numerics_callback"),
        settings.ACTIVE_PROFILER: lambda: private("profiler.profiler_v2")._profiler,
    }
