"""Which changes suit a model and its data, and how they are made."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.training import arrays, small_model

from keras_gpukit.records import GPUInfo
from keras_gpukit.tuning.made_changes import with_batches_of
from keras_gpukit.tuning.training_changes import propose

X, Y = arrays(4)  # 64 examples
A100 = GPUInfo(0, "NVIDIA A100", compute_capability=(8, 0))


def arguments(x=X, **given):
    defaults = {"batch_size": None, "validation_split": 0.0, "steps_per_epoch": None}
    return {"x": x, **defaults, **given}


def proposed(model=None, given=None, step_s=0.001, gpus=()):
    found = propose(model or small_model(), given or arguments(), step_s, gpus)
    return {each.name: each for each in found}


def test_arrays_and_a_graph():
    found = proposed()
    assert set(found) == {
        "input",
        "jit",
        "steps-per-execution",
        "mixed-precision",
        "memory-pool",
        "batch-size",
    }
    assert "neither a tf.data pipeline" in found["input"].blocked
    assert found["jit"].compiled == {"jit_compile": True}
    assert found["batch-size"].batch_size == 64  # all there are, instead of 128
    assert found["steps-per-execution"].compiled == {"steps_per_execution": 2}  # an epoch's
    assert not found["mixed-precision"].by_default  # on a CPU


def test_what_is_so_already_is_not_proposed_again():
    found = proposed(small_model(jit_compile=True, steps_per_execution=4))
    assert "jit" not in found
    assert found["no-jit"].compiled == {"jit_compile": False}
    assert found["steps-per-execution"].blocked == "4 steps make one execution already"
    assert "graph" in proposed(small_model(run_eagerly=True))


def test_long_steps_are_not_joined_and_a_gpu_gets_its_precision():
    found = proposed(step_s=0.2, gpus=(A100,))
    assert found["steps-per-execution"].blocked == "starting a step takes little of its 200 ms"
    assert found["mixed-precision"].policy == "mixed_bfloat16"
    assert found["mixed-precision"].by_default


@pytest.mark.parametrize("drop", [False, True])
def test_the_batches_of_a_pipeline_get_another_size(drop):
    whole = tf.data.Dataset.range(100).batch(8, drop_remainder=drop)
    pipeline = whole.prefetch(2).repeat(3)
    found = proposed(given=arguments(pipeline))
    assert found["input"].blocked == ""
    assert found["batch-size"].batch_size == 32
    sizes = [len(each) for each in with_batches_of(pipeline, 32)]
    assert sizes == 3 * ([32, 32, 32] if drop else [32, 32, 32, 4])


def test_a_py_dataset_makes_its_own_batches():
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return np.ones((4, 8)), np.ones((4, 1))

    found = proposed(given=arguments(Batches()))
    assert "cannot be changed from outside" in found["batch-size"].blocked
