"""Functions that only Keras 3.12 to 3.15 needs: they say how the Keras in use behaves.

Keras 3.16 fetches a batch in Python, if an execution has one step, and then calls the step itself;
its trainer has another name; and it opens one scope for a call of a layer, not two. When 3.16 is
the oldest Keras, this module goes, and each caller keeps the branch for it. What reads profiles
finds this out from their own names, since a profile may come from another machine:
`calls_are_numbered` in `profiling.reading.layer_times` goes then, too.
"""

from __future__ import annotations

import functools
from typing import Any

from keras_gpukit.frameworks.keras_trainer import trainer_module

_PROBE = "probe"


def trainer_class(module: Any) -> Any:
    """Returns the class that trains on TensorFlow, by Keras' module of it.

    Seen on Keras 3.12 to 3.15 as `TensorFlowTrainer`, on 3.16 as `Trainer`.
    """
    return getattr(module, "TensorFlowTrainer", None) or module.Trainer


def gpu_runs_ahead(steps_per_execution: int) -> bool:
    """Whether a GPU may still compute a step when the host fetches the next batch.

    From Keras 3.16 on, with one step per execution, Python fetches a batch and then calls the
    step, which may return before the GPU has computed it. Up to 3.15 one call does both, and reads
    back from the device whether there was a batch. Not seen on a GPU yet; on CPUs steps are over
    when their call returns.
    """
    import tensorflow as tf

    older = hasattr(trainer_module(), "TensorFlowTrainer")
    return steps_per_execution == 1 and not older and bool(tf.config.list_logical_devices("GPU"))


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
    return any(node.name.startswith(f"{_PROBE}_1/") for node in traced.graph.get_operations())
