"""What `configure_gpus` returns, what TensorFlow has after it, and what the guide on NaN shows."""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import prepared
from helpers.processes import ROOT, environment

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
    number = len(gpus)
    limits = ((1024, 2048),) * number
    state = TensorFlowState(tuple(range(number)), (True,) * number, memory_limit_mib=limits)
    machine = Machine(gpus=gpus, state=state, build=Build(cuda=False))
    settings = check(strategy=strategy or "none", logical_gpus=["1GiB", "2GiB"], **asked)
    made = {"plan": plan(settings, machine), "state": state, "strategy": strategy}
    return GPUSetup(devices=gpus, warnings=("mind the [gap]",), **made)


def test_replicas_scale_batch_and_learning_rate_and_what_cannot_be_scaled_is_refused():
    made = setup(FourReplicas())
    assert made.replicas == 4
    assert made.global_batch_size(32) == 128
    assert made.scaled_learning_rate(0.1) == pytest.approx(0.4)
    alone = setup()
    assert (alone.replicas, alone.global_batch_size(32)) == (1, 32)
    assert alone.scaled_learning_rate(1) == 1.0
    for value, error in ((0, ValueError), (1.0, TypeError), (True, TypeError)):
        with pytest.raises(error, match="Received: "):
            setup().global_batch_size(value)
    for value, error in ((0.0, ValueError), (float("nan"), ValueError), ("0.1", TypeError)):
        with pytest.raises(error, match="Received: "):
            setup().scaled_learning_rate(value)


def test_the_scope_is_the_strategys_or_does_nothing_and_jit_is_handed_on_to_compile():
    strategy = FourReplicas()
    with setup(strategy).scope():
        assert strategy.entered
    with setup().scope():
        pass
    assert [setup(jit=jit).jit_compile for jit in (None, True, "auto")] == ["auto", True, True]


def test_it_prints_as_a_table_and_is_plain_data_for_json():
    text, of_the_gpu = str(setup(tf32=True)), ("NVIDIA A100", "GPU-0", "40 GiB", "8.0")
    for words in (*of_the_gpu, "1 GiB + 2 GiB", "tf32", "mind the [gap]"):
        assert words in text
    without = str(setup(gpus=()))
    assert "No GPU is used" in without
    assert "tensorflow[and-cuda]" in without
    assert "Without a GPU these do nothing: logical_gpus" in without
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


CASES = sorted(
    path for path in (Path(__file__).parent / "cases").glob("*.py") if path.name != "stand_in.py"
)


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_tensorflow_has_what_was_asked(case):
    clean = {
        k: v for k, v in environment().items() if not k.startswith(("TF_", "CUDA_", "NVIDIA_"))
    }
    # Where there are real GPUs, the stand-ins are to be the only ones.
    prepared.run(case, env={**clean, "CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.tensorflow
def test_the_examples_on_nan_run_in_order_and_print_what_the_guide_says(run_script):
    page = (ROOT / "docs/troubleshooting/nan-mixed-precision.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    unchanged = "assert all((a == b).all() for a, b in zip(before, model.get_weights()))\n"
    examples[1] += unchanged
    printed = run_script("\n".join(examples)).stdout
    for words in ("loss scale 0.03125", "normalized computes in float16"):
        assert f"{words}\n" in printed
        assert f"prints `{words}`" in page
    for words in ("/truediv", "dtype: <dtype: 'float16'>", "inferred user code"):
        assert words in printed
    first, last = re.search(r"loss ([\d.e-]+), then ([\d.e-]+)", printed).groups()
    assert float(last) < float(first) / 100
