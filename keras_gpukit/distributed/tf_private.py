"""Private names of TensorFlow that training in several processes needs, seen on TensorFlow 2.21.

`CollectiveReplicaLauncher`, whose `all_reduce` and `_all_gather` run every collective of
`MultiWorkerMirroredStrategy`; `context.context().check_collective_ops_peer_health`, which that
strategy calls for every worker every 30 s; `RemoteValueImpl._status_available_event`. If one is
gone, what it measures is unknown, or no error is raised when all workers are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_gpukit.errors import GPUKitError

_COLLECTIVES = ("all_reduce", "_all_gather")


def wrap_collectives(wrap: Callable[[Callable[..., Any]], Any]) -> Callable[[], None]:
    """Wraps the methods that run collectives, and returns a function that puts them back.

    Methods that other code has replaced meanwhile stay as they are.
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
    """Asks a worker whether it is alive, over the connection that collectives use, and waits."""
    from tensorflow.python.eager import context

    context.context().check_collective_ops_peer_health(task, timeout_in_ms=int(timeout_s * 1000))


def end_of(result: Any) -> Any:
    """Returns the `threading.Event` of the end of a scheduled step; None if it has no event."""
    return getattr(result, "_status_available_event", None)
