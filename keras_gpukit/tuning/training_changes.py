"""Proposes the changes that can be tried on a `fit`, from its model, its data and its step time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_gpukit.frameworks.tf_datasets import kind, number
from keras_gpukit.input.pipelines.functions import BATCHES
from keras_gpukit.input.pipelines.rebuilding import spine
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.reports.units import duration
from keras_gpukit.rules.compute.host_cpu import POOL
from keras_gpukit.rules.compute.precision import choose_policy
from keras_gpukit.sensors.allocator import has_pool
from keras_gpukit.tuning.sources import DEFAULT_BATCH_SIZE

EXECUTION_S = 0.1
"""Duration of an execution to aim at. Starting one takes about a millisecond. Our choice."""
LONGEST_STEP_S = 0.03
"""Longer steps gain too little from fewer executions. Our choice."""
MOST_STEPS = 256
LARGER = 4
"""Factor from one batch size to the next that is tried."""


@dataclass(frozen=True)
class TrainingChange:
    """A change of how a model trains, which a trial process makes from outside.

    Attributes:
        name: One of `keras_gpukit.rules.gains.CHANGES`.
        policy: Dtype policy to set before the model is built; None to leave it.
        variable: Environment variable to set, as "NAME=value"; "" for none.
        tunes_input: Whether `tune_input` changes the input.
        blocked: Why the change cannot be tried; "" if it can.
        by_default: Whether it is tried unless the user asks for other changes.
    """

    name: str
    description: str
    policy: str | None = None
    compiled: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    examples: int | None = None
    variable: str = ""
    tunes_input: bool = False
    blocked: str = ""
    note: str = ""
    by_default: bool = True


def propose(
    model: Any, arguments: Mapping[str, Any], step_s: float, gpus: tuple[GPUInfo, ...]
) -> tuple[TrainingChange, ...]:
    """Returns all changes for a `fit`; those that cannot be tried have the reason."""
    return (
        _input(arguments),
        *_execution(model),
        _steps_per_execution(model, arguments, step_s),
        _precision(model, gpus),
        _memory_pool(gpus),
        batch_size(batch_size_of(arguments), examples_of(arguments)),
    )


def _input(arguments: Mapping[str, Any]) -> TrainingChange:
    import keras
    import tensorflow as tf

    is_pipeline = isinstance(arguments["x"], (tf.data.Dataset, keras.utils.PyDataset))
    blocked = "" if is_pipeline else "the input is neither a tf.data pipeline nor a PyDataset"
    description = "tune the input: see tune_input"
    return TrainingChange("input", description, tunes_input=True, blocked=blocked)


def _execution(model: Any) -> list[TrainingChange]:
    in_graph = {"run_eagerly": False} if model.run_eagerly else {}
    found = [TrainingChange("graph", "run steps as a graph", compiled=in_graph)] if in_graph else []
    if getattr(model, "jit_compile", False):
        made = {"jit_compile": False}
        return [*found, TrainingChange("no-jit", "do not compile with XLA", compiled=made)]
    made = {"jit_compile": True, **in_graph}
    several = model.distribute_strategy.num_replicas_in_sync > 1
    blocked = "XLA cannot compile a step that spans devices" if several else ""
    jit = TrainingChange("jit", "compile the steps with XLA", compiled=made, blocked=blocked)
    return [*found, jit]


def _steps_per_execution(model: Any, arguments: Mapping[str, Any], step_s: float) -> TrainingChange:
    name, steps = "steps-per-execution", _steps(arguments)
    count = 2 ** math.ceil(math.log2(max(EXECUTION_S / step_s, 2.0)))
    count = min(count, MOST_STEPS, steps or MOST_STEPS)
    blocked = ""
    if model.steps_per_execution > 1:
        blocked = f"{model.steps_per_execution} steps make one execution already"
    elif model.run_eagerly:
        blocked = "steps run eagerly"
    elif step_s > LONGEST_STEP_S:
        blocked = f"starting a step takes little of its {duration(step_s)}"
    elif count < 2:
        blocked = "an epoch has one step"
    return TrainingChange(
        name,
        f"run {count} steps for each return to Python",
        compiled={"steps_per_execution": count},
        blocked=blocked,
        note=f"callbacks are called once per {count} steps",
    )


def _precision(model: Any, gpus: tuple[GPUInfo, ...]) -> TrainingChange:
    policy, reason = choose_policy(gpus)
    is_advised = policy != "float32"
    policy = policy if is_advised else "mixed_bfloat16"
    now = model.dtype_policy.name
    return TrainingChange(
        "mixed-precision",
        f"compute in 16 bits: {policy}",
        policy=policy,
        blocked=f"the model's policy is {now}" if now.startswith("mixed_") else "",
        note="" if is_advised else reason,
        by_default=is_advised,
    )


def _memory_pool(gpus: tuple[GPUInfo, ...]) -> TrainingChange:
    return TrainingChange(
        "memory-pool",
        "keep the memory of freed tensors on the host",
        variable=POOL,
        blocked="this training does so already" if has_pool() else "",
        note="with a GPU it concerns only how batches are made" if gpus else "",
        by_default=not gpus,
    )


def batch_size(now: int | None, examples: int | None) -> TrainingChange:
    """Returns a change to the next larger batch size; both are None if they are unknown."""
    if now is None:
        blocked = "the data comes in batches of a size that cannot be changed from outside"
        return TrainingChange("batch-size", "larger batches", blocked=blocked)
    larger = min(LARGER * now, examples or LARGER * now)
    return TrainingChange(
        "batch-size",
        f"{larger:,} examples per batch",
        batch_size=larger,
        examples=examples,
        blocked="" if larger > now else "a batch has all examples",
        note="fewer updates per epoch: adapt the learning rate",
    )


def batch_size_of(arguments: Mapping[str, Any]) -> int | None:
    """Returns the examples per batch of a `fit`; None if they cannot be changed."""
    import keras
    import tensorflow as tf

    data = arguments["x"]
    if isinstance(data, tf.data.Dataset):
        last = next((stage for stage in spine(data) if kind(stage) in BATCHES), None)
        is_plain = last is not None and kind(last) != "PaddedBatch"
        return number(last, "batch_size") if is_plain else None
    if isinstance(data, keras.utils.PyDataset) or _rows(data) is None:
        return None
    return arguments["batch_size"] or DEFAULT_BATCH_SIZE


def examples_of(arguments: Mapping[str, Any]) -> int | None:
    """Returns the examples in an epoch of a `fit` on arrays; None if unknown."""
    rows = _rows(arguments["x"])
    return None if rows is None else int(rows * (1 - (arguments["validation_split"] or 0.0)))


def _rows(data: Any) -> int | None:
    import keras

    shapes = [getattr(array, "shape", None) for array in keras.tree.flatten(data)]
    if not shapes or not shapes[0]:
        return None
    return int(shapes[0][0])


def _steps(arguments: Mapping[str, Any]) -> int | None:
    """Returns the steps in an epoch; None if unknown."""
    if arguments["steps_per_epoch"] is not None:
        return int(arguments["steps_per_epoch"])
    rows = examples_of(arguments)
    size = arguments["batch_size"] or DEFAULT_BATCH_SIZE
    return None if rows is None else math.ceil(rows / size)
