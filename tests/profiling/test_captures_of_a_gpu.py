"""Profiles that an H100 recorded: TensorFlow 2.21, Keras 3.15, cuDNN 9, a few steps each."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from keras_gpukit.profiling import read_profile

CASES = Path(__file__).parent / "cases"
LARGEST_KINDS = {
    "convolutional": {"elementwise", "convolution", "reduction"},
    "launch_spe8": {"elementwise", "matmul"},
    "lstm": {"matmul", "elementwise"},  # a bidirectional LSTM and a GRU, by cuDNN
    "mirrored": {"elementwise", "convolution"},  # two logical GPUs
    "transformer": {"matmul", "reduction"},
    "transformer_jit": {"matmul", "elementwise"},  # compiled by XLA
}


@pytest.fixture(params=sorted(LARGEST_KINDS))
def name(request):
    return request.param


@pytest.fixture
def profile(name, tmp_path):
    path = tmp_path / f"{name}.xplane.pb"
    path.write_bytes(gzip.decompress((CASES / f"{path.name}.gz").read_bytes()))
    return read_profile(path)


def test_every_profile_is_whole_and_its_parts_add_up(profile):
    assert profile.problems == ()
    assert profile.incomplete_because is None
    assert profile.steps > 0
    assert sum(profile.parts_s.values()) == pytest.approx(profile.step_time_s, rel=0.01)
    # All of these pipelines had their batches ready.
    assert profile.stall_fraction < 0.06


def test_nearly_all_kernels_have_a_kind(profile, name):
    compute_s = sum(profile.kinds_s.values())
    assert profile.kinds_s.get("other", 0.0) < 0.02 * compute_s
    largest = sorted(profile.kinds_s, key=profile.kinds_s.get, reverse=True)
    assert LARGEST_KINDS[name] <= set(largest[:4])


@pytest.mark.parametrize("name", ["launch_spe8", "lstm"])
def test_a_gpu_that_waits_for_launches_shows_it(profile):
    parts_s = profile.parts_s
    assert parts_s["kernel launch"] > 2 * parts_s["device compute"]
    assert parts_s["kernel launch"] > 4 * parts_s["idle"]


@pytest.mark.parametrize("name", ["launch_spe8"])
def test_steps_of_an_execution_are_told_apart(profile):
    assert (profile.steps, profile.steps_per_execution) == (8, 8)
