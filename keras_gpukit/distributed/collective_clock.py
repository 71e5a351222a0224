"""Measures the time that a worker spends in collectives, by two clock readings around each of them.

A profile would show the same, but TensorFlow's profiler may crash processes that run collectives
across workers. With TensorFlow 2.21 on CPUs it crashed when it was stopped, on any thread, also
without this package. So the step function is traced with the two readings in it. They depend on
the input and the output of a collective, and nothing depends on them, so they change no value of
the training. Functions that were traced earlier have no readings.

Private name, seen on TensorFlow 2.21: `CollectiveReplicaLauncher`. Its methods `all_reduce` and
`_all_gather` run every collective of `MultiWorkerMirroredStrategy`. If the class is gone, the time
in collectives is unknown.

On a GPU the host runs ahead of the device. A reading before a collective does not show when the
device reaches it, so the clock is for CPUs only.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_gpukit.errors import GPUKitError
from keras_gpukit.records.operations import OWN_SCOPE

_METHODS = ("all_reduce", "_all_gather")
_MARK = "gpukit_clocked"


class CollectiveClock:
    """Counts the seconds that this process spends in collectives.

    Traced functions refer to the clock, so a process has only one.

    Raises:
        GPUKitError: If this TensorFlow has no `CollectiveReplicaLauncher` with the known methods.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        with tf.init_scope(), tf.device("CPU:0"):
            # A plain resource: under a strategy, a variable would be a distributed one.
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=tf.float64, shape=[], shared_name="gpukit/seconds_in_collectives"
            )
            zero = tf.constant(0.0, tf.float64)
            tf.raw_ops.AssignVariableOp(resource=self._handle, value=zero)

        # Functions, because each of them writes a resource. TensorFlow would put an operation that
        # has no resource and no input in one sequence with such operations of the model.
        def enter(handle: Any) -> None:
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=tf.timestamp())

        def leave(handle: Any) -> None:
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.timestamp())

        self._enter = tf.function(enter, autograph=False)
        self._leave = tf.function(leave, autograph=False)
        self._read = tf.raw_ops.ReadVariableOp
        self._dtype = tf.float64
        self._eager_s = 0.0
        self._users = 0
        self._originals: dict[str, Any] = {}
        _launcher()

    @property
    def total_s(self) -> float:
        """Seconds spent in collectives so far."""
        graph_s = float(self._read(resource=self._handle, dtype=self._dtype).numpy())
        return graph_s + self._eager_s

    def install(self) -> None:
        """Adds the readings to functions traced from now on, until as many calls of `remove`."""
        self._users += 1
        if self._users > 1:
            return
        launcher = _launcher()
        for name in _METHODS:
            original = getattr(launcher, name)
            self._originals[name] = original
            setattr(launcher, name, self._clocked(original))

    def remove(self) -> None:
        """Puts TensorFlow's own methods back, unless other code has replaced them meanwhile."""
        self._users -= 1
        if self._users:
            return
        launcher = _launcher()
        for name, original in self._originals.items():
            if getattr(getattr(launcher, name), _MARK, False):
                setattr(launcher, name, original)
        self._originals.clear()

    def _clocked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        import tensorflow as tf

        @functools.wraps(original)
        def clocked(launcher: Any, input_tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if tf.executing_eagerly():
                began_s = time.perf_counter()
                output = original(launcher, input_tensor, *args, **kwargs)
                self._eager_s += time.perf_counter() - began_s
                return output
            with tf.control_dependencies([input_tensor]), _on_host():
                self._enter(self._handle)
            output = original(launcher, input_tensor, *args, **kwargs)
            with tf.control_dependencies([output]), _on_host():
                self._leave(self._handle)
            return output

        setattr(clocked, _MARK, True)
        return clocked


_clock: CollectiveClock | None = None
_making = threading.RLock()  # reentrant, because an interrupt may leave it locked


def collective_clock() -> CollectiveClock:
    """Returns the clock of this process, created at the first call.

    Raises:
        GPUKitError: If this TensorFlow has no `CollectiveReplicaLauncher` with the known methods.
    """
    global _clock
    with _making:
        if _clock is None:
            _clock = CollectiveClock()
        return _clock


@contextmanager
def _on_host() -> Iterator[None]:
    import tensorflow as tf

    with tf.device("CPU:0"), tf.name_scope(OWN_SCOPE):
        yield


def _launcher() -> Any:
    from tensorflow.python.distribute import cross_device_utils

    launcher = getattr(cross_device_utils, "CollectiveReplicaLauncher", None)
    if launcher is None or not all(hasattr(launcher, name) for name in _METHODS):
        raise GPUKitError("this TensorFlow makes collectives in another way")
    return launcher
