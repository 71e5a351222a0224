"""What an element of a pipeline takes in host memory, by its specification."""

from __future__ import annotations

from math import prod
from typing import Any

TENSOR_BYTES = 128
"""What a tensor takes in addition to its values; our choice, see `benchmarks/host_buffers.py`."""
ALIGNED_BYTES = 64
"""TensorFlow takes a slice of a tensor without a copy where it begins at a multiple of this."""


def element_bytes(spec: Any, *, is_sliced: bool = False) -> int | None:
    """Returns the bytes of an element; None for shapes that are not known, and for texts.

    Args:
        spec: A dataset's `element_spec`.
        is_sliced: Whether elements are slices of tensors that are in memory anyway.
    """
    import tensorflow as tf

    total = 0
    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec) or not part.shape.is_fully_defined():
            return None
        if part.dtype in (tf.string, tf.variant, tf.resource):
            return None
        size_bytes = prod(part.shape) * part.dtype.size
        if is_sliced and size_bytes % ALIGNED_BYTES == 0:
            size_bytes = 0
        total += size_bytes + TENSOR_BYTES
    return total
