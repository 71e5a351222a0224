"""Reads the placement of one training step, with causes of fallbacks and its Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from keras_gpukit.errors import failure
from keras_gpukit.frameworks import tf_runtime
from keras_gpukit.frameworks.older_keras import calls_are_numbered
from keras_gpukit.frameworks.tf_functions import python_function, traces_of
from keras_gpukit.layer_names import LayerNames, is_backward, layer_names
from keras_gpukit.profiling.placement import graphs
from keras_gpukit.profiling.placement.aggregation import make_record
from keras_gpukit.profiling.placement.copies import (
    Shapes,
    infer_shapes,
    python_bytes,
    python_inputs,
    read_sent,
    sent_outputs,
)
from keras_gpukit.profiling.placement.operation_names import (
    operation_kernels,
    operation_name,
    short_device,
    xla_refuses,
)
from keras_gpukit.records.placement import (
    PYTHON_OPERATIONS,
    PlacementRecord,
    PythonFunction,
    PythonRole,
    StepOperations,
)
from keras_gpukit.rules.compute.placement_causes import Surroundings

_LOSS = "compile_loss"


def python_functions(
    graph: Any, layers: LayerNames, metrics: Collection[str]
) -> tuple[PythonFunction, ...]:
    """Returns the functions that the operations of a traced step call, without gradients.

    `metrics` are those that `compile` got. Keras opens no scope for them, so of an operation
    without a scope they are the likely place.
    """
    found = []
    inner = (node for function in graph.library.function for node in function.node_def)
    for node in chain(graph.node, inner):
        name = operation_name(node.name)
        if node.op not in PYTHON_OPERATIONS or is_backward(name):
            continue
        with suppress(Exception):  # TensorFlow's registry is private
            function = inspect.unwrap(python_function(node.attr["token"].s))
            code = function.__code__
            role, part = _caller(name, layers, metrics)
            place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            found.append(PythonFunction(function.__name__, place, role, part))
    return tuple(dict.fromkeys(found))


def _caller(
    name: str, layers: LayerNames, metrics: Collection[str]
) -> tuple[PythonRole, str | None]:
    scope, _, rest = name.partition("/")
    if scope.startswith(_LOSS):
        return "loss", rest.partition("/")[0] if "/" in rest else None
    if (layer := layers.of(name)) is not None:
        return "layer", layer.rsplit("/", 1)[-1]
    if metrics and not rest:
        return "metric", next(iter(metrics)) if len(metrics) == 1 else None
    return "step", None


# The runtime builds the graphs of a train function once, so a later fit of the same model has none
# to collect. Clearing the runtime's kernel cache would rebuild them, but it would also restart the
# random numbers of stateful operations. So the record is kept as long as the train function lives.
_known: WeakKeyDictionary[Any, PlacementRecord] = WeakKeyDictionary()
_EAGER = "eager steps have no graph; compile(run_eagerly=False) makes one"
_TRACE_IS_ON = (
    "tf.summary.trace_on collects the graphs of this step, and reading them would take them away "
    "from it"
)
_NOT_PARTITIONED = "TensorFlow's graphs of the first step lack the part that says where it ran"
_MADE_BEFORE = PlacementRecord(
    unknown_because=(
        "the step failed, or an earlier fit had built its graph: model.compile(...) rebuilds it"
    )
)


class PlacementUnknownError(Exception):
    """Placement cannot be read; the message says why. `PlacementProbe` always catches it."""


class PlacementProbe:
    """Watches the first training step of a run.

    Call `start` right before the step and `stop` right after it, also if the step raised, both from
    the thread of the step. Neither method raises, and nothing stays enabled after `stop`. Losses,
    weights and random numbers of the step are the same as without the probe.

    The model has its train function. A wrapper around that must set `__wrapped__`, as
    `functools.wraps` does: a later run needs it to find the record of an earlier one.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._unknown: PlacementRecord | None
        self._unknown = PlacementRecord(unknown_because="start() was not called")

    def start(self) -> None:
        """Starts collecting the graphs of functions that run for the first time."""
        try:
            if self._model.run_eagerly:
                raise PlacementUnknownError(_EAGER)
            if tf_runtime.is_summary_trace_on():
                raise PlacementUnknownError(_TRACE_IS_ON)
            tf_runtime.enable_graph_collection()
            self._unknown = None
        except Exception as error:
            self._unknown = _unknown(error)

    def stop(self, examples: Callable[[], int | None] = lambda: None) -> PlacementRecord:
        """Stops watching, and returns the placement.

        `examples` returns the number of examples in the watched call of the train function, over
        all its steps and replicas; without it, the size of copies of the batch is unknown.
        """
        if self._unknown is not None:
            return self._unknown
        try:
            step = graphs.find_step(tf_runtime.take_collected_graphs())
            function = inspect.unwrap(self._model.train_function)
            if step is None and function in _known:
                return _known[function]
            step = step or self._compiled_step()
            if step is None:
                return _MADE_BEFORE
            if not step.partition_graphs:
                raise PlacementUnknownError(_NOT_PARTITIONED)
            ran = _with_sizes(graphs.read_step(step), step, _batch_size(self._model, examples()))
            around = _surroundings(self._model)
            called = python_functions(
                step.pre_optimization_graph, around.layers, _metrics(self._model)
            )
            record = make_record(ran, around, operation_kernels, xla_refuses)
            _known[function] = record = replace(record, python=called)
            return record
        except Exception as error:
            return _unknown(error)

    def _compiled_step(self) -> Any | None:
        """Returns the graphs of a step that XLA compiles and Python calls; None for another."""
        import tensorflow as tf

        traces = traces_of(self._model.train_function) if self._model.jit_compile else ()
        if not traces or self._model.steps_per_execution > 1:
            return None
        device = "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"
        return graphs.call_compiled(traces[0], device)


def _with_sizes(ran: StepOperations, step: Any, batch_size: int | None) -> StepOperations:
    """Adds the tensors that are copied, and the bytes that Python functions take and return."""
    graph, partitions = step.post_optimization_graph, step.partition_graphs
    outputs = sent_outputs(partitions) | python_inputs(graph)
    shapes: Shapes = {}
    if outputs:
        # If shapes are unknown, the copies are still known, but not their sizes.
        with suppress(Exception):
            shapes = infer_shapes(graph, outputs, batch_size)
    return replace(
        ran,
        sent=read_sent(partitions, shapes),
        python_bytes=python_bytes(graph, shapes, batch_size),
    )


def _batch_size(model: Any, examples: int | None) -> int | None:
    """Returns the examples in the batch of one replica; None if unknown or not all equal."""
    batches = model.steps_per_execution * model.distribute_strategy.num_replicas_in_sync
    return examples // batches if examples and not examples % batches else None


def _metrics(model: Any) -> tuple[str, ...]:
    """Returns the names of the metrics that `compile` got, without the mean of the loss."""
    with suppress(Exception):
        compiled = next(metric for metric in model.metrics if hasattr(metric, "metrics"))
        return tuple(metric.name for metric in compiled.metrics)
    return ()


def _surroundings(model: Any) -> Surroundings:
    import tensorflow as tf

    return Surroundings(
        devices=tuple(short_device(device.name) for device in tf.config.list_logical_devices()),
        knows_gpu_kernels=bool(tf.sysconfig.get_build_info()["is_cuda_build"]),
        has_strategy=(
            tf.distribute.has_strategy()
            or model.distribute_strategy is not tf.distribute.get_strategy()
        ),
        layers=layer_names(model, numbered=calls_are_numbered()),
    )


def _unknown(error: Exception) -> PlacementRecord:
    if isinstance(error, PlacementUnknownError):
        return PlacementRecord(unknown_because=str(error))
    import tensorflow as tf

    because = failure(f"reading the placement from TensorFlow {tf.__version__}", error)
    return PlacementRecord(unknown_because=because)
