"""TensorFlow's runtime: its context, profiler, counters, settings, random numbers, strategies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

from keras_gpukit.errors import GPUKitError


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
    """Whether tensors are dumped or checked, by "dumping_callback" or "check_numerics_callback"."""
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


_COLLECTIVES = ("all_reduce", "_all_gather")


def wrap_collectives(wrap: Callable[[Callable[..., Any]], Any]) -> Callable[[], None]:
    """Wraps the methods that run collectives, and returns a function that puts them back.

    Methods that other code has replaced meanwhile stay as they are. Raises GPUKitError if
    TensorFlow has no such methods; then the time in collectives is unknown.
    """
    from tensorflow.python.distribute import cross_device_utils

    launcher = getattr(cross_device_utils, "CollectiveReplicaLauncher", None)
    if not all(hasattr(launcher, name) for name in _COLLECTIVES):
        raise GPUKitError("this TensorFlow makes collectives in another way")
    originals = {name: getattr(launcher, name) for name in _COLLECTIVES}
    wrapped = {name: wrap(original) for name, original in originals.items()}
    for name in _COLLECTIVES:
        setattr(launcher, name, wrapped[name])

    def undo() -> None:
        for name in _COLLECTIVES:
            if getattr(launcher, name) is wrapped[name]:
                setattr(launcher, name, originals[name])

    return undo


def ask_peer(task: str, timeout_s: float) -> None:
    """Asks a worker whether it is alive, over the connection that collectives use, and waits.

    `MultiWorkerMirroredStrategy` asks every worker every 30 s. Without it, round trips are unknown.
    """
    context().check_collective_ops_peer_health(task, timeout_in_ms=int(timeout_s * 1000))


def end_of(result: Any) -> Any:
    """Returns the `threading.Event` of the end of a scheduled step.

    None without it: no error is raised when all workers are gone.
    """
    return getattr(result, "_status_available_event", None)


def devices_fed_by(dataset: Any) -> list[str]:
    """Returns the devices to which a distributed dataset copies batches ahead.

    None if they are unknown, and with them the times of such batches.
    """
    workers, options = getattr(dataset, "_input_workers", None), getattr(dataset, "_options", None)
    if workers is None or (options is not None and not options.experimental_fetch_to_device):
        return []
    return list(workers.compute_devices_for_worker(0))


def with_host_dataset(dataset: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a distributed dataset whose host reads a changed dataset.

    Raises ValueError if several hosts read it.
    """
    (host,) = dataset._cloned_datasets
    made = copy.copy(dataset)
    made._cloned_datasets = [change(host)]
    return made
