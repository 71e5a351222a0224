"""Finds what probably started TensorFlow's devices, from objects that exist afterwards."""

from __future__ import annotations

import gc

from keras_gpukit.distributed.strategies import mirrored_devices


def likely_starter() -> str:
    """Returns a sentence on what probably started TensorFlow's devices.

    TensorFlow does not record the call, so this looks for objects that cannot be created without
    starting the devices. It walks over every object in the process, which takes up to a second.
    """
    if mirrored_devices() is not None:
        return "The MirroredStrategy of this process probably started them."
    import keras
    import tensorflow as tf

    kinds: list[tuple[type, str]] = [
        (tf.distribute.Strategy, "a tf.distribute strategy"),
        (keras.Optimizer, "a Keras optimizer (making one creates its variables)"),
        (keras.Layer, "a Keras layer with weights"),
        (tf.Variable, "a tf.Variable"),
        (tf.data.Iterator, "an iterator over a tf.data.Dataset"),
        (tf.Tensor, "a tensor"),
    ]
    # Look at the type, not at the object: a proxy's __class__ would run foreign code.
    types = {type(candidate) for candidate in gc.get_objects()}
    for kind, description in kinds:
        # TensorFlow itself keeps its default strategy, which starts nothing.
        found = [t for t in types if issubclass(t, kind) and not t.__name__.startswith("_Default")]
        if found:
            names = ", ".join(sorted(t.__name__ for t in found)[:3])
            return f"What started them is probably {description}: this process holds {names}."
    return (
        "What started them is unknown. Anything that computes starts them, such as "
        "tf.constant(…), and so does tf.config.list_logical_devices()."
    )
