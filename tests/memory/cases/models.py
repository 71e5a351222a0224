"""Models that are trained plainly and with less memory, and what differs then."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np

LENGTH, FEATURES = 6, 8
_RANDOM = np.random.default_rng(0)
INPUTS = _RANDOM.normal(size=(44, LENGTH, FEATURES)).astype("float32")
TOKENS = _RANDOM.integers(0, 20, size=(44, LENGTH))
TARGETS = INPUTS.sum(axis=(1, 2))[:, None]
BATCH = 16  # the last one has 12
ONE_SHAPE = INPUTS[: 2 * BATCH]  # XLA compiles a step for each shape, which takes seconds


class Trained(NamedTuple):
    losses: list[float]
    weights: list[np.ndarray]  # with the averages of batch normalization
    states: list[np.ndarray]  # with the seeds of random layers
    updates: int


def trained(model: keras.Model, less_memory: Any, inputs=INPUTS, **compile_options) -> Trained:
    """Trains for two epochs.

    Args:
        model: The model.
        less_memory: Takes the compiled model; returns the context to train in, or None.
        inputs: What to train on.
        **compile_options: Of `compile`.
    """
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.7)
    # Plain: others make rounding errors of tiny gradients as large as any update.
    options = {"optimizer": keras.optimizers.SGD(rate), "loss": "mse", "jit_compile": False}
    model.compile(**{**options, **compile_options})
    with less_memory(model) or contextlib.nullcontext():
        given = inputs, TARGETS[: len(inputs)]
        fit = model.fit(*given, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    return Trained(
        fit.history["loss"],
        model.get_weights(),
        [np.asarray(each.value) for each in model.non_trainable_variables],
        int(keras.ops.convert_to_numpy(model.optimizer.iterations)),
    )


def difference(one: Trained, other: Trained) -> float:
    """The largest difference between the two, of losses as a share."""
    assert one.updates == other.updates
    pairs = [*zip(one.weights, other.weights, strict=True)]
    pairs += zip(one.states, other.states, strict=True)
    apart = [float(np.abs(a.astype(float) - b).max()) for a, b in pairs]
    losses = np.asarray(one.losses) / np.asarray(other.losses) - 1
    return max([*apart, float(np.abs(losses).max())])


def deterministic_model() -> keras.Model:
    """Without random layers and batch statistics, so that parts of a batch add up to it."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((LENGTH, FEATURES))
    hidden = keras.layers.Dense(16, "gelu", kernel_regularizer="l2")(inputs)
    hidden = keras.layers.SimpleRNN(8)(keras.layers.LayerNormalization()(hidden))
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def random_model() -> keras.Model:
    """With all that must not be drawn or updated twice, in a row and around a residual."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((LENGTH, FEATURES))
    hidden = keras.layers.Dense(16, "relu")(inputs)
    attended = keras.layers.MultiHeadAttention(2, 8, dropout=0.2)(hidden, value=hidden)
    hidden = keras.layers.BatchNormalization()(hidden + attended)
    hidden = keras.layers.Dropout(0.3)(hidden)
    # Its loop is traced fastest.
    hidden = keras.layers.SimpleRNN(8, return_sequences=True, dropout=0.2)(hidden)
    hidden = keras.layers.Dense(8, "relu")(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(hidden)))


def short_model(*inner: Callable[[], keras.Layer]) -> keras.Model:
    """A model that is compiled fast, for what takes long with loops and attention."""
    keras.utils.set_random_seed(7)
    layers = [
        keras.Input((LENGTH, FEATURES)),
        keras.layers.Dense(16, "gelu", kernel_regularizer="l2"),
        *(make() for make in inner),
        keras.layers.Flatten(),
        keras.layers.Dense(1),
    ]
    return keras.Sequential(layers)


def short_deterministic_model() -> keras.Model:
    """Like `deterministic_model`."""
    return short_model(keras.layers.LayerNormalization)


def short_random_model() -> keras.Model:
    """Like `random_model`."""
    return short_model(keras.layers.BatchNormalization, lambda: keras.layers.Dropout(0.3))


def token_model() -> keras.Model:
    """Masked tokens, whose embedding has a sparse gradient."""
    keras.utils.set_random_seed(7)
    layers = [
        keras.Input((LENGTH,)),
        keras.layers.Embedding(20, 16, mask_zero=True),
        keras.layers.SimpleRNN(16, return_sequences=True),
        keras.layers.Dropout(0.2),
        keras.layers.SimpleRNN(8),
        keras.layers.Dense(1),
    ]
    return keras.Sequential(layers)


def bidirectional_model() -> keras.Model:
    """With fewer places to be divided at than make two segments by their square root."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.Embedding(20, 8)(inputs)
    inner = keras.layers.SimpleRNN(4, return_sequences=True)
    hidden = keras.layers.Bidirectional(inner)(hidden)
    hidden = keras.layers.Bidirectional(keras.layers.SimpleRNN(4))(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def short_token_model() -> keras.Model:
    """Tokens in the first of two segments."""
    keras.utils.set_random_seed(7)
    layers = [
        keras.Input((LENGTH,), dtype="int32"),
        keras.layers.Embedding(20, 8),
        keras.layers.Flatten(),
        keras.layers.Dense(48),
        keras.layers.Dense(1),
    ]
    return keras.Sequential(layers)


class Block(keras.layers.Layer):
    """Passes `training` on to nothing: its layers take it from the call that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(FEATURES)
        self.norm = keras.layers.BatchNormalization()
        self.drop = keras.layers.Dropout(0.3)

    def build(self, shape):
        self.dense.build(shape)
        self.norm.build(shape)

    def call(self, inputs):
        return inputs + self.drop(self.norm(self.dense(inputs)))


class Subclassed(keras.Model):
    def __init__(self) -> None:
        keras.utils.set_random_seed(7)
        super().__init__()
        self.blocks = [Block(), Block()]
        self.flatten = keras.layers.Flatten()
        self.head = keras.layers.Dense(1)

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return self.head(self.flatten(inputs))


class OwnStep(Subclassed):
    """With a training step of its own, which applies gradients as many times as it is asked to."""

    times = 1

    def train_step(self, data):
        import tensorflow as tf

        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=False))
        gradients = tape.gradient(loss, self.trainable_variables)
        for _ in range(self.times):
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}
