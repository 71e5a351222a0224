"""Text classification on two devices with MirroredStrategy; on a CPU, on two halves of it."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

gpus = tf.config.list_physical_devices("GPU")
if not gpus:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )

VOCABULARY, LENGTH = 500, 20


def build_and_compile():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(VOCABULARY, 16),
            layers.GlobalAveragePooling1D(),
            layers.Dense(16, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ],
        name="reviews",
    )
    schedule = keras.optimizers.schedules.ExponentialDecay(1e-2, 50, 0.9)
    model.compile(keras.optimizers.Adam(schedule), "binary_crossentropy", metrics=["accuracy"])
    return model


def main():
    keras.utils.set_random_seed(5)
    strategy = tf.distribute.MirroredStrategy(
        None if gpus else ["CPU:0", "CPU:1"],
        cross_device_ops=None if gpus else tf.distribute.ReductionToOneDevice(),
    )
    print("Number of devices:", strategy.num_replicas_in_sync)
    rng = np.random.default_rng(0)
    words = rng.integers(VOCABULARY, size=(4096, LENGTH)).astype("int32")
    labels = (words.mean(axis=1) > VOCABULARY / 2).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((words, labels))
    train = dataset.take(3584).shuffle(3584, seed=1).batch(64, drop_remainder=True).prefetch(2)
    test = dataset.skip(3584).batch(64, drop_remainder=True)
    with strategy.scope():
        model = build_and_compile()
    history = model.fit(train, epochs=3, validation_data=test, verbose=2)
    print(history.history)
    print("test:", model.evaluate(test, verbose=0))


if __name__ == "__main__":
    main()
