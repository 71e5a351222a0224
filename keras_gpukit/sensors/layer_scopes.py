"""Reads how this Keras names the scopes of a model's layers."""

from __future__ import annotations

import functools
from typing import Any

from keras_gpukit.layer_names import LayerNames, layers_in

_PROBE = "probe"


def layer_names(model: Any) -> LayerNames:
    """Returns the names of a model's layers, and of the layers and models within them."""
    names = frozenset(layer.name for layer in layers_in(model))
    return LayerNames(names, calls_are_numbered())


@functools.cache
def calls_are_numbered() -> bool:
    """Whether Keras opens two scopes for a layer that is built: up to 3.15 it does.

    A small layer shows it: this takes a few milliseconds, once.
    """
    import keras
    import tensorflow as tf

    layer = keras.layers.ReLU(name=_PROBE)
    layer.build((1,))
    with tf.init_scope():  # whatever is being traced, this is not part of it
        traced = tf.function(layer, autograph=False).get_concrete_function(tf.TensorSpec((1,)))
    return any(each.name.startswith(f"{_PROBE}_1/") for each in traced.graph.get_operations())
