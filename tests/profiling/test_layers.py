"""Captures of an H100 and of a CPU: whole, their parts, kinds of kernels, and time by layer."""

from __future__ import annotations

import lzma
import re
from collections import Counter
from pathlib import Path

import pytest
from helpers.recorded_profiles import CASES, read_recorded

from keras_gpukit.profiling import read_profile

LARGEST_KINDS = {  # captures of a few steps with TensorFlow 2.21, Keras 3.15 and cuDNN 9
    "convolutional": {"elementwise", "convolution", "reduction"},
    "launch_spe8": {"elementwise", "matmul"},
    "lstm": {"matmul", "elementwise"},  # a bidirectional LSTM and a GRU, by cuDNN
    "mirrored": {"elementwise", "convolution"},  # two logical GPUs
    "transformer": {"matmul", "reduction"},
    "transformer_jit": {"matmul", "elementwise"},  # compiled by XLA
}
PLANTED = Path(__file__).parents[2] / "benchmarks/results/gpu/compute"


@pytest.fixture
def read(tmp_path):
    """Returns a function that reads a capture by its name."""

    def read_one(name):
        if (CASES / f"{name}.xplane.pb.gz").exists():
            return read_recorded(name)
        if not PLANTED.exists():
            pytest.skip("this capture is not in the sdist")
        path = tmp_path / f"{name}.xplane.pb"
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


@pytest.mark.parametrize("name", [*LARGEST_KINDS, "cpu"])
def test_the_layers_add_up_to_the_computation(read, name):
    profile = read(name)
    computed_s = profile.parts_s["device compute" if profile.devices else "host compute"]
    assert sum(layer.time_s for layer in profile.layers) == pytest.approx(computed_s, rel=0.01)
    for layer in profile.layers:
        assert sum(layer.kinds_s.values()) == pytest.approx(layer.time_s)
        assert layer.backward_s <= layer.time_s


@pytest.mark.parametrize("name", LARGEST_KINDS)
def test_every_capture_is_whole_its_parts_add_up_and_nearly_all_kernels_have_a_kind(read, name):
    profile = read(name)
    assert (profile.problems, profile.incomplete_because) == ((), None)
    assert profile.steps > 0
    assert sum(profile.parts_s.values()) == pytest.approx(profile.step_time_s, rel=0.01)
    # All of these pipelines had their batches ready.
    assert profile.stall_fraction < 0.06
    assert profile.kinds_s.get("other", 0.0) < 0.02 * sum(profile.kinds_s.values())
    largest = sorted(profile.kinds_s, key=profile.kinds_s.get, reverse=True)
    assert LARGEST_KINDS[name] <= set(largest[:4])


@pytest.mark.parametrize("name", ["launch_spe8", "lstm"])
def test_a_gpu_that_waits_for_launches_shows_it_in_executions_of_several_steps_too(read, name):
    parts_s = read(name).parts_s
    assert parts_s["kernel launch"] > 2 * parts_s["device compute"]
    assert parts_s["kernel launch"] > 4 * parts_s["idle"]
    profile = read("launch_spe8")
    assert (profile.steps, profile.steps_per_execution) == (8, 8)


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


def test_nested_layers_loops_and_replicas_are_named_once(read):
    paths = {layer.path for layer in read("lstm").layers}
    assert {"sequential/bidirectional/forward_lstm", "sequential/gru"} <= paths
    replicated = read("mirrored")
    assert Counter(layer.path for layer in replicated.layers)["sequential/conv2d"] == 1
    assert not any("replica" in layer.path for layer in replicated.layers)
    looped = {layer.path for layer in read("recurrent_dropout-wasteful").layers}
    assert "sequential_12/lstm/lstm_cell" in looped
