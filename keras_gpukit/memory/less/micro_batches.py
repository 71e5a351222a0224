"""Takes parts of a batch, which may be any structure of tensors that `train_step` gets."""

from __future__ import annotations

from typing import Any


def examples_of(data: Any) -> Any:
    """Returns the number of examples in a batch, as a scalar tensor."""
    import tensorflow as tf

    first = next(each for each in tf.nest.flatten(data) if each is not None)
    return first.nrows(tf.int32) if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]


def part_of(data: Any, start: Any, size: Any) -> Any:
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
