"""The private names are there, and the public ways round them agree."""

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import config

from keras_gpukit.frameworks import tf_runtime

assert context.context()._initialized is False
assert context.context().config.gpu_options.allow_growth is False
assert config.is_op_determinism_enabled() is False


def without_private_names(question):
    kept = tf_runtime.context

    def gone():
        raise AttributeError("gone")

    tf_runtime.context = gone
    try:
        return question()
    finally:
        tf_runtime.context = kept


def started():
    return tf_runtime.is_initialized(), without_private_names(tf_runtime.is_initialized)


assert started() == (False, False)
assert tf.config.threading.get_inter_op_parallelism_threads() == 0  # asking changed nothing
assert tf_runtime.grows_memory() is False
assert without_private_names(tf_runtime.grows_memory) is None
assert tf_runtime.is_deterministic() is False

tf.constant(1)
assert started() == (True, True)
del config.is_op_determinism_enabled
assert tf_runtime.is_deterministic() is None
