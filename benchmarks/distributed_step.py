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
import statistics
import subprocess
import sys
import time
from argparse import Namespace

from harness import argument_parser, in_turns, print_table
from planted.slow_links import free_ports
from results_file import save

from keras_gpukit.tuning.measuring import median_interval

BATCH, SKIPPED = 256, 3


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=25, help="timed steps of a block")
    parser.add_argument("--is-worker", action="store_true", help="only in processes of its own")
    arguments = parser.parse_args()
    if arguments.is_worker:
        print(json.dumps(blocks_of_a_worker(arguments.rounds, arguments.steps)))
        return
    blocks = start_workers(arguments)
    measures = {
        measure: summed_up(*([block[measure] for block in blocks[way]] for way in ("fit", "loop")))
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


def start_workers(arguments: Namespace) -> dict[str, list[dict[str, float]]]:
    """Runs the workers, and returns what the chief printed."""
    command = [sys.executable, __file__, "--is-worker"]
    command += [f"--rounds={arguments.rounds}", f"--steps={arguments.steps}"]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(arguments.workers)]
    processes = []
    for index in range(arguments.workers):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config)}
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a worker failed")
    return json.loads(outputs[0].splitlines()[-1])


def blocks_of_a_worker(rounds: int, steps: int) -> dict[str, list[dict[str, float]]]:
    """Trains in both ways; returns the seconds a step of each block."""
    import keras_gpukit as gpukit

    setup = gpukit.configure_gpus(strategy="multi_worker", seed=0, verbose=False)

    import keras
    import numpy as np
    import tensorflow as tf

    data = np.random.default_rng(0)
    images = data.normal(size=(BATCH * 4, 784)).astype("float32")
    labels = data.integers(0, 10, size=BATCH * 4).astype("int32")
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).cache().repeat()
    dataset = dataset.batch(BATCH, drop_remainder=True).prefetch(2)
    count = SKIPPED + steps
    began: tuple[float, float] = (0.0, 0.0)

    def times() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def per_step() -> dict[str, float]:
        clock_s, processor_s = (b - a for a, b in zip(began, times(), strict=True))
        return {"clock": clock_s / steps, "processor": processor_s / steps}

    def build() -> keras.Model:
        with setup.scope():
            layers = [keras.layers.Dense(512, activation="relu") for _ in range(3)]
            model = keras.Sequential([keras.Input((784,)), *layers, keras.layers.Dense(10)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            metrics = [keras.metrics.SparseCategoricalAccuracy()]
            model.compile(keras.optimizers.SGD(0.01), loss, metrics=metrics)
            model.optimizer.build(model.trainable_variables)
        return model

    class Timed(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            nonlocal began
            if batch == SKIPPED:
                began = times()

        def on_train_batch_end(self, batch, logs=None):
            if batch == count - 1:
                self.block = per_step()

    fitted, looped = build(), build()

    def fit() -> dict[str, float]:
        timed = Timed()
        fitted.fit(dataset, steps_per_epoch=count, shuffle=False, verbose=0, callbacks=[timed])
        return timed.block

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
        nonlocal began
        accuracy.reset_state()
        iterator = iter(distributed)
        total = 0.0
        for step in range(count):
            if step == SKIPPED:
                began = times()
            total += train_step(iterator)
        float(total)
        return per_step()

    ways = {"fit": fit, "loop": loop}
    for way in ways.values():
        way()  # traces
    return in_turns(ways, rounds)  # in an order that is the same on all workers


if __name__ == "__main__":
    main()
