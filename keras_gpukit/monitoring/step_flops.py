"""Counts the operations of a run's step once, on the sampling thread, as soon as it is traced."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from keras_gpukit.errors import failure
from keras_gpukit.frameworks.tf_functions import step_graph
from keras_gpukit.monitoring.call_frame import batch_of
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.flops import count_step
from keras_gpukit.records.run import StepFlops
from keras_gpukit.sensors.host import measured_ceilings

_EAGER = "eager steps have no graph"


def count_flops(session: Session) -> None:
    """Records the operations of a `fit` with a GPU, once its step has been traced.

    TensorFlow then still optimizes the graph or compiles, for which it does not need Python.
    """
    _, batch_size = batch_of("fit")
    is_known = False

    def look() -> None:
        nonlocal is_known
        if is_known:
            return
        began_s = time.thread_time()
        found = _of_step(session.model, batch_size)
        if found is not None:
            is_known = True
            ceilings = measured_ceilings(session.environment.gpus[0].name or "")
            session.output.record("flops", replace(found, ceilings=ceilings), session.step)
            session.sampled_once(time.thread_time() - began_s)

    session.every_second("the operations of a step", look)


def _of_step(model: Any, batch_size: int | None) -> StepFlops | None:
    """Returns the operations of a model's training step; None if it has not been traced yet."""
    if model.run_eagerly:
        return StepFlops(unknown_because=_EAGER)
    replicas = getattr(model.distribute_strategy, "num_replicas_in_sync", 1)
    try:
        graph = step_graph(model.train_function)
        return graph and count_step(graph, batch_size and batch_size // replicas)
    except Exception as error:
        return StepFlops(unknown_because=failure("counting them", error))
