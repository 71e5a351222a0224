"""Reads the placement of one training step, and finds why operations are on the CPU."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from keras_gpukit.errors import failure
from keras_gpukit.layer_names import layer_names
from keras_gpukit.placement.collectors import (
    EagerCollector,
    GraphCollector,
    PlacementUnknownError,
)
from keras_gpukit.placement.names import short_device
from keras_gpukit.placement.registry import operation_kernels, xla_refuses
from keras_gpukit.placement.summing_up import Surroundings, make_record
from keras_gpukit.records.placement import PlacementRecord

# The runtime builds the graphs of a train function once, so a later fit of the same model has none
# to collect. Clearing the runtime's kernel cache would rebuild them, but it would also restart the
# random numbers of stateful operations. So the record is kept as long as the train function lives.
_known: WeakKeyDictionary[Any, PlacementRecord] = WeakKeyDictionary()


_MADE_BEFORE = PlacementRecord(
    unknown_because=(
        "the step failed, or an earlier fit had built its graph: model.compile(...) rebuilds it"
    )
)


class PlacementProbe:
    """Watches the first training step of a run.

    Call `start` right before the step and `stop` right after it, also if the step raised, both from
    the thread of the step. Neither method raises, and nothing stays enabled after `stop`. Losses,
    weights and random numbers of the step are the same as without the probe.

    Args:
        model: A compiled Keras model that has its train function. A wrapper around the train
            function must set `__wrapped__`, as `functools.wraps` does. A later run needs it to find
            the record of an earlier run.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._collector: EagerCollector | GraphCollector | None = None
        self._unknown = PlacementRecord(unknown_because="start() was not called")

    def start(self) -> None:
        """Starts watching the step."""
        try:
            collector = _choose_collector(self._model)
            collector.start()
            self._collector = collector
        except Exception as error:
            self._unknown = _unknown(error)

    def stop(self, examples: Callable[[], int | None] = lambda: None) -> PlacementRecord:
        """Stops watching, and returns the placement.

        Args:
            examples: Returns the number of examples in the watched call of the train function, over
                all its steps and replicas; None if unknown. Without it, the size of copies of the
                batch is unknown.
        """
        collector, self._collector = self._collector, None
        if collector is None:
            return self._unknown
        try:
            reading = collector.stop(lambda: _batch_size(self._model, examples()))
            function = inspect.unwrap(self._model.train_function)
            if reading is None:
                return _known.get(function, _MADE_BEFORE)
            _known[function] = record = make_record(
                reading, _surroundings(self._model), operation_kernels, xla_refuses
            )
            return record
        except Exception as error:
            return _unknown(error)


def _choose_collector(model: Any) -> EagerCollector | GraphCollector:
    import keras

    if keras.backend.backend() != "tensorflow":
        raise PlacementUnknownError(
            f"placement is read from TensorFlow, and Keras runs on {keras.backend.backend()} here"
        )
    if not model.run_eagerly:
        return GraphCollector()
    if model.distribute_strategy.num_replicas_in_sync > 1:
        raise PlacementUnknownError(
            "an eager step on several replicas runs in threads of its own, which can't be watched"
        )
    return EagerCollector()


def _batch_size(model: Any, examples: int | None) -> int | None:
    """Returns the examples in the batch of one replica; None if unknown or not all equal."""
    batches = model.steps_per_execution * model.distribute_strategy.num_replicas_in_sync
    return examples // batches if examples and not examples % batches else None


def _surroundings(model: Any) -> Surroundings:
    import tensorflow as tf

    return Surroundings(
        devices=tuple(short_device(each.name) for each in tf.config.list_logical_devices()),
        knows_gpu_kernels=bool(tf.sysconfig.get_build_info()["is_cuda_build"]),
        has_strategy=(
            tf.distribute.has_strategy()
            or model.distribute_strategy is not tf.distribute.get_strategy()
        ),
        layers=layer_names(model),
    )


def _unknown(error: Exception) -> PlacementRecord:
    if isinstance(error, PlacementUnknownError):
        return PlacementRecord(unknown_because=str(error))
    import tensorflow as tf

    because = failure(f"reading the placement from TensorFlow {tf.__version__}", error)
    return PlacementRecord(unknown_because=because, error=f"{type(error).__name__}: {error}")
