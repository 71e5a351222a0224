"""How near to a step's peak memory readings at random moments come.

    python benchmarks/sampled_peak.py --json benchmarks/results/sampled_peak.json

Models train on a CPU with TensorFlow's GPU allocator while a thread reads what is in use. The true
peak is TensorFlow's own, of the same steps. Of all readings, random choices of as many as the rule
`first-step-memory` asks for are drawn; the share of the peak that the most of them comes to says
how far below a peak of the first step they must stay to be no accident.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from typing import Any

from harness import argument_parser, in_own_process, print_table
from results_file import save

READINGS = 30
DRAWS = 2000
SECONDS = 20.0
ENVIRONMENT = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}
MODELS = ("MobileNetV2", "ResNet50V2", "VGG16", "dense", "lstm")


def build(name: str) -> tuple[Any, tuple[int, ...]]:
    import keras

    layers = keras.layers
    if name == "dense":
        shape: tuple[int, ...] = (256,)
        inner = [layers.Dense(1024, "relu") for _ in range(4)]
        model: Any = keras.Sequential([keras.Input(shape), *inner, layers.Dense(1)])
    elif name == "lstm":
        shape = (40, 64)
        model = keras.Sequential([keras.Input(shape), layers.LSTM(128), layers.Dense(1)])
    else:
        shape = (64, 64, 3)
        base = getattr(keras.applications, name)(weights=None, include_top=False, input_shape=shape)
        model = keras.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model, shape


def train(name: str) -> dict[str, Any]:
    """What a process of its own does."""
    import keras
    import numpy as np
    import tensorflow as tf

    model, shape = build(name)
    read: list[int] = []
    peak: list[int] = []

    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 0:
                tf.config.experimental.reset_memory_stats("CPU:0")
                self.began = time.perf_counter()
                self.thread = threading.Thread(target=self.read, daemon=True)
                self.going = True
                self.thread.start()
            if time.perf_counter() - self.began > SECONDS:
                self.model.stop_training = True

        def read(self) -> None:
            while self.going:
                time.sleep(random.uniform(0.003, 0.02))
                read.append(tf.config.experimental.get_memory_info("CPU:0")["current"])

        def on_train_end(self, logs: Any = None) -> None:
            self.going = False
            self.thread.join()
            peak.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])

    x, y = np.ones((16, *shape), "float32"), np.ones((16, 1), "float32")
    dataset = tf.data.Dataset.from_tensors((x, y)).repeat()
    model.fit(dataset, steps_per_epoch=10**6, verbose=0, callbacks=[Reads()])
    draws = random.Random(0)
    shares = sorted(max(draws.sample(read, READINGS)) / peak[0] for _ in range(DRAWS))
    return {
        "readings": len(read),
        "peak_bytes": peak[0],
        "least_share": shares[0],
        "share_of_one_in_100": shares[DRAWS // 100],
        "median_share": shares[DRAWS // 2],
    }


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    rows = {}
    for name in MODELS:
        (rows[name],) = in_own_process(__file__, ["--train", name], environment=ENVIRONMENT)
        print(name, json.dumps(rows[name]), flush=True)
    if options.json:
        save(options.json, __file__, readings=READINGS, draws=DRAWS, models=rows)
    print_table(
        f"the most of {READINGS} readings as a share of the peak",
        ["model", "least", "1 in 100", "median"],
        (
            [
                name,
                f"{row['least_share']:.1%}",
                f"{row['share_of_one_in_100']:.1%}",
                f"{row['median_share']:.1%}",
            ]
            for name, row in rows.items()
        ),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        print(json.dumps(train(sys.argv[2])))
    else:
        main()
