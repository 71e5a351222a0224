"""Predicts what the steps of a call need, when the call is over: next to what was measured.

The step is traced once more for it. That takes about as long as the first step of the run did, so
by default it is done only after runs that were a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from keras_gpukit.layer_names import layer_names
from keras_gpukit.measuring.untouched import untouched
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.pipelines.structure import batch_size as batch_size_of
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.watching.call_frame import batch_of_fit, dataset_of_fit
from keras_gpukit.watching.session import Session

When = Literal["auto"] | bool
MOST_OF_THE_RUN = 0.01
"""Of the run's time, what tracing again may take; our choice."""
TRACED_LAYER_S = 0.05
"""Tracing a layer with its gradients: of a model that was traced before this run, the first step
does not say. MobileNetV2 and ResNet50 took 45 and 53 ms a layer on a busy core, three quarters and
five sixths of their first step."""


def prediction_of(
    session: Session, when: When, held_bytes: Mapping[str, int]
) -> tuple[MemoryPrediction | None, str | None]:
    """Returns what a step of the call that ends needs, or why that is not predicted.

    Args:
        session: The call, whose `fit` is still on the stack.
        when: False never; "auto" after long runs on a device that is measured.
        held_bytes: By measured device, what was held before the first step.
    """
    because = _not_predicted_because(session, when, held_bytes)
    if because is not None:
        return None, because
    spec, size = batch_of_fit()
    dataset = dataset_of_fit()
    if size is None and dataset is not None:
        size = batch_size_of(dataset)
    if spec is None or size is None:
        return None, "the size of its batches is not known"
    model = session.model
    other_bytes = max(next(iter(held_bytes.values()), 0) - sum(held_between_steps(model)), 0)
    try:
        with untouched(model, values=False):
            return StepMemory(model, spec, other_bytes).predict(size), None
    except Exception as error:
        return None, f"the step could not be traced again ({type(error).__name__})"


def _not_predicted_because(
    session: Session, when: When, held_bytes: Mapping[str, int]
) -> str | None:
    model = session.model
    if when is False:
        return "it was not asked for"
    if session.phase != "fit" or session.ending != "completed":
        return "only a fit that came to its end is predicted"
    if getattr(model.distribute_strategy, "num_replicas_in_sync", 1) > 1:
        return "steps on several replicas are not predicted"
    if when == "auto" and not held_bytes:
        return "no device is measured"
    tracing_s = max(session.wall.spent_s("first step"), TRACED_LAYER_S * len(layer_names(model)))
    if when == "auto" and tracing_s > MOST_OF_THE_RUN * session.wall.total_s:
        return (
            f"tracing the step again would have taken more than {100 * MOST_OF_THE_RUN:.0f} % of "
            "the run's time; predict_memory() or predict=True do it"
        )
    return None
