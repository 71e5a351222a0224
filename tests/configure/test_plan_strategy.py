"""Which strategy is planned, from what, and what it says of the loss and the batch."""

from dataclasses import replace

import pytest

from keras_gpukit.configure.plan import plan
from keras_gpukit.configure.settings import check
from keras_gpukit.records import Build, Cluster, GPUInfo, Machine, TensorFlowState

TWO_WORKERS = Cluster("Slurm", {"worker": ("n1:2222", "n2:2222")}, "worker", 1)
SERVERS = Cluster(
    "TF_CONFIG",
    {"chief": ("n0:1",), "worker": ("n1:1", "n2:1", "n3:1"), "ps": ("n4:1",)},
    "chief",
    0,
)


def machine(gpus=0, cluster=None, **state):
    now = TensorFlowState(
        visible_gpus=tuple(range(gpus)),
        growth=(True,) * gpus,
        memory_limit_mib=(None,) * gpus,
        **state,
    )
    infos = tuple(GPUInfo(index, compute_capability=(8, 0)) for index in range(gpus))
    return Machine(gpus=infos, state=now, build=Build(cuda=True), cluster=cluster)


def strategy_of(planned):
    return next((a for a in planned.actions if a.kind.endswith("strategy")), None)


@pytest.mark.parametrize(
    ("gpus", "cluster", "kind", "why"),
    [
        (0, None, None, "no GPU, and no cluster"),
        (1, None, None, "one GPU, and no cluster"),
        (2, None, "mirrored_strategy", "there are several GPUs"),
        (0, TWO_WORKERS, "multi_worker_strategy", "the environment describes a cluster"),
        (2, TWO_WORKERS, "multi_worker_strategy", "recognized from Slurm"),
        (1, SERVERS, "parameter_server_strategy", "the cluster has parameter servers"),
    ],
)
def test_auto_chooses_from_what_is_there_and_says_why(gpus, cluster, kind, why):
    planned = plan(check(strategy="auto", seed=0), machine(gpus, cluster))
    chosen = strategy_of(planned)
    assert (chosen.kind if chosen else None) == kind
    assert why in (chosen.reason if chosen else planned.notes[0])


@pytest.mark.parametrize(
    ("arguments", "there", "words"),
    [
        ({"strategy": "mirrored"}, machine(2), ("Synchronous", "1/2", "drop_remainder")),
        (
            {"strategy": "multi_worker"},
            machine(2, TWO_WORKERS),
            ("Synchronous", "4 replicas", "1/4", "Only the chief writes"),
        ),
        (
            {"strategy": "parameter_server"},
            machine(0, SERVERS),
            ("Asynchronous", "3 workers", "not 3 times as large", "up to 6 steps"),
        ),
        ({"strategy": "one_device"}, machine(1), ("without a strategy",)),
    ],
)
def test_each_says_what_it_means_for_the_loss_and_the_batch(arguments, there, words):
    (note,) = plan(check(**arguments, seed=0), there).notes
    for word in words:
        assert word in note


@pytest.mark.parametrize(
    ("strategy", "cluster", "words"),
    [
        ("central_storage", None, "reports wrong losses"),
        ("multi_worker", None, "keras-gpukit launch --workers 2"),
        ("parameter_server", None, "needs a cluster"),
        ("multi_worker", SERVERS, "use strategy='parameter_server'"),
        ("parameter_server", TWO_WORKERS, "needs one chief"),
        ("multi_worker", replace(TWO_WORKERS, task_type="evaluator"), "does not train"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(strategy, cluster, words):
    with pytest.raises(ValueError, match=words) as raised:
        plan(check(strategy=strategy), machine(0, cluster))
    assert "Received: " in str(raised.value)


def test_workers_without_a_seed_are_warned_of_shuffling_apart():
    [warning] = plan(check(strategy="multi_worker"), machine(0, TWO_WORKERS)).warnings
    assert "give configure_gpus(seed=…)" in warning
    # The script may set one later, which is not known here.
    assert warning.startswith("Unless the script sets a seed, as with keras.utils.set_random_seed")
    assert plan(check(strategy="multi_worker", seed=1), machine(0, TWO_WORKERS)).warnings == ()


def test_a_cluster_must_come_before_tensorflow_starts_its_devices():
    late = machine(0, TWO_WORKERS, initialized=True)
    asked = check(strategy="multi_worker", seed=0)
    (action,) = plan(asked, late).too_late
    assert "worker 1 at n2:2222" in str(action)
    # The same call again finds the strategy made.
    assert plan(asked, replace(late, cluster_strategy="multi_worker")).too_late == ()


def test_all_replicas_of_all_workers_count():
    with pytest.raises(ValueError, match="XLA cannot compile"):
        plan(check(strategy="multi_worker", jit=True, seed=0), machine(1, TWO_WORKERS))


def test_a_plan_with_a_cluster_is_plain_data():
    data = plan(check(strategy="auto", seed=0), machine(0, TWO_WORKERS)).to_dict()
    (action,) = [each for each in data["actions"] if each["kind"] == "multi_worker_strategy"]
    assert action["value"]["cluster"]["task_index"] == 1
    assert data["notes"]
