"""Private names of TensorFlow that sensors and captures need.

Seen on TensorFlow 2.21: `context.context()._initialized`, `.config`,
`config.is_op_determinism_enabled`, `trace.enabled`, `monitoring.Counter` and
`Function._list_all_concrete_functions`. If one is missing, a public function takes its place, or
the answer is None or empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast


def is_initialized() -> bool:
    """Whether TensorFlow has started its devices; starts nothing."""
    try:
        return bool(_context()._initialized)
    except (AttributeError, ImportError):
        return _refuses_changes()


def traces_of(step_function: Any) -> list[Any]:
    """Returns the traces of a model's step function, as `ConcreteFunction`s, the first one first.

    Keras' step function calls a `tf.function` that is in its closure, in one wrapper or several.
    Empty without such a function, or if it has no `_list_all_concrete_functions`.
    """
    function = _unwrapped(step_function)
    inner = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    found = (function, *filter(callable, inner.values()))
    traced = [each for each in map(_unwrapped, found) if _is_traced(each)]
    return [trace for each in traced for trace in each._list_all_concrete_functions()]


def _unwrapped(function: Any) -> Any:
    return inspect.unwrap(function, stop=_is_traced)


def _is_traced(function: Any) -> bool:
    return hasattr(function, "_list_all_concrete_functions")


def is_deterministic() -> bool | None:
    """Whether operations are made deterministic; None if unknown."""
    try:
        from tensorflow.python.framework import config

        return bool(config.is_op_determinism_enabled())
    except (AttributeError, ImportError):
        return None


def grows_memory() -> bool | None:
    """Whether TensorFlow will really grow GPU memory; None if unknown.

    The public getter returns the setting, but TensorFlow may pass less than that to the runtime.
    """
    try:
        return bool(_context().config.gpu_options.allow_growth)
    except (AttributeError, ImportError):
        return None
    except ValueError:  # the setting differs between GPUs, which TensorFlow rejects only here
        return None


def profiler_state() -> Callable[[], bool]:
    """Returns a function that says whether a profile is being recorded.

    If that is unknown it is always true: then all steps are marked, which costs a microsecond or
    more even if no profile is recorded.
    """
    from tensorflow.python.profiler import trace

    enabled: Any = getattr(trace, "enabled", True)
    if callable(enabled):
        return cast(Callable[[], bool], enabled)
    return lambda: bool(getattr(trace, "enabled", True))  # a variable, until TensorFlow 2.18


def counter(name: str, value: int) -> Any:
    """Returns a new counter of TensorFlow's, with a value; it is counted as long as it is kept."""
    from tensorflow.python.eager import monitoring

    made = monitoring.Counter(name, "Checks the layout of counters.")
    made.get_cell().increase_by(value)
    return made


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()


def _refuses_changes() -> bool:
    # A public way to find out: the number of threads can be changed until the devices are started.
    import tensorflow as tf

    threads = tf.config.threading.get_inter_op_parallelism_threads()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads + 1)
    except RuntimeError:
        return True
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return False
