"""Some batches of a pipeline, kept in memory and replayed without end."""

from __future__ import annotations

from typing import Any

# The number of batches that training would have ready, and the memory they may take together.
HELD_BATCHES = 8
HELD_BYTES = 2**29


def hold(iterator: Any, element_spec: Any = None, count: int = HELD_BATCHES) -> Any:
    """Takes some batches from a pipeline into memory.

    Args:
        iterator: Iterator of the pipeline. Batches that a strategy has split are joined again.
        element_spec: The pipeline's `element_spec`. With it, these batches cause no new trace.
            By default the specification of the batches, with an open batch size as in Keras.
        count: Maximum number of batches. There are fewer if they take more than 512 MiB.

    Returns:
        A finite `tf.data.Dataset` that yields these batches from memory.
    """
    import tensorflow as tf

    held: Any = None
    size = 0
    for _ in range(count):
        try:
            batch = tf.nest.map_structure(_put_together, next(iterator))
        except StopIteration:
            raise has_ended() from None
        one = tf.data.Dataset.from_tensors(batch)
        held = one if held is None else held.concatenate(one)
        size += _size(batch)
        if size > HELD_BYTES:
            break
    if element_spec is None:
        element_spec = tf.nest.map_structure(_leave_open, held.element_spec)
    variant = tf.data.experimental.to_variant(held)
    return tf.data.experimental.from_variant(variant, element_spec)


def replay(held: Any) -> Any:
    """Repeats batches from memory without end.

    Autotuning is off because there is nothing to tune. Its thread may also miss its cancellation
    and then sleep for as long as the iterator has lived.

    Returns:
        An endless `tf.data.Dataset`.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return held.repeat().prefetch(HELD_BATCHES).with_options(options)


def _put_together(part: Any) -> Any:
    import tensorflow as tf

    divided = isinstance(part, tf.distribute.DistributedValues)
    return tf.concat(part.values, axis=0) if divided else part


def _leave_open(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return spec
    return tf.TensorSpec((None, *spec.shape[1:]), spec.dtype)


def _size(batch: Any) -> int:
    import tensorflow as tf

    tensors = tf.nest.flatten(batch, expand_composites=True)
    known = [tensor for tensor in tensors if tensor is not None]
    return sum(int(tf.size(tensor)) * tensor.dtype.size for tensor in known)


def has_ended() -> ValueError:
    """Returns the error for a dataset that ended although it should be endless."""
    return ValueError(
        "dataset must have at least one batch, and it must be possible to iterate over it again, "
        "which an exhausted generator does not allow. Received: a dataset that ended"
    )
