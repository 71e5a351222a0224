"""Gradient accumulation: trains on a batch in parts, and applies its gradients once.

Keras' own `gradient_accumulation_steps` collects gradients in the optimizer over several batches.
It fails under `MirroredStrategy` (`merge_call called while defining a new graph`, Keras 3.12 to
3.15). Also, its optimizer counts batches, so a learning-rate schedule runs too fast. Here
everything happens within one step: the optimizer is called once, as without accumulation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras_gpukit.arguments import check_compiled, check_whole
from keras_gpukit.memory.untouched import replaced

_MEANS = ("sum_over_batch_size", "mean")


@contextmanager
def accumulate_gradients(model: Any, *, micro_batches: int) -> Iterator[Any]:
    """Trains on each batch in equal parts, one after the other, with one update of the weights.

    Activations need only the memory of one part, while the update is that of the whole batch. So
    the dataset keeps the batch size that you want for training. Learning rate, schedules,
    `steps_per_epoch` and step counts also stay unchanged.

    The update is the same as without accumulation, up to rounding. This holds in graph mode, with
    XLA and eagerly, under a distribution strategy (each replica divides its own share), with mixed
    precision, and with a custom `train_step` that applies gradients once. The update differs if
    examples of a batch depend on each other: batch normalization sees the parts, and a loss over
    masked sequences weighs the parts equally. `Dropout` draws its masks part by part.

    Example:
        ```python
        with gpukit.accumulate_gradients(model, micro_batches=4):
            model.fit(dataset.batch(256), epochs=10)  # 64 examples at a time
        ```

    Args:
        model: A compiled Keras model on the TensorFlow backend.
        micro_batches: Number of parts that a batch is divided into, at least 2. If a batch cannot
            be divided equally, its first part has up to `micro_batches - 1` more examples.

    Yields:
        The model. After the block it trains as before.

    Raises:
        TypeError: If `model` is no model, or `micro_batches` not a whole number.
        ValueError: If `micro_batches` is less than 2, if the model is not compiled, if its
            optimizer accumulates gradients itself, or if a loss is not a mean over examples, so
            that the gradients of parts do not add up to those of the batch.
    """
    check_whole("micro_batches", micro_batches, least=2)
    _check_model(model)
    step = _in_parts(model, model.train_step, micro_batches)
    with replaced(model, [(model, "train_step", step)]):
        yield model


def _in_parts(
    model: Any, train_step: Callable[[Any], Any], parts: int
) -> Callable[[Any], dict[str, Any]]:
    """Returns a training step that calls the original one for each part of its batch."""
    import tensorflow as tf

    @functools.wraps(train_step)
    def step(data: Any) -> dict[str, Any]:
        examples = _examples_of(data)
        size = examples // parts
        # The first part runs outside the loop, because it may create variables, which a loop
        # cannot. It takes the examples left over by the division.
        first = examples - (parts - 1) * size
        variables, gradients, logs = _gradients_of(model, train_step, _part_of(data, 0, first))
        gradients = [_weighted(gradient, first, examples) for gradient in gradients]

        def add_part(start: Any, sums: list[Any], _: Any) -> tuple[Any, list[Any], Any]:
            part = _part_of(data, start, size)
            _, more, logs = _gradients_of(model, train_step, part)
            more = [_weighted(gradient, size, examples) for gradient in more]
            return start + size, [a + b for a, b in zip(sums, more, strict=True)], logs

        # Parts without examples would have a loss of 0/0.
        is_left = lambda start, *_: (size > 0) & (start < examples)  # noqa: E731
        # Parts that run at the same time would need the memory of several parts.
        with tf.control_dependencies(gradients):
            start = tf.identity(first)
        _, gradients, logs = tf.while_loop(
            is_left, add_part, (start, gradients, logs), parallel_iterations=1
        )
        model.optimizer.apply(gradients, variables)
        return dict(logs)

    step.micro_batches = parts  # type: ignore[attr-defined]  # to count examples
    return step


def _gradients_of(
    model: Any, train_step: Callable[[Any], Any], data: Any
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Runs a training step without its update.

    Returns:
        The variables that it would have updated, their gradients, and its logs.

    Raises:
        ValueError: If the step does not apply gradients exactly once by the model's optimizer.
    """
    optimizer, asked = model.optimizer, []
    optimizer.apply = lambda grads, variables=None: asked.append((grads, variables))
    try:
        logs = train_step(data)
    finally:
        del optimizer.apply
    if len(asked) != 1:
        raise ValueError(
            "Gradients can be accumulated for a `train_step` that applies gradients once, by "
            f"`self.optimizer`. Received: a step of {type(model).__name__} that did so "
            f"{len(asked)} times. Accumulate within that step instead."
        )
    gradients, variables = asked[0]
    variables = list(model.trainable_variables if variables is None else variables)
    known = [pair for pair in zip(variables, gradients, strict=True) if pair[1] is not None]
    return [variable for variable, _ in known], [gradient for _, gradient in known], logs


def _weighted(gradient: Any, examples: Any, of: Any) -> Any:
    """Returns what the mean gradient of a part contributes to the mean gradient of its batch."""
    import tensorflow as tf

    gradient = tf.convert_to_tensor(gradient)  # the gradient of an embedding is sparse
    return gradient * (tf.cast(examples, gradient.dtype) / tf.cast(of, gradient.dtype))


def _examples_of(data: Any) -> Any:
    """Returns the number of examples in a batch, as a scalar tensor."""
    import tensorflow as tf

    first = next(tensor for tensor in tf.nest.flatten(data) if tensor is not None)
    return first.nrows(tf.int32) if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]


def _part_of(data: Any, start: Any, size: Any) -> Any:
    """Returns the `size` examples of a batch from the example `start` on.

    Raises:
        TypeError: If an input is a sparse tensor, which cannot be divided.
    """
    import tensorflow as tf

    def cut(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tf.SparseTensor):
            raise TypeError(
                "Batches of sparse tensors cannot be divided: convert them by tf.sparse.to_dense. "
                f"Received: {value!r}"
            )
        if isinstance(value, tf.RaggedTensor):
            return value[start : start + size]
        # Not value[start:stop], whose length XLA does not know.
        rest = value.shape.rank - 1
        part = tf.slice(value, [start, *[0] * rest], [size, *[-1] * rest])
        return tf.ensure_shape(part, [None, *value.shape[1:]])

    return tf.nest.map_structure(cut, data)


def _check_model(model: Any) -> None:
    import keras

    check_compiled(model)
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    accumulated = getattr(optimizer, "gradient_accumulation_steps", None)
    if accumulated:
        raise ValueError(
            "The optimizer accumulates gradients itself; leave out `gradient_accumulation_steps`. "
            f"Received: gradient_accumulation_steps={accumulated!r}"
        )
    for loss in keras.tree.flatten(getattr(model, "loss", None)):
        reduction = getattr(loss, "reduction", None)
        if isinstance(loss, keras.losses.Loss) and reduction not in _MEANS:
            raise ValueError(
                "Gradients of parts add up to those of the batch if the loss is a mean over "
                f"examples: give the loss reduction={_MEANS[0]!r}. Received: loss={loss.name!r} "
                f"with reduction={reduction!r}"
            )
