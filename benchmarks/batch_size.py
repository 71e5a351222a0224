"""Whether `find_batch_size` finds the largest batch size that really trains, and how fast it is.

    python benchmarks/batch_size.py --json benchmarks/results/batch_size.json

Each model trains on a CPU whose allocator has a planted limit (TF_CPU_ALLOCATOR_USE_BFC), in
processes of their own. The true largest batch size is bisected by real fits: three epochs of four
full batches and a smaller one, eight times, each in a process of its own, with the pipeline below.
Where TensorFlow runs several operations at a time, their order changes, and with it the peak: the
same batch size trains once and runs out next, so no single size is the largest. Therefore
operations run one by one here (TF_NUM_INTEROP_THREADS), in the search and in the fits. How often
the model trains with the batch size that was recommended is counted by as many fits.
`--inter-op-threads 0` shows how it is where TensorFlow chooses.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from typing import Any

LIMITS_MIB = {
    "deep dense": 128,
    "convolutional": 192,
    "residual": 192,
    "attention": 160,
    "U-Net": 192,
    "recommender": 128,
    "MobileNetV2": 256,
    "LSTM": 128,
    "text": 128,
    "autoencoder": 128,
    "wide dense": 128,
}
CLEAR = tuple(LIMITS_MIB)[:6]
"""Those with a largest batch size that shows in time. "MobileNetV2" takes ten seconds to trace in
each process, so that the search has few of them. With the others chance decides over a tenth of the
batch sizes: the loop of the LSTM runs several turns at once, and one tensor takes a tenth of the
memory in "text" and "wide dense", a fifth in "autoencoder"."""
EPOCHS, STEPS = 3, 4
FIT_S = 60
"""They take about ten seconds. One that is not done then waits for memory at one operation after
the other."""
FITS = 8
"""That must all come to their end for a batch size to count as one that trains."""
WITHIN = 0.05


def build(name: str) -> Any:
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(0)
    if name == "deep dense":
        outputs = inputs = keras.Input((784,))
        for _ in range(12):
            outputs = layers.Dropout(0.2)(layers.Dense(256, "relu")(outputs))
        model = keras.Model(inputs, layers.Dense(10)(outputs))
    elif name == "wide dense":
        inputs = keras.Input((784,))
        outputs = layers.Dense(1024, "relu")(
            layers.Dropout(0.2)(layers.Dense(2048, "relu")(inputs))
        )
        model = keras.Model(inputs, layers.Dense(10)(outputs))
    elif name == "convolutional":
        outputs = inputs = keras.Input((32, 32, 3))
        for filters in (32, 48, 64):
            outputs = layers.Conv2D(filters, 3, padding="same", use_bias=False)(outputs)
            outputs = layers.ReLU()(layers.BatchNormalization()(outputs))
        model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(outputs)))
    elif name == "residual":
        inputs = keras.Input((32, 32, 3))
        outputs = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
        for _ in range(3):
            before, outputs = outputs, layers.Conv2D(32, 3, padding="same")(outputs)
            outputs = layers.ReLU()(layers.BatchNormalization()(outputs))
            outputs = layers.Add()([before, layers.Conv2D(32, 3, padding="same")(outputs)])
        model = keras.Model(inputs, layers.Dense(10)(layers.Flatten()(outputs)))
    elif name == "MobileNetV2":
        model = keras.applications.MobileNetV2(
            weights=None, input_shape=(64, 64, 3), classes=10, alpha=0.5
        )
    elif name == "LSTM":
        inputs = keras.Input((60, 16))
        outputs = layers.LSTM(96)(layers.LSTM(96, return_sequences=True)(inputs))
        model = keras.Model(inputs, layers.Dense(10)(outputs))
    elif name == "text":
        # Convolutions over three, four and five words.
        inputs = keras.Input((64,), dtype="int32")
        words = layers.Embedding(5000, 64)(inputs)
        maxima = [
            layers.GlobalMaxPooling1D()(layers.Conv1D(64, width, activation="relu")(words))
            for width in (3, 4, 5)
        ]
        outputs = layers.Dropout(0.5)(layers.Concatenate()(maxima))
        model = keras.Model(inputs, layers.Dense(10)(outputs))
    elif name == "U-Net":
        model = u_net()
    elif name == "recommender":
        return recommender()
    elif name == "autoencoder":
        return autoencoder()
    else:
        return attention()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=name != "MobileNetV2")
    model.compile("adam", loss, jit_compile=False)
    return model


def u_net() -> Any:
    """An encoder, and a decoder that gets what each stage of the encoder found; labels pixels."""
    import keras

    layers = keras.layers

    def twice(outputs: Any, filters: int) -> Any:
        for _ in range(2):
            outputs = layers.Conv2D(filters, 3, padding="same", use_bias=False)(outputs)
            outputs = layers.ReLU()(layers.BatchNormalization()(outputs))
        return outputs

    outputs = inputs = keras.Input((32, 32, 3))
    skips = []
    for filters in (16, 32):
        skips.append(twice(outputs, filters))
        outputs = layers.MaxPooling2D()(skips[-1])
    outputs = twice(outputs, 64)
    for filters in (32, 16):
        outputs = layers.Conv2DTranspose(filters, 2, strides=2)(outputs)
        outputs = twice(layers.Concatenate()([skips.pop(), outputs]), filters)
    return keras.Model(inputs, layers.Conv2D(10, 1)(outputs))


def recommender() -> Any:
    """Whether a user takes an item: a table for each, and dense layers."""
    import keras

    layers = keras.layers
    user, item = (keras.Input((), dtype="int32", name=name) for name in ("user", "item"))
    outputs = layers.Concatenate()(
        [layers.Embedding(20_000, 32)(user), layers.Embedding(5_000, 32)(item)]
    )
    for units in (128, 128, 64, 64, 32):
        outputs = layers.Dropout(0.2)(layers.Dense(units, "relu")(outputs))
    model = keras.Model({"user": user, "item": item}, layers.Dense(1)(outputs))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    return model


def autoencoder() -> Any:
    """Images through 32 numbers."""
    import keras

    layers = keras.layers
    outputs = inputs = keras.Input((28, 28, 1))
    for filters in (32, 64):
        outputs = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(outputs)
    outputs = layers.Dense(32)(layers.Flatten()(outputs))
    outputs = layers.Reshape((7, 7, 64))(layers.Dense(7 * 7 * 64, "relu")(outputs))
    for filters in (64, 32):
        outputs = layers.Conv2DTranspose(filters, 3, strides=2, padding="same", activation="relu")(
            outputs
        )
    model = keras.Model(inputs, layers.Conv2D(1, 3, padding="same")(outputs))
    model.compile("adam", "mse", jit_compile=False)
    return model


def attention() -> Any:
    """Two inputs and a `train_step` of its own, by a class that Keras cannot load elsewhere."""
    import keras
    import tensorflow as tf

    layers = keras.layers

    class Clipped(keras.Model):
        def train_step(self, data):
            inputs, targets = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(inputs, targets, self(inputs, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            clipped = [tf.clip_by_norm(each, 1.0) for each in gradients]
            self.optimizer.apply_gradients(zip(clipped, self.trainable_variables, strict=True))
            return {"loss": loss}

    tokens = keras.Input((64,), dtype="int32", name="tokens")
    table = keras.Input((16,), name="table")
    words = layers.Embedding(1000, 64)(tokens)
    for _ in range(2):
        words = layers.LayerNormalization()(words + layers.MultiHeadAttention(4, 16)(words, words))
        words = layers.LayerNormalization()(
            words + layers.Dense(64)(layers.Dense(128, "gelu")(words))
        )
    joined = layers.Concatenate()([layers.GlobalAveragePooling1D()(words), table])
    model = Clipped({"tokens": tokens, "table": table}, layers.Dense(10)(joined))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=False)
    return model


def pipeline(name: str, batch_size: int, rows: int) -> Any:
    """A few examples, repeated; the input takes the same memory in each fit."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 50)
    if name == "attention":
        tokens = rng.integers(0, 1000, (50, 64)).astype("int32")
        table = rng.normal(size=(50, 16)).astype("float32")
        examples: Any = {"tokens": tokens, "table": table}, labels
    elif name == "text":
        examples = rng.integers(0, 5000, (50, 64)).astype("int32"), labels
    elif name == "recommender":
        user = rng.integers(0, 20_000, 50).astype("int32")
        item = rng.integers(0, 5_000, 50).astype("int32")
        examples = {"user": user, "item": item}, rng.integers(0, 2, (50, 1)).astype("float32")
    else:
        shapes = {
            "deep dense": (784,),
            "wide dense": (784,),
            "convolutional": (32, 32, 3),
            "residual": (32, 32, 3),
            "U-Net": (32, 32, 3),
            "autoencoder": (28, 28, 1),
            "MobileNetV2": (64, 64, 3),
            "LSTM": (60, 16),
        }
        inputs = rng.normal(size=(50, *shapes[name])).astype("float32")
        targets = {"U-Net": rng.integers(0, 10, (50, 32, 32)), "autoencoder": inputs}
        examples = inputs, targets.get(name, labels)
    dataset = tf.data.Dataset.from_tensor_slices(examples).repeat().take(rows)
    # Without autotuning the batches that are ready, which lie in the same memory on a CPU, are two.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.batch(batch_size).prefetch(2).with_options(options)


def find(name: str) -> dict[str, Any]:
    """What a process of its own does."""
    import keras_gpukit as gpukit
    from keras_gpukit.records.codec import to_dict

    # Keras saves the other models with all they need.
    model = functools.partial(build, name) if name == "attention" else build(name)
    search = gpukit.find_batch_size(
        model, pipeline(name, 32, 320_000), isolated=True, verbose=False
    )
    return {"found": to_dict(search)}


def fit(name: str, batch_size: int) -> dict[str, Any]:
    """What a process of its own does, if it does not run out of memory."""
    import tensorflow as tf

    rows = STEPS * batch_size + batch_size // 3
    build(name).fit(pipeline(name, batch_size, rows), epochs=EPOCHS, verbose=0)
    return {"peak_bytes": tf.config.experimental.get_memory_info("CPU:0")["peak"]}


def in_own_process(what: str, name: str, *arguments: str) -> dict[str, Any] | None:
    """Returns what it printed; None if it ended by an error, or not in time."""
    environment = {
        **os.environ,
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMITS_MIB[name]),
        "TF_ENABLE_ONEDNN_OPTS": "0",  # with it, TensorFlow ends by a segmentation fault
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    try:
        done = subprocess.run(
            [sys.executable, __file__, f"--{what}", name, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=None if what == "find-here" else subprocess.DEVNULL,
            text=True,
            timeout=900 if what == "find-here" else FIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines and not done.returncode else None


def fits(name: str, batch_size: int) -> bool:
    """Whether each of `FITS` fits comes to its end."""
    fitted = all(in_own_process("fit-here", name, str(batch_size)) for _ in range(FITS))
    print(f"  {name}: {batch_size} {'fits' if fitted else 'does not fit'}", flush=True)
    return fitted


def bisect(name: str, near: int, near_fits: bool) -> int:
    """The largest batch size that trains in all of `FITS` fits, to 1 %."""
    step = max(near // 20, 1)
    if near_fits:
        low, high = near, near + step
        while fits(name, high):
            step *= 2
            low, high = high, high + step
    else:
        low, high = near - step, near
        while not fits(name, low):
            low, high = low - step, low
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(name, middle) else (low, middle)
    return low


def measure(name: str) -> dict[str, Any]:
    began = time.perf_counter()
    answer = in_own_process("find-here", name)
    assert answer is not None
    took_s = time.perf_counter() - began
    found = answer["found"]
    largest = found["largest"]
    print(f"  {name}: {largest} found in {took_s:.0f} s, {len(found['trials'])} trials", flush=True)
    held = sum(in_own_process("fit-here", name, str(largest)) is not None for _ in range(FITS))
    print(f"  {name}: {held} of {FITS} fits with it came to their end", flush=True)
    true = bisect(name, largest, held == FITS)
    return {
        "model": name,
        "limit_mib": LIMITS_MIB[name],
        "largest": largest,
        "true": true,
        "below_true_percent": round(100 * (1 - largest / true), 1),
        "seconds": round(took_s),
        "trials_of_memory": sum(each["rate"] is None for each in found["trials"]),
        "predicted": found["predicted_largest"],
        "fits_that_held": f"{held} of {FITS}",
        "fastest": found["fastest"],
        "found": found,
    }


def main() -> None:
    from harness import argument_parser, print_table
    from results_file import save, saved_rows

    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="*", help="models to run, besides what --json has")
    parser.add_argument("--inter-op-threads", type=int, default=1)
    options = parser.parse_args()
    os.environ["TF_NUM_INTEROP_THREADS"] = str(options.inter_op_threads)
    rows = saved_rows(options.json, "models") if options.only else {}
    for name in options.only or CLEAR:
        rows[name] = measure(name)
        if options.json:
            save(
                options.json,
                __file__,
                within=WITHIN,
                epochs=EPOCHS,
                steps=STEPS,
                fits=FITS,
                inter_op_threads=options.inter_op_threads,
                models=rows,
            )
    near = sum(abs(row["below_true_percent"]) <= 100 * WITHIN for row in rows.values())
    shown = [{key: value for key, value in row.items() if key != "found"} for row in rows.values()]
    print_table(
        f"found within {WITHIN:.0%} of the true one: {near} of {len(rows)}",
        list(shown[0]),
        [[str(value) for value in row.values()] for row in shown],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--find-here"]:
        print(json.dumps(find(sys.argv[2])))
    elif sys.argv[1:2] == ["--fit-here"]:
        print(json.dumps(fit(sys.argv[2], int(sys.argv[3]))))
    else:
        main()
