"""Works out what the steps of a call need: the memory, by a prediction, and the operations.

The prediction traces the step once more, which takes about as long as the first step of the run. By
default, the step is traced only once the run has taken 100 times longer: after the first epoch for
which this is true, so a run in progress shows the prediction. Eager steps are traced when the run
is over: each step may change Python objects of the script, and so would tracing it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from keras_gpukit.errors import Guard, failure
from keras_gpukit.frameworks.tf_functions import step_graph
from keras_gpukit.layer_names import layers_in
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.monitoring.call_frame import batch_of
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.flops import count_step
from keras_gpukit.records.machine import MemoryRecord
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.records.run import StepFlops
from keras_gpukit.sensors.host import measured_ceilings

When = Literal["auto"] | bool
_EAGER = "eager steps are predicted when the run is over"
MOST_OF_THE_RUN = 0.01
"""Maximum share of the run time that tracing the step again may take; our choice."""
TRACED_LAYER_S = 0.05
"""Estimated time of tracing a layer with its gradients. It is needed if the model was traced before
this run, so that its first step does not show the time. MobileNetV2 and ResNet50 took 45 and 53 ms
per layer on a busy core, three quarters and five sixths of their first step."""


class PredictionWatch:
    """Predicts the memory of steps once, and writes the prediction as soon as it is known."""

    def __init__(self, session: Session, when: When, other_bytes: Mapping[str, int]) -> None:
        self._session = session
        self._when: When = when
        self._other_bytes = other_bytes
        self._causes: MemoryRecord | None = None
        self._guard = Guard("Predicting memory", "It is predicted when the run is over.")
        if session.phase == "fit":
            session.steps.on_epoch_ended(self._epoch_ended)

    def causes(self) -> MemoryRecord:
        """Returns the model's memory, and the prediction for its steps or the reason for none.

        Must be called while the call's `fit` is still on the stack.
        """
        known = self._causes
        if known is None or known.prediction is None:
            known = self._causes = self._predicted()
        return known

    def _epoch_ended(self) -> None:
        known = self._causes
        # By default, memory is predicted only if a device's memory is measured.
        is_measured = self._when != "auto" or self._other_bytes
        is_settled = known and (known.prediction or not is_measured)
        if is_settled or self._guard.failed_because is not None:
            return
        began_s = time.perf_counter()
        with self._guard:
            because = self._because() or (_EAGER if self._session.model.run_eagerly else None)
            if because is None:
                self._causes = self._predicted()
            elif known is None:
                self._causes = replace(self._held(), not_predicted_because=because)
            if self._causes is not known:
                self._session.output.write_record("memory_by_cause", self._causes)
        self._session.cost.add(time.perf_counter() - began_s, once=True)

    def _predicted(self) -> MemoryRecord:
        because = self._because()
        predicted = None
        if because is None:
            predicted, because = _predict(self._session.model, self._other_bytes)
        held = self._causes or self._held()
        if predicted is not None and predicted.low is not None:
            # Eager steps leave no trace in which all of their variables can be found.
            of_trace = predicted.low
            held = MemoryRecord(
                weights_bytes=of_trace.weights_bytes, slots_bytes=of_trace.slots_bytes
            )
        return replace(held, prediction=predicted, not_predicted_because=because)

    def _held(self) -> MemoryRecord:
        weights_bytes, slots_bytes = held_between_steps(self._session.model)
        return MemoryRecord(weights_bytes=weights_bytes, slots_bytes=slots_bytes)

    def _because(self) -> str | None:
        """Returns why nothing is predicted; None if something is."""
        session, model, when = self._session, self._session.model, self._when
        if when is False:
            return "it was not asked for"
        if session.phase != "fit" or session.ending != "completed":
            return "only a fit that came to its end is predicted"
        if getattr(model.distribute_strategy, "num_replicas_in_sync", 1) > 1:
            return "steps on several replicas are not predicted"
        if when == "auto" and not self._other_bytes:
            return "no device is measured"
        wall, layers = session.steps.wall, sum(1 for _ in layers_in(model))
        tracing_s = max(wall.spent_s("first step"), TRACED_LAYER_S * layers)
        if when == "auto" and tracing_s > MOST_OF_THE_RUN * wall.total_s:
            return (
                f"tracing again would take over {100 * MOST_OF_THE_RUN:.0f} % of the run; "
                "predict_memory() or predict=True do it"
            )
        return None


def _predict(
    model: Any, other_bytes: Mapping[str, int]
) -> tuple[MemoryPrediction | None, str | None]:
    spec, size = batch_of("fit")
    if spec is None or size is None:
        return None, "the size of its batches is not known"
    try:
        with untouched(model, values=False):
            return StepMemory(model, spec, next(iter(other_bytes.values()), 0)).predict(size), None
    except Exception as error:
        return None, f"the step could not be traced again ({type(error).__name__})"


def count_flops(session: Session) -> None:
    """Records the operations of a `fit` with a GPU once, after its step has been traced.

    TensorFlow then still optimizes the graph or compiles, for which it does not need Python.
    """
    _, batch_size = batch_of("fit")
    is_known = False

    def poll() -> None:
        nonlocal is_known
        if is_known:
            return
        began_s = time.thread_time()
        found = flops_of_step(session.model, batch_size)
        if found is not None:
            is_known = True
            ceilings = measured_ceilings(session.environment.gpus[0].name or "")
            session.output.write_record("flops", replace(found, ceilings=ceilings))
            session.sampling.once_s += time.thread_time() - began_s

    session.sampling.every_second("the operations of a step", poll)


def flops_of_step(model: Any, batch_size: int | None) -> StepFlops | None:
    """Returns the operations of a model's training step; None if it has not been traced yet."""
    if model.run_eagerly:
        return StepFlops(unknown_because="eager steps have no graph")
    replicas = getattr(model.distribute_strategy, "num_replicas_in_sync", 1)
    try:
        graph = step_graph(model.train_function)
        return graph and count_step(graph, batch_size and batch_size // replicas)
    except Exception as error:
        return StepFlops(unknown_because=failure("counting them", error))
