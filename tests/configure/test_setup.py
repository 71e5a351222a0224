"""What `configure_gpus` returns, and what it helps with."""

import json
from contextlib import contextmanager

import pytest

from keras_gpukit import GPUSetup
from keras_gpukit.configure.plan import plan
from keras_gpukit.configure.settings import check
from keras_gpukit.records import Build, GPUInfo, Machine, TensorFlowState

A100 = GPUInfo(0, "NVIDIA A100", "GPU-0", 40 << 30, (8, 0))


class TwoWorkers:
    def cluster_spec(self):
        return self

    def as_dict(self):
        return {"chief": ["a:1"], "worker": ["b:1"]}


class FourReplicas:
    num_replicas_in_sync = 4
    cluster_resolver = None
    entered = False

    @contextmanager
    def scope(self):
        self.entered = True
        yield


def setup(strategy=None, gpus=(A100,), **asked):
    state = TensorFlowState(
        visible_gpus=tuple(range(len(gpus))),
        growth=(True,) * len(gpus),
        memory_limit_mib=((1024, 2048),) * len(gpus),
    )
    machine = Machine(gpus=gpus, state=state, build=Build(cuda=False))
    settings = check(strategy=strategy or "none", logical_gpus=["1GiB", "2GiB"], **asked)
    return GPUSetup(
        devices=gpus,
        plan=plan(settings, machine),
        state=state,
        warnings=("mind the [gap]",),
        strategy=strategy,
    )


def test_replicas_scale_batch_and_learning_rate():
    made = setup(FourReplicas())
    assert made.replicas == 4
    assert made.global_batch_size(32) == 128
    assert made.scaled_learning_rate(0.1) == pytest.approx(0.4)
    alone = setup()
    assert (alone.replicas, alone.global_batch_size(32), alone.scaled_learning_rate(1)) == (
        1,
        32,
        1.0,
    )


@pytest.mark.parametrize(
    ("method", "value", "error"),
    [
        ("global_batch_size", 0, ValueError),
        ("global_batch_size", 1.0, TypeError),
        ("global_batch_size", True, TypeError),
        ("scaled_learning_rate", 0.0, ValueError),
        ("scaled_learning_rate", float("nan"), ValueError),
        ("scaled_learning_rate", "0.1", TypeError),
    ],
)
def test_scaling_refuses_what_it_cannot_scale(method, value, error):
    with pytest.raises(error, match="Received: "):
        getattr(setup(), method)(value)


def test_the_scope_is_the_strategys_or_does_nothing():
    strategy = FourReplicas()
    with setup(strategy).scope():
        assert strategy.entered
    with setup().scope():
        pass


@pytest.mark.parametrize(("jit", "compiles"), [(None, "auto"), (True, True), ("auto", True)])
def test_jit_is_handed_on_to_compile(jit, compiles):
    assert setup(jit=jit).jit_compile is compiles


def test_it_prints_as_a_table():
    text = str(setup(tf32=True))
    for words in (
        "NVIDIA A100",
        "GPU-0",
        "40 GiB",
        "8.0",
        "1 GiB + 2 GiB",
        "tf32",
        "mind the [gap]",
    ):
        assert words in text
    without = str(setup(gpus=()))
    assert "No GPU is used" in without
    assert "tensorflow[and-cuda]" in without
    assert "Without a GPU these do nothing: logical_gpus" in without


def test_it_is_plain_data_for_json():
    data = json.loads(json.dumps(setup(FourReplicas()).to_dict()))
    assert data["devices"][0]["compute_capability"] == [8, 0]
    assert data["strategy"] == "FourReplicas"
    assert data["replicas"] == 4
    assert data["warnings"] == ["mind the [gap]"]
    assert {action["kind"] for action in data["actions"]} >= {"visible_gpus", "given_strategy"}


@pytest.mark.tensorflow
def test_the_data_side_is_looked_at_before_training():
    import tensorflow as tf

    strategy = FourReplicas()
    dataset = tf.data.Dataset.range(70).batch(32)
    (advice,) = setup(strategy).input_advice(dataset)
    assert "The last batch of an epoch has 6 of 32 examples" in advice
    strategy.cluster_resolver = TwoWorkers()
    shards, _ = setup(strategy).input_advice(dataset)
    assert "Each of 2 workers reads all of the data" in shards
    assert setup().input_advice(dataset) == ()
