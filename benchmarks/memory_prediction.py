"""Predicted against measured peak memory, on architectures of Keras' own.

    python benchmarks/memory_prediction.py --json benchmarks/results/memory_prediction.json

Each architecture of `keras.applications`, with random weights and small images, is predicted and
then trained for three steps in a process of its own, with TensorFlow's GPU allocator on the CPU
(TF_CPU_ALLOCATOR_USE_BFC) and without oneDNN. Measured is the most that the allocator had in use,
less the data set, which lies in the same memory there.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness import argument_parser, in_own_process, print_table
from results_file import save, saved_rows

CASES = {
    "VGG16": (64, 32),
    "MobileNet": (64, 16),
    "MobileNetV2": (64, 16),
    "ResNet50": (64, 16),
    "MobileNetV3Small": (96, 32),
    "VGG19": (64, 16),
    "EfficientNetB0": (64, 16),
    "ResNet50V2": (64, 16),
    "InceptionV3": (96, 8),
    "MobileNetV3Large": (96, 16),
    "ConvNeXtTiny": (64, 8),
}
"""Side of the images and batch size."""
STEPS = 3
WITHIN = 0.1


def measure(name: str, side: int, batch_size: int) -> dict[str, Any]:
    """What a process of its own does."""
    import warnings

    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit

    warnings.filterwarnings("ignore")
    keras.utils.set_random_seed(0)
    architecture = getattr(keras.applications, name)
    model = architecture(weights=None, input_shape=(side, side, 3), classes=10)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    batch = (np.zeros((batch_size, side, side, 3), "float32"), np.zeros(batch_size, "int32"))
    predicted = gpukit.predict_memory(model, batch, verbose=False)
    assert predicted.low is not None
    assert predicted.high is not None
    before = in_use("current")
    dataset = tf.data.Dataset.from_tensors(batch).repeat(STEPS)
    data_bytes = in_use("current") - before
    model.fit(dataset, epochs=1, verbose=0)
    peak = in_use("peak") - data_bytes
    held = sum(int(np.prod(each.shape)) * 4 for each in model.optimizer.variables)
    return {
        "model": name,
        "side": side,
        "batch_size": batch_size,
        "measured_bytes": peak,
        "predicted_bytes": predicted.peak_bytes,
        "error_percent": round(100 * ((predicted.peak_bytes or 0) / peak - 1), 1),
        "low_bytes": predicted.low.total_bytes,
        "high_bytes": predicted.high.total_bytes,
        "in_range": predicted.low.total_bytes <= peak <= predicted.high.total_bytes,
        "held_between_steps_bytes": predicted.low.held_bytes,
        "slots_are_exact": abs(predicted.low.slots_bytes - held) <= 16,
    }


def in_use(which: str) -> int:
    import tensorflow as tf

    info = tf.config.experimental.get_memory_info("CPU:0")
    if which == "current":
        tf.config.experimental.reset_memory_stats("CPU:0")
    return int(info[which])


def in_turn(name: str) -> dict[str, Any]:
    settings = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}
    return in_own_process(__file__, ["--measure", name], 900, settings)[-1]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="models to run; others are kept from --json")
    parser.add_argument("--parallel", type=int, default=1, help="processes at a time")
    options = parser.parse_args()
    rows = saved_rows(options.json, "models") if options.only else {}
    with ThreadPoolExecutor(options.parallel) as pool:
        for row in pool.map(in_turn, options.only or CASES):
            rows[row["model"]] = row
            print(row, flush=True)
            if options.json:
                save(options.json, __file__, within=WITHIN, steps=STEPS, models=rows)
    within = sum(abs(row["error_percent"]) <= 100 * WITHIN for row in rows.values())
    print_table(
        f"within {WITHIN:.0%} of the measured peak: {within} of {len(rows)}",
        list(next(iter(rows.values()))),
        [[str(value) for value in row.values()] for row in rows.values()],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], *CASES[sys.argv[2]])))
    else:
        main()
