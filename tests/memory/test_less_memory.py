"""Accumulation and rematerialization: training is the same, and needs less memory."""

import collections
import contextlib
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import prepared
from helpers.training import arrays, compiled, small_model
from memory.cases.models import (
    INPUTS,
    ONE_SHAPE,
    TOKENS,
    Block,
    OwnStep,
    Subclassed,
    bidirectional_model,
    deterministic_model,
    difference,
    random_model,
    short_deterministic_model,
    short_random_model,
    short_token_model,
    token_model,
    trained,
)

import keras_gpukit as gpukit

ROUNDING = 2e-6


def plainly(model):
    return None


def in_parts(model):
    return gpukit.accumulate_gradients(model, micro_batches=3)


def in_segments(model):
    return gpukit.rematerialize(model, segments=3)


@contextlib.contextmanager
def in_both(model):
    with in_segments(model), in_parts(model):
        yield


def in_blocks(model):
    return gpukit.rematerialize(model, layers=model.blocks)


# Accumulation


@pytest.mark.parametrize(
    ("make", "inputs", "mode"),
    [
        (deterministic_model, INPUTS, {}),
        *(
            pytest.param(short_deterministic_model, *each, marks=pytest.mark.long)
            for each in (
                (ONE_SHAPE, {"jit_compile": True}),
                (INPUTS, {"run_eagerly": True}),
                (INPUTS, {"steps_per_execution": 2}),
            )
        ),
    ],
)
def test_parts_of_a_batch_make_the_same_update(make, inputs, mode):
    plain = trained(make(), plainly, inputs, **mode)
    assert difference(plain, trained(make(), in_parts, inputs, **mode)) < ROUNDING


def test_parts_work_with_a_training_step_of_the_users_own():
    # Batch statistics would differ: this step does not train them.
    plain, parts = trained(OwnStep(), plainly), trained(OwnStep(), in_parts)
    assert plain.updates == parts.updates
    for one, other in zip(plain.weights, parts.weights, strict=True):
        assert one == pytest.approx(other, abs=ROUNDING)


def test_parts_work_with_scaled_losses():
    def seeded():
        keras.utils.set_random_seed(7)
        return small_model()

    def scaling():  # not so much that a gradient overflows, whose update is left out
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=64.0)

    keras.config.set_dtype_policy("mixed_float16")
    try:
        plain, parts = (
            trained(seeded(), way, INPUTS[:, 0], optimizer=scaling()) for way in (plainly, in_parts)
        )
    finally:
        keras.config.set_dtype_policy("float32")
    assert plain.losses == pytest.approx(parts.losses, rel=0.01)
    assert plain.updates == parts.updates


def test_embeddings_are_accumulated():
    one, other = (trained(short_token_model(), way, TOKENS) for way in (plainly, in_parts))
    assert one.updates == other.updates
    assert np.isfinite(other.losses).all()


def test_a_batch_smaller_than_the_parts_is_trained_on():
    inputs, targets = arrays(1)
    plain, parts = small_model(), small_model()
    parts.set_weights(plain.get_weights())
    for model, way in ((plain, plainly), (parts, in_parts)):
        with way(model) or contextlib.nullcontext():
            model.fit(inputs[:2], targets[:2], verbose=0)
    for one, other in zip(plain.get_weights(), parts.get_weights(), strict=True):
        assert one == pytest.approx(other, abs=ROUNDING)


def test_a_step_that_applies_gradients_twice_is_refused():
    model = OwnStep()
    model.times = 2
    with pytest.raises(ValueError, match=r"applies gradients once.*OwnStep that did so 2 times"):
        trained(model, in_parts)


# Rematerialization


@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")  # Keras 3.16
@pytest.mark.parametrize(
    ("make", "way", "inputs", "mode"),
    [
        (random_model, in_segments, INPUTS, {}),
        (Subclassed, in_blocks, INPUTS, {}),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                (short_random_model, in_segments, ONE_SHAPE, {"jit_compile": True}),
                (random_model, in_segments, INPUTS, {"run_eagerly": True}),
                (token_model, in_segments, TOKENS, {}),
                (bidirectional_model, gpukit.rematerialize, TOKENS, {}),
            )
        ),
    ],
)
def test_what_is_computed_twice_is_drawn_and_updated_once(make, way, inputs, mode):
    plain = trained(make(), plainly, inputs, **mode)
    assert difference(plain, trained(make(), way, inputs, **mode)) < ROUNDING


def test_it_computes_twice(monkeypatch):
    calls = []
    monkeypatch.setattr(
        Block, "call", lambda self, inputs, call=Block.call: calls.append(0) or call(self, inputs)
    )
    trained(Subclassed(), in_blocks, run_eagerly=True)
    steps, blocks = 6, 2
    assert len(calls) >= 2 * steps * blocks


def test_by_default_a_small_model_has_two_segments_and_tokens_may_begin_the_first(monkeypatch):
    calls = collections.Counter()

    def count(kind):
        call = kind.call
        monkeypatch.setattr(
            kind, "call", lambda self, inputs: calls.update([kind.__name__]) or call(self, inputs)
        )

    count(keras.layers.Embedding)
    count(keras.layers.Dense)
    model = short_token_model()
    calls.clear()
    trained(model, gpukit.rematerialize, TOKENS, run_eagerly=True)
    steps, dense_layers = 6, 2  # both in the last segment, which is computed once
    assert calls == {"Embedding": 2 * steps, "Dense": steps * dense_layers}


@pytest.mark.parametrize("widths", [(8, 1), (1, 64)])
def test_a_model_with_a_single_place_is_divided_there(widths):
    with gpukit.rematerialize(compiled(*map(keras.layers.Dense, widths))):
        pass


class Noise(keras.layers.Layer):
    def call(self, inputs):
        return inputs * keras.random.uniform(tf.shape(inputs))


@pytest.mark.parametrize(
    ("layers", "options", "message"),
    [
        (
            lambda: [keras.layers.Dense(4, activity_regularizer="l2"), keras.layers.Dense(2)],
            {"segments": 2},
            "adds a loss during its call",
        ),
        (
            lambda: [keras.layers.Dense(4), Noise(name="noise")],
            {"layers": ["noise"]},
            r"state that is not its own.*layers=\['noise'\]",
        ),
    ],
    ids=["adds a loss", "draws from elsewhere"],
)
def test_a_layer_that_cannot_be_computed_twice_is_refused(layers, options, message):
    model = compiled(*layers(), keras.layers.Dense(1))
    with pytest.raises(ValueError, match=message):
        trained(model, lambda each: gpukit.rematerialize(each, **options), INPUTS[:, 0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"segments": 1}, ValueError, "segments=1"),
        ({"segments": 2.5}, TypeError, "segments=2.5"),
        ({"segments": 2, "layers": ["dense"]}, ValueError, "`segments` or `layers`"),
        ({"layers": ["missing"]}, ValueError, r"layers of the model: .*'missing'"),
        ({"layers": []}, ValueError, "at least one layer"),
        ({}, ValueError, "name its blocks by `layers`"),
    ],
)
def test_wrong_arguments_of_rematerialize_are_named(options, error, message):
    with pytest.raises(error, match=message), gpukit.rematerialize(small_model(), **options):
        pass


# Both


def test_both_are_undone_afterwards_and_a_layer_within_a_layer_can_be_named():
    model = short_deterministic_model()
    trained(model, plainly)
    before = set(vars(model))
    trained(model, in_both)
    assert set(vars(model)) == before
    assert model.train_function is None
    model = Subclassed()  # Keras lists layers within layers under a private name only
    name = model.blocks[0].dense.name
    trained(model, lambda each: gpukit.rematerialize(each, layers=[name]))


def test_both_can_be_saved_and_monitored(tmp_path):
    model = short_random_model()
    model.compile("sgd", "mse", jit_compile=False)
    monitor = gpukit.Monitor(None, verbose=False)
    saved = keras.callbacks.ModelCheckpoint(tmp_path / "model.keras")
    with in_both(model):
        model.fit(INPUTS, INPUTS[:, 0, :1], batch_size=16, verbose=0, callbacks=[monitor, saved])
    assert monitor.summary.steps == 3
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.predict(INPUTS, verbose=0) == pytest.approx(
        model.predict(INPUTS, verbose=0), abs=ROUNDING
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: small_model().inputs, TypeError, "must be a compiled keras.Model"),
        (lambda: keras.Sequential([keras.layers.Dense(1)]), ValueError, "call model.compile"),
        (
            lambda: small_model(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2)),
            ValueError,
            "gradient_accumulation_steps=2",
        ),
        (
            lambda: small_model(loss=keras.losses.MeanSquaredError(reduction="sum")),
            ValueError,
            "reduction='sum'",
        ),
    ],
)
def test_a_model_that_cannot_be_trained_in_parts_is_refused(make, error, message):
    with pytest.raises(error, match=message), in_parts(make()):
        pass


REPLICAS = """
import json
from helpers.training import mirrored_cpus
from memory.cases import models
import keras_gpukit as gpukit

def apart(make, way):
    plain = models.trained(make(), lambda model: None)
    return models.difference(plain, models.trained(make(), way))

with mirrored_cpus().scope():
    parts = lambda model: gpukit.accumulate_gradients(model, micro_batches=3)
    twice = lambda model: gpukit.rematerialize(model, segments=3)
    found = [
        apart(models.short_deterministic_model, parts), apart(models.short_random_model, twice)
    ]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.long
def test_two_replicas_train_the_same(run_script):
    done = run_script(REPLICAS)
    assert max(json.loads(done.stdout.splitlines()[-1])) < ROUNDING


PEAKS = """
import contextlib, gc, json
import keras
import numpy as np
import tensorflow as tf
import keras_gpukit as gpukit

def build():  # without convolutions, whose workspace does not follow the batch on a CPU
    keras.utils.set_random_seed(0)
    layers = [keras.Input((32, 32, 3))]
    for _ in range(6):
        layers += [keras.layers.Dense(32, "relu"), keras.layers.Dropout(0.1)]
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    return model

def peak_bytes(way):
    model, batch = build(), (np.ones((16, 32, 32, 3), "float32"), np.zeros(16, "int32"))
    with way(model):
        model.train_on_batch(*batch)
        held = tf.config.experimental.get_memory_info("CPU:0")["current"]
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(*batch)
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - held

ways = {
    "plain": lambda model: contextlib.nullcontext(),
    "accumulation": lambda model: gpukit.accumulate_gradients(model, micro_batches=4),
    "rematerialization": gpukit.rematerialize,
}
peaks = {name: [] for name in ways}
for _ in range(3):  # operations that run side by side hold more at times
    for name, way in ways.items():
        peaks[name].append(peak_bytes(way))
        gc.collect()
print(json.dumps({name: min(measured) for name, measured in peaks.items()}))
"""


@pytest.mark.slow
@pytest.mark.long
def test_memory_falls(run_script):
    done = run_script(PEAKS, **prepared.COUNTING)
    peaks = json.loads(done.stdout.splitlines()[-1])
    assert peaks["accumulation"] < 0.4 * peaks["plain"]  # four parts, one at a time
    assert peaks["rematerialization"] < 0.7 * peaks["plain"]
