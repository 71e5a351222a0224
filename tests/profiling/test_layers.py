"""Time by layer, in captures of an H100 and of a CPU."""

from __future__ import annotations

import gzip
import lzma
import re
from collections import Counter
from pathlib import Path

import pytest

from keras_gpukit.profiling import read_profile

CASES = Path(__file__).parent / "cases"
PLANTED = Path(__file__).parents[2] / "benchmarks/results/gpu/compute"


@pytest.fixture
def read(tmp_path):
    """Returns a function that reads a capture by its name."""

    def read_one(name):
        path = tmp_path / f"{name}.xplane.pb"
        packed = CASES / f"{path.name}.gz"
        if not packed.exists() and not PLANTED.exists():
            pytest.skip("this capture is not in the sdist")
        if packed.exists():
            path.write_bytes(gzip.decompress(packed.read_bytes()))
        else:
            path.write_bytes(lzma.decompress((PLANTED / f"{path.name}.xz").read_bytes()))
        return read_profile(path)

    return read_one


def time_of(profile, *, kind=None, role=None, part=""):
    """Returns the share of the layers' time, 0 to 1, that fits."""
    chosen = [
        sum(layer.kinds_s.values()) if kind is None else layer.kinds_s.get(kind, 0.0)
        for layer in profile.layers
        if part in layer.path and role in (None, layer.role)
    ]
    return sum(chosen) / sum(layer.time_s for layer in profile.layers)


@pytest.mark.parametrize(
    "name",
    ["convolutional", "cpu", "launch_spe8", "lstm", "mirrored", "transformer", "transformer_jit"],
)
def test_the_layers_add_up_to_the_computation(read, name):
    profile = read(name)
    computed_s = profile.parts_s["device compute" if profile.devices else "host compute"]
    assert sum(layer.time_s for layer in profile.layers) == pytest.approx(computed_s, rel=0.01)
    for layer in profile.layers:
        assert sum(layer.kinds_s.values()) == pytest.approx(layer.time_s)
        assert layer.backward_s <= layer.time_s


def test_batch_normalization_takes_two_thirds_of_a_convolutional_model(read):
    profile = read("convolutional")
    assert 0.6 < time_of(profile, part="batch_normalization") < 0.7


@pytest.mark.parametrize("name", ["convolutional", "transformer", "batch_normalization-fixed"])
def test_layers_are_in_the_models_order(read, name):
    layers = read(name).layers
    numbers = [
        int(match[1] or 0)
        for layer in layers
        if (match := re.search(r"/(?:batch_normalization|layer_normalization)_?(\d*)$", layer.path))
    ]
    assert len(numbers) >= 8
    assert numbers == sorted(numbers)
    roles = [layer.role for layer in layers]
    assert roles.index("loss") > roles.index("layer")


def test_the_bias_gradient_takes_a_quarter_of_a_transformer(read):
    profile = read("transformer")
    assert 0.2 < time_of(profile, kind="bias gradient") < 0.27
    dense = next(layer for layer in profile.layers if layer.path == "functional_5/dense_8")
    assert "BiasAddGrad" in dense.largest[0].operation
    assert 0.5 < dense.backward_s / dense.time_s < 0.8


@pytest.mark.parametrize("name", ["transformer_jit", "optimizer-fixed", "many_variables-fixed"])
def test_what_xla_fused_belongs_to_its_layers(read, name):
    profile = read(name)
    assert time_of(profile, role="other") < 0.08
    assert time_of(profile, part="dense") > 0.2


@pytest.mark.parametrize(
    ("name", "part", "role"),
    [
        ("optimizer-wasteful", "optimizer", "optimizer"),
        ("embedding-wasteful", "optimizer", "optimizer"),
        ("float64-wasteful", "/precise", "layer"),
        ("small_products-wasteful", "/heads", "layer"),
    ],
)
def test_the_layer_that_takes_most_of_a_step_is_first(read, name, part, role):
    largest = max(read(name).layers, key=lambda layer: layer.time_s)
    assert part in largest.path
    assert largest.role == role
    assert largest.time_s > 0.5 * sum(layer.time_s for layer in read(name).layers)


def test_nested_layers_loops_and_replicas_are_named_once(read):
    paths = {layer.path for layer in read("lstm").layers}
    assert {"sequential/bidirectional/forward_lstm", "sequential/gru"} <= paths
    replicated = read("mirrored")
    assert Counter(layer.path for layer in replicated.layers)["sequential/conv2d"] == 1
    assert not any("replica" in layer.path for layer in replicated.layers)
    looped = {layer.path for layer in read("recurrent_dropout-wasteful").layers}
    assert "sequential_12/lstm/lstm_cell" in looped
