"""What reading placement costs: once a run, when the first step ends.

    python benchmarks/placement_cost.py --json benchmarks/results/placement_cost.json

Each process trains one step of one model on two logical CPUs and times the start and the end of the
reading, with the layers on one device or on both, so that tensors are copied and shapes are
inferred. The first step, which traces and optimizes the graphs, is timed as a whole.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from typing import Any

from harness import argument_parser, in_own_process, print_table
from results_file import save

CASES = [(model, devices) for model in ("dense", "MobileNetV2") for devices in (1, 2)]
ROUNDS = 3
BATCH = 8


def measure(name: str, devices: int) -> dict[str, Any]:
    """Trains one step, and returns the seconds that it and the reading took."""
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_gpukit.placement.probe import PlacementProbe
    from keras_gpukit.records.codec import to_dict

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

    class Elsewhere(keras.layers.Layer):
        def call(self, inputs):
            with tf.device(f"CPU:{devices - 1}"):
                return tf.nn.softplus(inputs)

    if name == "dense":
        sizes = (512, 256)
        layers = [keras.layers.Dense(size, activation="relu") for size in sizes]
        model = keras.Sequential(
            [keras.Input((256,)), *layers, Elsewhere(), keras.layers.Dense(10)]
        )
    else:
        inputs = keras.Input((96, 96, 3))
        features = keras.applications.MobileNetV2(
            input_tensor=inputs, include_top=False, weights=None, pooling="avg"
        )(inputs)
        model = keras.Model(inputs, keras.layers.Dense(10)(Elsewhere()(features)))
    model.compile("adam", "mse", jit_compile=False)
    arrays = np.ones((BATCH, *model.input_shape[1:]), "float32"), np.ones((BATCH, 10), "float32")
    iterator = iter(tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH))
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    probe = PlacementProbe(model)
    times = [time.perf_counter()]
    probe.start()
    times.append(time.perf_counter())
    model.train_function(iterator)
    times.append(time.perf_counter())
    record = probe.stop(lambda: BATCH)
    times.append(time.perf_counter())
    start_s, step_s, stop_s = (b - a for a, b in itertools.pairwise(times))
    return {
        "operations": sum(record.by_device.values()),
        "copied_bytes": record.copied_bytes,
        "record_bytes": len(json.dumps(to_dict(record))),
        "reading_s": start_s + stop_s,
        "first_step_s": step_s,
    }


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    results = []
    for model, devices in CASES:
        runs = [in_own_process(__file__, [model, str(devices)])[-1] for _ in range(ROUNDS)]
        median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        results.append({"model": model, "devices": devices, **median})
    print_table(
        "Reading placement, once a run",
        ("model", "devices", "operations", "record", "reading", "first step"),
        [
            (
                row["model"],
                str(row["devices"]),
                f"{row['operations']:,.0f}",
                f"{row['record_bytes'] / 1000:.0f} kB",
                f"{1e3 * row['reading_s']:.0f} ms",
                f"{row['first_step_s']:.1f} s",
            )
            for row in results
        ],
    )
    if arguments.json:
        save(arguments.json, __file__, rounds=ROUNDS, batch=BATCH, cases=results)


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].startswith("-"):
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
