"""Ways to measure how long steps wait for their next batch.

Keras fetches the batch inside its train function, so callbacks cannot see the wait. A meter is
told when the train function was entered, and says how much of the time between two entries was
spent waiting.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from keras_gpukit.input_wait.tf_private import has_model, host_iterator, time_fetches
from keras_gpukit.records.steps import Confidence

# tf.data drops longer gaps from its list (tensorflow/core/framework/model.cc).
LONGEST_GAP_S = 10.0


@dataclass(frozen=True)
class Reading:
    """Wait between two entries of the step function.

    Attributes:
        wait_s: Time spent blocked on batches; None where this stretch cannot be known.
        buffered_batches: Fill of the pipeline's last buffer.
    """

    wait_s: float | None
    buffered_batches: float | None = None


class Meter(Protocol):
    """Measures the wait of one iterator."""

    mechanism: str
    confidence: Confidence

    def start(self, entry_s: float) -> None:
        """Begins a stretch at the entry of the latest call; called after that call returned."""

    def read(self, entry_s: float, steps: int, *, raised: bool) -> Reading:
        """Ends the stretch at the entry of the latest call, and begins the next one there.

        Args:
            entry_s: When the latest call that returned was entered.
            steps: Steps in the stretch.
            raised: Whether a call after that one raised, as at the end of the data.
        """


class PipelineModelMeter:
    """Reads the gaps between fetches from tf.data's own model of the pipeline.

    tf.data keeps the last 100 gaps: the times from one fetch's end to the next one's start. What
    of the time between two entries is no gap was spent fetching.

    Args:
        iterator: What Keras hands to its step function.
        steps_per_execution: Steps in one call. Beyond one, fetching may overlap compute.

    Raises:
        Exception: If the pipeline has no model, as when its autotuning is off.
    """

    mechanism = "pipeline model"

    def __init__(self, iterator: Any, steps_per_execution: int) -> None:
        import tensorflow as tf

        self.confidence: Confidence = "exact" if steps_per_execution == 1 else "upper bound"
        self._steps_per_execution = steps_per_execution
        self._read_model = tf.data.experimental.get_model_proto
        # Not kept alive: a pipeline takes its time to go, which would look like ours.
        host = host_iterator(iterator)
        if not has_model(host):
            raise ValueError("autotuning is off")
        self._iterator = weakref.ref(host)
        self._entry_s = 0.0
        self._fetched = 0
        self._read_model(self._iterator())

    def start(self, entry_s: float) -> None:
        """Begins a stretch."""
        self._entry_s = entry_s
        model = self._read_model(self._iterator())
        self._fetched = model.nodes[model.output].num_elements

    def read(self, entry_s: float, steps: int, *, raised: bool) -> Reading:
        """Ends the stretch and begins the next one."""
        iterator = self._iterator()
        if iterator is None:
            return Reading(None)
        elapsed_s = entry_s - self._entry_s
        model = self._read_model(iterator)
        fetched = model.nodes[model.output].num_elements
        # The fetch of a call that raised is none of the stretch's, but the gap before it is there.
        gaps_us = model.gap_times[:-1] if raised else model.gap_times
        new = fetched - self._fetched
        # An execution of several steps ends early with the data; a fetch whose step failed counts.
        expected = steps - self._steps_per_execution < new <= steps + raised
        known = min(new, steps, len(gaps_us))
        self._entry_s, self._fetched = entry_s, fetched
        buffered = next(
            (
                float(node.buffered_elements)
                for _, node in sorted(model.nodes.items())
                if node.name.startswith("Prefetch")
            ),
            None,
        )
        # Where somebody else fetched too, the gaps are not those between our entries.
        if known <= 0 or not expected or elapsed_s >= LONGEST_GAP_S:
            return Reading(None, buffered)
        # Of more than 100 gaps the last 100 stand for all.
        gap_s = sum(gaps_us[-known:]) * 1e-6 * min(new, steps) / known
        return Reading(min(max(elapsed_s - gap_s, 0.0), elapsed_s), buffered)


class FetchLatencyMeter:
    """Has tf.data itself add up how long fetches take, for pipelines without a model.

    Before the first fetch the iterator is made anew over the same dataset with a measuring stage
    on top. The step function and its graph stay as they are, and so do the elements.

    Args:
        iterator: A `tf.data.Iterator` from which nothing was fetched yet.
        steps_per_execution: Steps in one call. Beyond one, fetching may overlap compute.

    Raises:
        Exception: If the iterator cannot be made anew without changing its elements.
    """

    mechanism = "fetch latency"

    def __init__(self, iterator: Any, steps_per_execution: int) -> None:
        self.confidence: Confidence = "exact" if steps_per_execution == 1 else "upper bound"
        self._total_s = time_fetches(iterator)
        self._before_s = 0.0

    def start(self, entry_s: float) -> None:
        """Begins a stretch."""
        self._before_s = self._total_s()

    def read(self, entry_s: float, steps: int, *, raised: bool) -> Reading:
        """Ends the stretch and begins the next one."""
        before_s, self._before_s = self._before_s, self._total_s()
        return Reading(self._before_s - before_s)


class RequestMeter:
    """Adds up the time from asking for batches to having them, where both can be seen.

    `Model.predict` fetches outside its step function: callbacks see the request, and the step
    function's entry is the answer. What callbacks further down the list do meanwhile is in it.

    Args:
        now: The clock, in seconds.
    """

    mechanism = "timed fetch"
    confidence: Confidence = "upper bound"

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._requested_s: float | None = None
        self._waited_s = self._before_s = 0.0

    def requested(self) -> None:
        """Batches are asked for."""
        self._requested_s = self._now()

    def fetched(self) -> None:
        """The batches are there."""
        if self._requested_s is not None:
            self._waited_s += self._now() - self._requested_s

    def start(self, entry_s: float) -> None:
        """Begins a stretch."""
        self._before_s = self._waited_s

    def read(self, entry_s: float, steps: int, *, raised: bool) -> Reading:
        """Ends the stretch and begins the next one."""
        before_s, self._before_s = self._before_s, self._waited_s
        return Reading(self._waited_s - before_s)


def choose_meter(iterator: Any, steps_per_execution: int) -> Meter | str:
    """Returns the best meter for an iterator from which nothing was fetched, or why none fits."""
    reasons = []
    for meter in (PipelineModelMeter, FetchLatencyMeter):
        try:
            return meter(iterator, steps_per_execution)
        except Exception as error:
            reasons.append(f"{meter.mechanism}: {error or type(error).__name__}")
    return "; ".join(reasons)
