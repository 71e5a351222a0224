"""What a worker of `distributed_step.py` does: it trains by `fit` and by a loop, in turns.

TF_CONFIG=... python benchmarks/distributed_work.py ROUNDS STEPS
"""

from __future__ import annotations

import json
import random
import sys
import time

BATCH = 256
SKIPPED = 3


class Timer:
    """Time that passed, by the clock and of this process's threads."""

    def start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self._ended = time.perf_counter(), time.process_time()

    def per_step(self, steps: int) -> dict[str, float]:
        clock_s, processor_s = (b - a for a, b in zip(self._began, self._ended, strict=True))
        return {"clock": clock_s / steps, "processor": processor_s / steps}


def work(rounds: int, steps: int) -> dict[str, list[dict[str, float]]]:
    """Trains in both ways; returns the seconds a step of each block."""
    import keras_gpukit as gpukit

    setup = gpukit.configure_gpus(strategy="multi_worker", seed=0, verbose=False)

    import keras
    import numpy as np
    import tensorflow as tf

    data = np.random.default_rng(0)
    images = data.normal(size=(BATCH * 4, 784)).astype("float32")
    labels = data.integers(0, 10, size=BATCH * 4).astype("int32")

    def build():
        with setup.scope():
            layers = [keras.layers.Dense(512, activation="relu") for _ in range(3)]
            model = keras.Sequential([keras.Input((784,)), *layers, keras.layers.Dense(10)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metrics = [keras.metrics.SparseCategoricalAccuracy()]
            model.compile(keras.optimizers.SGD(0.01), loss, metrics=metrics)
            model.optimizer.build(model.trainable_variables)
        return model

    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache().repeat()
    dataset = dataset.batch(BATCH, drop_remainder=True).prefetch(2)
    count = SKIPPED + steps

    timer = Timer()

    class Timed(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == SKIPPED:
                timer.start()

        def on_train_batch_end(self, batch, logs=None):
            if batch == count - 1:
                timer.stop()

    fitted = build()

    def fit() -> dict[str, float]:
        fitted.fit(dataset, steps_per_epoch=count, shuffle=False, verbose=0, callbacks=[Timed()])
        return timer.per_step(steps)

    looped = build()
    strategy = setup.strategy
    with setup.scope():
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        accuracy = keras.metrics.SparseCategoricalAccuracy()

    def replica_step(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = looped(x, training=True)
            losses = loss_of(y, predictions)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        variables = looped.trainable_variables
        looped.optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )
        accuracy.update_state(y, predictions)
        return loss

    @tf.function
    def train_step(iterator):
        losses = strategy.run(replica_step, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    distributed = strategy.experimental_distribute_dataset(dataset)

    def loop() -> dict[str, float]:
        accuracy.reset_state()
        iterator = iter(distributed)
        total = 0.0
        for step in range(count):
            if step == SKIPPED:
                timer.start()
            total += train_step(iterator)
        float(total)
        timer.stop()
        return timer.per_step(steps)

    ways = {"fit": fit, "loop": loop}
    blocks: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for way in ways.values():
        way()  # traces
    for number in range(rounds):
        # Of the same order on all workers.
        for way in random.Random(number).sample(sorted(ways), len(ways)):
            blocks[way].append(ways[way]())
    return blocks


if __name__ == "__main__":
    print(json.dumps(work(*map(int, sys.argv[1:]))))
