"""Measures a worker of a synchronous run: its time in collectives, and round trips to others.

All workers have the same step time, since they meet at its collectives. The one that the others
wait for is known by nothing but how long each of them waits there: input waits, step times and
processor time are the same for a worker whose device is slow. A profile would show it too, but
TensorFlow's profiler may crash processes that run collectives across workers (2.21 on CPUs, when it
was stopped, on any thread, also without this package).
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keras_gpukit.distributed.repairs.several_workers import cluster_of, is_multi_worker
from keras_gpukit.errors import logger
from keras_gpukit.frameworks.tf_runtime import ask_peer, wrap_collectives
from keras_gpukit.records.cluster import RoundTrip
from keras_gpukit.records.placement import OWN_SCOPE

# Answering two requests per second costs a worker under a millisecond of processor time, whatever
# the size of the cluster. The timeout keeps a dead peer from blocking the sampling thread.
TIMEOUT_S = 1.0
NEIGHBOURS = 2
MOST_READINGS = 512


class CollectiveClock:
    """Counts the seconds that this process spends in collectives, on CPUs.

    Functions that are traced while it is installed have two clock readings around each collective.
    They depend on its input and output, and nothing depends on them, so they change no value of the
    training. On a GPU the host runs ahead of the device, and the readings would say nothing.
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
        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def enter(handle: Any) -> None:
            tf.raw_ops.AssignSubVariableOp(resource=handle, value=tf.timestamp())

        @tf.function(autograph=False)  # type: ignore[untyped-decorator]
        def leave(handle: Any) -> None:
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.timestamp())

        self._enter, self._leave = enter, leave
        self._users = 0
        self._undo: Callable[[], None] = lambda: None

    @property
    def total_s(self) -> float:
        """Seconds spent in collectives so far."""
        import tensorflow as tf

        return float(tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.float64).numpy())

    def install(self) -> None:
        """Adds the readings to functions traced from now on, until as many calls of `remove`."""
        if not self._users:
            self._undo = wrap_collectives(self._clocked)
        self._users += 1

    def remove(self) -> None:
        """Puts TensorFlow's own methods back, unless other code has replaced them meanwhile."""
        self._users -= 1
        if not self._users:
            self._undo()

    def _clocked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clocked(launcher: Any, input_tensor: Any, *args: Any, **kwargs: Any) -> Any:
            with _on_host_after(input_tensor):
                self._enter(self._handle)
            output = original(launcher, input_tensor, *args, **kwargs)
            with _on_host_after(output):
                self._leave(self._handle)
            return output

        return clocked


@functools.cache
def collective_clock() -> CollectiveClock:
    """Returns the clock of this process, to which traced functions refer."""
    return CollectiveClock()


@contextmanager
def _on_host_after(tensor: Any) -> Iterator[None]:
    import tensorflow as tf

    with tf.control_dependencies([tensor]), tf.device("CPU:0"), tf.name_scope(OWN_SCOPE):
        yield


class RoundTrips:
    """Measures how long the next two workers take to answer a health check.

    One worker measures each link of the ring in which gradients travel. Four measured links lead
    to or from each worker, which separates a slow worker from a slow peer. The lowest reading
    matters most: any time above it means that the other machine was busy.
    """

    def __init__(
        self,
        index: int,
        tasks: Sequence[str],
        ask: Callable[[str, float], None] = ask_peer,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        peers = {(index + step) % len(tasks) for step in range(1, NEIGHBOURS + 1)} - {index}
        self._tasks = {peer: tasks[peer] for peer in sorted(peers)}
        self._ask = ask
        self._now = now
        self._readings: dict[int, list[float]] = {peer: [] for peer in self._tasks}

    def ask_peers(self) -> None:
        """Asks each of the peers once; one that does not answer is not asked again."""
        for peer, task in tuple(self._tasks.items()):
            began_s = self._now()
            try:
                self._ask(task, TIMEOUT_S)
            except Exception as error:
                del self._tasks[peer]
                logger.debug("worker %d gives no sign of life: %s", peer, error)
                continue
            if len(self._readings[peer]) < MOST_READINGS:
                self._readings[peer].append(self._now() - began_s)

    def per_peer(self) -> tuple[RoundTrip, ...]:
        """Returns the lowest and the median round trip to each peer that has answered."""
        return tuple(
            RoundTrip(peer, min(readings), statistics.median(readings), len(readings))
            for peer, readings in self._readings.items()
            if readings
        )


def tasks_of(model: Any) -> tuple[str, ...]:
    """Returns TensorFlow's names of all tasks that train in step, chief first, own included."""
    strategy = getattr(model, "distribute_strategy", None)
    cluster = cluster_of(strategy) if is_multi_worker(strategy) else {}
    return tuple(
        f"/job:{job}/replica:0/task:{task}"
        for job in ("chief", "worker")
        for task in range(len(cluster.get(job, ())))
    )
