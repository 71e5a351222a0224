"""What overflows, underflows or turns NaN in float16 and bfloat16, and what finding it costs.

    python benchmarks/half_precision.py --json benchmarks/results/half_precision.json

On a CPU: its results follow from the formats' ranges, which are the same on a GPU; sums are made
in another order there, and so may overflow earlier or later.
"""

from __future__ import annotations

import statistics
import time

from harness import argument_parser, in_turns, print_table
from results_file import save

DTYPES = ("float32", "bfloat16", "float16")


def operations():
    """Operations with inputs that training meets, by what they stand for."""
    import tensorflow as tf

    def tensor(value, shape=(), dtype="float32"):
        return tf.fill(shape, tf.cast(value, dtype))

    return {
        "exp(12)": lambda d: tf.exp(tensor(12, dtype=d)),
        "square(300), as in a squared error": lambda d: tf.square(tensor(300, dtype=d)),
        "sum of 100,000 ones": lambda d: tf.reduce_sum(tensor(1, (100_000,), d)),
        "product of 1024 pairs of 8": lambda d: tf.matmul(
            tensor(8, (1, 1024), d), tensor(8, (1024, 1), d)
        ),
        "log(0 + 1e-8)": lambda d: tf.math.log(tensor(0, dtype=d) + tensor(1e-8, dtype=d)),
        "1 / (0 + 1e-8)": lambda d: 1 / (tensor(0, dtype=d) + tensor(1e-8, dtype=d)),
        "0 / sqrt(0 + 1e-8), a norm by hand": lambda d: (
            tensor(0, dtype=d) / tf.sqrt(tensor(0, dtype=d) + tensor(1e-8, dtype=d))
        ),
        "-1e9 as a mask": lambda d: tensor(-1e9, dtype=d),
        "softmax of (-1e9, -1e9)": lambda d: tf.nn.softmax(tensor(-1e9, (2,), d)),
        "softmax of (60000, 0)": lambda d: tf.nn.softmax(tf.constant([60000, 0], d)),
        "1e-8, as a gradient": lambda d: tensor(1e-8, dtype=d),
        "1 + 0.001, as a small update": lambda d: tensor(1, dtype=d) + tensor(0.001, dtype=d) - 1,
    }


def layers():
    """Keras' layers and losses on float16 values near the end of its range."""
    import keras
    import numpy as np

    near = np.float16([[60000.0, -60000.0, 60000.0, 100.0]])
    same = np.full((4, 4), 7, "float16")
    policy = "mixed_float16"
    target = np.float16([[0.0, 0.0, 0.0, 1.0]])
    return {
        "BatchNormalization(epsilon=1e-8), equal inputs": lambda: keras.layers.BatchNormalization(
            dtype=policy, epsilon=1e-8
        )(same, training=True),
        "LayerNormalization(epsilon=1e-8), equal inputs": lambda: keras.layers.LayerNormalization(
            dtype=policy, epsilon=1e-8
        )(same),
        "BatchNormalization, 60,000": lambda: keras.layers.BatchNormalization(dtype=policy)(
            np.concatenate([near, -near]), training=True
        ),
        "Softmax layer, 60,000": lambda: keras.layers.Softmax(dtype=policy)(near),
        "MeanSquaredError, 60,000": lambda: keras.losses.MeanSquaredError()(target, near),
        "CategoricalCrossentropy(from_logits=True), 60,000": (
            lambda: keras.losses.CategoricalCrossentropy(from_logits=True)(target, near)
        ),
        "CategoricalCrossentropy, softmax underflowed to 0": (
            lambda: keras.losses.CategoricalCrossentropy()(
                target, np.float16([[1.0, 0.0, 0.0, 0.0]])
            )
        ),
        "squared error by hand, 60,000": lambda: keras.ops.mean(
            keras.ops.square(keras.ops.convert_to_tensor(near) - target)
        ),
        "GlobalAveragePooling2D, 64 x 64 of 60": lambda: keras.layers.GlobalAveragePooling2D(
            dtype=policy
        )(np.full((1, 64, 64, 1), 60, "float16")),
    }


def kind(value) -> str:
    """A value in words: its number, or "inf", "-inf", "NaN" if one of it is."""
    import numpy as np

    values = np.asarray(value, "float32").ravel()
    if np.isnan(values).any():
        return "NaN"
    if np.isposinf(values).any():
        return "inf"
    if np.isneginf(values).any():
        return "-inf"
    return f"{values[0]:.4g}"


def check_costs(rounds: int):
    """Step time with and without TensorFlow's check of every operation, in turns."""
    import keras
    import numpy as np
    import tensorflow as tf

    x, y = np.ones((64, 32, 32, 3), "float32"), np.zeros((64,), "int32")

    def timed(checked: bool):
        if checked:
            tf.debugging.enable_check_numerics()
        convolutions = [keras.layers.Conv2D(16, 3, activation="relu") for _ in range(4)]
        head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((32, 32, 3)), *convolutions, *head])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.train_on_batch(x, y)
        if checked:
            tf.debugging.disable_check_numerics()

        def run():
            began = time.perf_counter()
            model.train_on_batch(x, y)
            return time.perf_counter() - began

        return run

    return in_turns({"plain": timed(False), "checked": timed(True)}, rounds)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    by_operation = {
        name: {dtype: kind(operation(dtype)) for dtype in DTYPES}
        for name, operation in operations().items()
    }
    by_layer = {name: kind(layer()) for name, layer in layers().items()}
    times = check_costs(args.rounds)
    cost = {name: statistics.median(values) for name, values in times.items()}
    rows = [(name, *(found[dtype] for dtype in DTYPES)) for name, found in by_operation.items()]
    print_table("Operations", ("operation", *DTYPES), rows)
    ratio = cost["checked"] / cost["plain"]
    note = f"A step with every operation checked takes {ratio:.2f}x as long."
    print_table("Keras under mixed_float16", ("what", "result"), by_layer.items(), note)
    if args.json:
        save(
            args.json,
            __file__,
            operations=by_operation,
            layers=by_layer,
            step_s=cost,
            checked_over_plain=ratio,
        )


if __name__ == "__main__":
    main()
