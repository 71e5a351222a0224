"""TensorFlow's strategies: their collectives, workers and distributed datasets."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import GPUKitError
from keras_gpukit.frameworks.tf_runtime import context

_COLLECTIVES = ("all_reduce", "_all_gather")


def wrap_collectives(wrap: Callable[[Callable[..., Any]], Any]) -> Callable[[], None]:
    """Wraps the methods that run collectives, and returns a function that puts them back.

    Methods that other code has replaced meanwhile stay as they are.

    Raises:
        GPUKitError: If TensorFlow has no such methods; then the time in collectives is unknown.
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

    Raises:
        ValueError: If several hosts read it.
    """
    (host,) = dataset._cloned_datasets
    made = copy.copy(dataset)
    made._cloned_datasets = [change(host)]
    return made
