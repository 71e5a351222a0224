"""TensorFlow's runtime: its context, profiler, counters, settings and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast


def context() -> Any:
    """Returns the context of eager operations; it starts no device."""
    from tensorflow.python.eager import context

    return context.context()


def is_initialized() -> bool:
    """Whether TensorFlow has started its devices; starts nothing.

    Without the private name, a public setting is tried that started devices refuse.
    """
    try:
        return bool(context()._initialized)
    except (AttributeError, ImportError):
        return _refuses_changes()


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
        return bool(context().config.gpu_options.allow_growth)
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


def debugs_tf_data() -> bool:
    """Whether tf.data runs its functions in Python."""
    from tensorflow.python.data.ops import debug_mode

    return bool(debug_mode.DEBUG_MODE)


def debugs_tensors(by: str) -> bool:
    """Whether tensors are dumped or checked.

    Args:
        by: "dumping_callback" or "check_numerics_callback".
    """
    return hasattr(import_module(f"tensorflow.python.debug.lib.{by}")._state, by)


def active_profiler() -> Any | None:
    """Returns the profiler that user code has started; None without."""
    from tensorflow.python.profiler import profiler_v2

    return profiler_v2._profiler


def enable_graph_collection() -> None:
    """Makes the runtime keep the graphs of each function that it instantiates from now on."""
    context().enable_graph_collection()


def take_collected_graphs() -> list[Any]:
    """Stops the collection and returns the graphs: one `FunctionGraphs` proto per function."""
    runtime = context()
    try:
        return list(runtime.export_run_metadata().function_graphs)
    finally:
        runtime.disable_graph_collection()


def is_summary_trace_on() -> bool:
    """Whether `tf.summary.trace_on` is collecting graphs; the runtime has one shared collection."""
    from tensorflow.python.ops import summary_ops_v2

    return summary_ops_v2._current_trace_context is not None


def anonymous_name() -> str:
    """Returns the name of a variable that no strategy mirrors, and that is freed with its users."""
    from tensorflow.python.eager import context

    return str(context.anonymous_name())


def eager_seeds() -> Any | None:
    """Returns the `random.Random` of seeds for operations without one; None before `set_seed`."""
    try:
        return getattr(context(), "_rng", None)
    except ImportError:
        return None


def global_generator() -> Any | None:
    """Returns the shared `tf.random.Generator`; None if none was requested."""
    try:
        from tensorflow.python.ops import stateful_random_ops
    except ImportError:
        return None
    return getattr(stateful_random_ops, "global_generator", None)


def keeps_its_items_inside(thing: Any) -> bool:
    """Whether an object is a TensorFlow list that keeps its items in one of its attributes."""
    try:
        from tensorflow.python.trackable.data_structures import ListWrapper
    except ImportError:
        return False
    return isinstance(thing, ListWrapper)
