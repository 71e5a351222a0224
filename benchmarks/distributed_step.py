"""What a step of `fit` costs with several workers, next to TensorFlow's own training loop.

    python benchmarks/distributed_step.py --json benchmarks/results/distributed_step.json

Worker processes on this machine train a model over one strategy in two ways, a block of steps at a
time, in an order that changes from round to round: by `model.fit`, and by the loop of TensorFlow's
guide (a `tf.function` that runs the step on the replicas and reduces their losses). The chief times
a block without its first steps, by the clock and by its processor time; each round gives the ratio
of its two blocks. Processor time is what a step costs also where other programs keep the machine
busy.
"""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time

from harness import argument_parser, print_table
from results_file import save

from keras_gpukit.measuring.intervals import median_interval

BATCH = 256
SKIPPED = 3
WAYS = ("fit", "loop")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=25, help="timed steps of a block")
    arguments = parser.parse_args()
    if "TF_CONFIG" in os.environ:
        blocks = work(arguments.rounds, arguments.steps)
        print(json.dumps(blocks))
        return
    blocks = start_workers(arguments)
    measures = {
        measure: summed_up(*([block[measure] for block in blocks[way]] for way in WAYS))
        for measure in ("clock", "processor")
    }
    print_table(
        f"A step with {arguments.workers} workers",
        ("by", "fit, ms", "loop, ms", "fit costs, %", "95 %"),
        [
            (
                measure,
                *(f"{value:.2f}" for value in figures["step_ms"].values()),
                f"{figures['cost_percent']:+.1f}",
                "{:+.1f} to {:+.1f}".format(*figures["interval_percent"]),
            )
            for measure, figures in measures.items()
        ],
    )
    if arguments.json:
        save(
            arguments.json,
            __file__,
            workers=arguments.workers,
            rounds=arguments.rounds,
            steps=arguments.steps,
            by=measures,
            load_of_machine=os.getloadavg()[1],
        )


def summed_up(fit_s: list[float], loop_s: list[float]) -> dict:
    """Medians of both ways, and of their ratio."""
    ratios = [fit / loop for fit, loop in zip(fit_s, loop_s, strict=True)]
    low, high = median_interval(ratios)
    return {
        "step_ms": {"fit": 1e3 * statistics.median(fit_s), "loop": 1e3 * statistics.median(loop_s)},
        "cost_percent": 100 * (statistics.median(ratios) - 1),
        "interval_percent": [100 * (low - 1), 100 * (high - 1)],
    }


class Timer:
    """Time that passed, by the clock and of this process's threads."""

    def start(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self._ended = time.perf_counter(), time.process_time()

    def per_step(self, steps: int) -> dict[str, float]:
        clock_s, processor_s = (b - a for a, b in zip(self._began, self._ended, strict=True))
        return {"clock": clock_s / steps, "processor": processor_s / steps}


def start_workers(arguments) -> dict[str, list[dict[str, float]]]:
    """Runs this script in each worker, and returns what the chief printed."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(arguments.workers)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = []
    for index in range(arguments.workers):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        processes.append(
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a worker failed")
    return json.loads(outputs[0].splitlines()[-1])


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
    main()
