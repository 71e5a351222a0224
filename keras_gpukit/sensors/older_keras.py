"""Functions that only Keras 3.12 to 3.15 needs: they say how the Keras in use behaves.

Keras 3.16 fetches a batch in Python, if an execution has one step, and then calls the step itself;
its trainer has another name; and it opens one scope for a call of a layer, not two. When 3.16 is
the oldest Keras, this module goes, and each caller keeps the branch for it. What reads profiles
finds this out from their own names, since a profile may come from another machine:
`calls_are_numbered` in `profiling.reading.layers` goes then, too.

Private names, seen on Keras 3.12 to 3.16: `keras.src.backend.tensorflow.trainer`, and in it
`TensorFlowTrainer`, which is `Trainer` from 3.16 on.
"""

from __future__ import annotations

import functools
from typing import Any

_PROBE = "probe"


def trainer_class(module: Any) -> Any:
    """Returns the class that trains on TensorFlow, by Keras' module of it.

    Raises:
        AttributeError: If the module has no such class.
    """
    return getattr(module, "TensorFlowTrainer", None) or module.Trainer


def fetches_within_the_step() -> bool:
    """Whether the function that Keras calls for a step also fetches its batch.

    It then reads back from the device whether there was a batch, and returns after the step.
    """
    from keras.src.backend.tensorflow import trainer

    return hasattr(trainer, "TensorFlowTrainer")


@functools.cache
def calls_are_numbered() -> bool:
    """Whether Keras opens two scopes for a layer that is built, the second one with a number.

    A small layer shows it: this takes a few milliseconds, once.
    """
    import keras
    import tensorflow as tf

    layer = keras.layers.ReLU(name=_PROBE)
    layer.build((1,))
    with tf.init_scope():  # whatever is being traced, this is not part of it
        traced = tf.function(layer, autograph=False).get_concrete_function(tf.TensorSpec((1,)))
    return any(each.name.startswith(f"{_PROBE}_1/") for each in traced.graph.get_operations())
