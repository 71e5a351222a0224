"""`predict_memory`: predicts the memory that training a model needs, without training it."""

from __future__ import annotations

import reprlib
from dataclasses import replace
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose, check_whole, refuse
from keras_gpukit.frameworks.tf_datasets import batch_size as batch_size_of
from keras_gpukit.memory.model_state import held_by_others, optimizers_of
from keras_gpukit.memory.step_graph import build_by_tracing
from keras_gpukit.memory.step_memory import StepMemory
from keras_gpukit.memory.untouched import untouched
from keras_gpukit.records.memory import MemoryPrediction
from keras_gpukit.reports.memory import memory_view as render
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.sensors.devices import visible_gpus
from keras_gpukit.tuning.sources import check_arrays, check_model, check_one_device, fed_as


def predict_memory(
    model: Any,
    batch: Any,
    *,
    batch_size: int | None = None,
    limit_bytes: int | None = None,
    verbose: Verbose = "auto",
) -> MemoryPrediction:
    """Predicts the memory of training steps by cause: exact where possible, otherwise a range.

    It traces the training step, as `fit` does before its first step, and finds from the graph which
    tensors are held when. Every optimizer that the step updates counts. Nothing is trained and no
    batch is computed. The model is restored bit for bit, except that parts that were not built yet
    stay built.

    Args:
        model: A compiled model. Parts that are not built yet are built, as by `fit`.
        batch: Data as for `fit`: a `tf.data.Dataset` of batches; a `PyDataset`, whose first batch
            is made; or one batch of arrays or data frames, as `x` or as a tuple `(x, y)`.
        batch_size: Examples per batch, if different from `batch`. The arrays may then be a whole
            data set.
        limit_bytes: Memory that the device has for training. By default the maximum that TensorFlow
            may take of the first GPU.
        verbose: 0 prints nothing; 1, 2 and "auto" print the result.

    Returns:
        The prediction. With a limit, it includes the largest batch size whose tensors are predicted
        to find room in 90 % of it, as the allocator divides it. The note on an out-of-memory
        error uses the same rule.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If the model is not compiled, the model is on several replicas, or the batch
            size is unknown.

    Example:
        ```python
        prediction = gpukit.predict_memory(model, (x[:64], y[:64]))
        prediction.peak_bytes  # expected peak of training with 64 examples per batch
        ```
    """
    check_model(model)
    check_whole("batch_size", batch_size, optional=True)
    check_whole("limit_bytes", limit_bytes, optional=True)
    check_verbose(verbose)
    check_one_device(model, "predict a replica")
    spec, examples = _spec(batch)
    size = batch_size or examples
    if size is None:
        accepted = "given for a dataset without a known batch size"
        refuse("batch_size", accepted, batch_size, ValueError)
    prediction = predict_of_spec(model, spec, size, limit_bytes)
    if verbose:
        print_anywhere(render(prediction))
    return prediction


def predict_of_spec(
    model: Any, spec: Any, size: int, limit_bytes: int | None = None
) -> MemoryPrediction:
    """Predicts the memory of training steps from a batch's specification, and builds the model.

    The default of the limit is the maximum that TensorFlow may take of the device; memory already
    in use there then reduces the largest batch size.
    """
    import keras

    sensor = AllocatorSensor(visible_gpus(), reset_peak=False)
    own_device = limit_bytes is None and bool(sensor.devices)
    if own_device:
        limit_bytes = sensor.limit_bytes(sensor.devices[0])
    # Built parts are not unbuilt: TensorFlow would keep the memory, and `fit` would rebuild them.
    own_step = type(model).train_step is not keras.Model.train_step
    optimizers = optimizers_of(model) if own_step else ()
    if not all(part.built for part in (model, *model.layers, *optimizers)):
        build_by_tracing(model, spec)
    elif not own_step and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    # Read this before `untouched` makes its copies, since they may be in the same memory.
    other_bytes = held_by_others(model, sensor) if own_device else 0
    with untouched(model):
        memory = StepMemory(model, spec)
        prediction = memory.predict(size)
        memory.other_bytes = other_bytes
        if limit_bytes is not None:
            prediction = replace(
                prediction,
                limit_bytes=limit_bytes,
                fits_batch_size=_largest(memory, limit_bytes, size),
            )
    return prediction


def _spec(batch: Any) -> tuple[Any, int | None]:
    """Returns the specification of a batch, and its number of examples (None if unknown)."""
    import keras
    import tensorflow as tf

    if isinstance(batch, keras.utils.PyDataset):
        batch = batch[0]
    if isinstance(batch, tf.data.Dataset):
        spec = batch.element_spec
        sizes = {tensor.shape[0] for tensor in tf.nest.flatten(spec) if tensor.shape.rank}
        # The last batch may be smaller; then only the stage that makes batches has their size.
        return spec, sizes.pop() if len(sizes) == 1 and None not in sizes else batch_size_of(batch)
    if isinstance(batch, (tuple, list, dict)) or hasattr(batch, "shape"):
        whole = tf.nest.map_structure(
            lambda array: array.to_numpy() if hasattr(array, "to_numpy") else array,  # a data frame
            tuple(batch) if isinstance(batch, list) else batch,
        )
        rows = check_arrays(tf.nest.flatten(whole), "batch")
        return _as_specs(whole), rows
    raise TypeError(
        "`batch` must be a tuple of arrays, such as (x, y), a tf.data.Dataset or a PyDataset. "
        f"Received: batch={reprlib.repr(batch)}"
    )


def _as_specs(batch: Any) -> Any:
    """Returns the specification of arrays as Keras feeds them."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, fed_as(array)), batch)


def _largest(memory: StepMemory, limit_bytes: int, size: int) -> int | None:
    if memory.graph.scales:
        return memory.largest_batch(limit_bytes)
    return size if memory.fits(size, limit_bytes) else None
