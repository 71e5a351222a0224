"""Measures the input wait with tf.data's own model of the pipeline."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_gpukit.frameworks.tf_datasets import (
    check_model,
    has_model,
    host_iterator,
    parse_model,
    read_model,
)
from keras_gpukit.input.wait.hidden_wait import HiddenWait
from keras_gpukit.input.wait.meters import (
    CallWindow,
    NotMeasurable,
    PipelineStart,
    Times,
    WaitReading,
)
from keras_gpukit.records.steps import Confidence, Mechanism

# tf.data leaves out longer gaps and keeps at most so many (tensorflow/core/framework/model.cc).
LONGEST_GAP_S = 10.0
GAPS_KEPT = 100


class PipelineModelMeter:
    """Reads the gaps between fetches from tf.data's own model of the pipeline.

    tf.data keeps the last 100 gaps: the times from the end of one fetch to the start of the next.
    The rest of the time between two entries was spent fetching. As long as tf.data has dropped no
    gap, a later reading shows everything that one at the pipeline's start would have shown.

    Without `on_reading`, which gets each reading, the model is not read at the pipeline's start.
    This does not work for several steps per execution: tf.data would drop some gaps of an execution
    before the next reading. `hidden` estimates which part of the fetching hides behind compute;
    None if the steps of a call run strictly one after the other. Raises if the pipeline has no
    model, or an execution has more steps than tf.data keeps gaps.
    """

    mechanism: Mechanism = "pipeline model"

    def __init__(
        self,
        iterator: Any,
        steps_per_execution: int,
        *,
        on_reading: Callable[[Any], None] | None = None,
        hidden: HiddenWait | None = None,
    ) -> None:
        if steps_per_execution > GAPS_KEPT:
            raise NotMeasurable(f"an execution has more than {GAPS_KEPT} steps")
        self.confidence: Confidence = "exact" if hidden is None else "sampled"
        self._steps_per_execution = steps_per_execution
        self._hidden = hidden
        self._source = weakref.ref(iterator)
        self.reads_early = on_reading is not None
        self._on_reading = on_reading or (lambda reading: None)
        self._first_reading: Any = None
        # Not kept alive: freeing a pipeline takes time, which would look like our overhead.
        host = host_iterator(iterator)
        if not has_model(host):
            raise NotMeasurable("autotuning is off, so tf.data keeps no model of the pipeline")
        self._iterator = weakref.ref(host)
        self._fetched = 0
        self._gaps_us: list[int] = []
        self._read_us: list[int] = []  # the gaps in the latest reading
        self._buffer: int | None = None
        check_model(host)

    def waited_s(self) -> None:
        """Returns None, since a wait is unknown until the next fetch."""

    def take(self) -> Any:
        """Reads the model, as `read_model` returns it; returns None if the pipeline is gone."""
        if self._hidden is not None:
            self._calibrate(self._hidden)
        iterator = self._iterator()
        if iterator is None:
            return None
        reading = read_model(iterator)
        self._on_reading(reading)
        if self._first_reading is None:
            self._first_reading = reading
        return reading

    def start(self, taken: Any, first: CallWindow) -> PipelineStart | None:
        """Starts a window; returns the wait for the first batch, or None if unknown."""
        is_late = taken is None
        if is_late:
            taken = self.take() if self._first_reading is None else self._first_reading
        if taken is None:
            return None  # the pipeline is gone, as `wait_of` will find
        model = parse_model(taken)
        executions = 2 * self._steps_per_execution
        self._fetched = executions if is_late else _fetched(model)
        self._buffer = _last_buffer(model)
        self._gaps_us = list(model.gap_times[: executions - 1] if is_late else model.gap_times)
        self._read_us = list(self._gaps_us)
        # Each fetch but the first has a gap before it; one that found no data has one, too.
        has_all = len(model.gap_times) >= _fetched(model) - (0 if is_late else 1)
        gaps_s = np.array(self._gaps_us) * 1e-6
        inner = self._steps_per_execution - 1
        if len(gaps_s) < 2 * inner + 1 or (first.duration_s >= LONGEST_GAP_S and not has_all):
            return None
        known_s = gaps_s[: len(gaps_s) - inner]
        return PipelineStart(
            wait_s=max(first.duration_s - float(known_s.sum()), 0.0),
            shuffle_fraction=None if is_late else _shuffle_fraction(model),
        )

    def wait_of(self, taken: Sequence[Any], window: CallWindow) -> WaitReading:
        """Returns the wait of a window, and starts the next one."""
        if any(model is None for model in taken):
            because = "the pipeline was deleted before its model was read"
            return WaitReading(None, unknown_because=because)
        models = [parse_model(model) for model in taken]
        buffered = None
        if self._buffer is not None:
            buffered = float(models[-1].nodes[self._buffer].buffered_elements)
        gaps_s, has_all = self._gaps_between(window, models)
        if window.duration_s >= LONGEST_GAP_S <= window.durations_s.max() and not has_all:
            because = "a call took 10 s or more, and tf.data records no gaps that long"
            return WaitReading(None, None, buffered, because)
        if gaps_s is None:
            because = "other code fetched batches from the same iterator"
            return WaitReading(None, None, buffered, because)
        if self._hidden is not None:
            return self._hidden.stall_in(window, gaps_s, buffered)
        calls = len(gaps_s)
        waits_s = window.durations_s[-calls:] - gaps_s.sum(axis=1)
        # If tf.data has dropped some gaps, the last calls stand for all.
        wait_s = window.calls / calls * float(waits_s.sum())
        return WaitReading(
            min(max(wait_s, 0.0), window.duration_s),
            waits_s if calls == window.calls else None,
            buffered,
        )

    def _calibrate(self, hidden: HiddenWait) -> None:
        try:
            hidden.calibrate(self._source())
        except Exception:
            # Only the whole wait is then known, including what hides behind compute.
            self._hidden, self.confidence = None, "upper bound"

    def _gaps_between(self, window: CallWindow, models: Sequence[Any]) -> tuple[Times | None, bool]:
        """Returns the seconds of the gap after each fetch of the window, or None.

        Also returns whether tf.data surely recorded each gap, so that a long call waited.

        The shape is (calls, steps per execution). If tf.data has dropped gaps, only the last calls
        have a row. None if no call has all its gaps, or if other code fetched from the iterator
        too, so that the gaps are not those between our entries.
        """
        gaps_us = self._gaps_us
        began, since, has_all = self._fetched, self._fetched, True
        for model in models[:-1]:
            fetched = _fetched(model)
            has_all &= self._goes_on(model, fetched - since)
            _extend(gaps_us, model, fetched - since)
            since = fetched
        last = models[-1]
        self._fetched = _fetched(last)
        an_execution = self._steps_per_execution
        # The call after the window has fetched too: the gaps after its own fetches do not count.
        fetched_after = self._fetched - began - an_execution * (window.calls - 1)
        spare, without_data = fetched_after - 1, 0
        if window.raised:
            # The fetch that found no more data, or whose step failed, adds a gap as well.
            if an_execution == 1 and fetched_after == 2:
                fetched_after, spare = 1, 1
            else:
                without_data += 1
        is_ours = 1 <= fetched_after <= an_execution
        if is_ours and fetched_after < an_execution:
            without_data += 1  # the loop within the call tried to fetch one more
        has_all &= self._goes_on(last, self._fetched - since + without_data)
        _extend(gaps_us, last, self._fetched - since + without_data)
        self._gaps_us = gaps_us[-GAPS_KEPT:]
        end = len(gaps_us) - spare - without_data
        calls = min(window.calls, end // an_execution)
        if not is_ours or calls <= 0:
            return None, has_all
        known_us = gaps_us[end - calls * an_execution : end]
        gaps_s = np.fromiter(known_us, np.float64, len(known_us)) * 1e-6
        return gaps_s.reshape(calls, an_execution), has_all

    def _goes_on(self, model: Any, new: int) -> bool:
        """Whether a reading has the gaps of the one before, and surely so many new ones."""
        before, self._read_us = self._read_us, list(model.gap_times)
        if new >= GAPS_KEPT or new > len(self._read_us):
            return False
        return (before + self._read_us[len(self._read_us) - new :])[-GAPS_KEPT:] == self._read_us


def _extend(gaps_us: list[int], model: Any, new: int) -> None:
    """Appends the new gaps; if tf.data has dropped some of them, removes all earlier gaps."""
    latest = model.gap_times
    if new > len(latest):
        gaps_us.clear()
    gaps_us.extend(latest[max(len(latest) - new, 0) :])


def _fetched(model: Any) -> int:
    return int(model.nodes[model.output].num_elements)


def _last_buffer(model: Any) -> int | None:
    """Returns the number of the last prefetch node if it holds batches; None without one."""
    number: int = model.output
    while True:
        node = model.nodes[number]
        if node.name.startswith("Prefetch"):
            return number
        # Before such a stage, a buffer holds single elements or those of one of several sources.
        if "Batch" in node.name or len(node.inputs) != 1:
            return None
        (number,) = node.inputs


def _shuffle_fraction(model: Any) -> float:
    """Returns the share of its input that a shuffle stage still buffers; the largest of several."""
    return max(
        (
            node.buffered_elements / (node.buffered_elements + node.num_elements)
            for node in model.nodes.values()
            if node.name.startswith("Shuffle") and node.buffered_elements > 0
        ),
        default=0.0,
    )
