"""How the profiles in `cpu` were recorded: small fits, each into a folder of the one given."""

import os
import sys

os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "true"  # makes a CPU's allocator tell what it holds

import keras
import tensorflow as tf
from helpers import training

STEPS = 12


class Capture(keras.callbacks.Callback):
    """Captures a whole fit with TensorFlow alone."""

    def __init__(self, folder: str, *, marked: bool) -> None:
        super().__init__()
        self.folder, self.marked = folder, marked

    def on_train_begin(self, logs=None):
        tf.profiler.experimental.start(self.folder)

    def on_train_batch_begin(self, batch, logs=None):
        if self.marked:
            self.mark = tf.profiler.experimental.Trace("train", step_num=batch, _r=1)
            self.mark.__enter__()

    def on_train_batch_end(self, batch, logs=None):
        if self.marked:
            self.mark.__exit__(None, None, None)

    def on_train_end(self, logs=None):
        tf.profiler.experimental.stop()


def fit(model: keras.Model, data: tf.data.Dataset, name: str, *, marked: bool = True) -> None:
    model.fit(data, verbose=0)  # traces
    capture = Capture(os.path.join(sys.argv[1], name), marked=marked)
    model.fit(data, verbose=0, callbacks=[capture])


def costly(inputs, targets):
    numbers = tf.random.normal((300_000,))
    return inputs + 0 * tf.sort(numbers)[0], targets


fit(training.sleeping_model(0.01), training.slow_dataset(STEPS, 0.08), "stalled")
mapped = training.fast_dataset(STEPS).map(costly, name="costly")
fit(training.small_model(), mapped, "mapped", marked=False)
looped = training.sleeping_model(0.01, steps_per_execution=4)
fit(looped, training.slow_dataset(STEPS, 0.002), "looped", marked=False)
fit(looped, training.slow_dataset(STEPS, 0.016), "looped_marked")
moved = training.slow_dataset(STEPS, 0.08).apply(
    tf.data.experimental.prefetch_to_device("/device:CPU:0")
)
fit(training.sleeping_model(0.01), moved, "prefetched_to_device")
