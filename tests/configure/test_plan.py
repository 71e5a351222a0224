"""Plans are pure: any machine can be planned for here."""

from dataclasses import replace

import pytest

from keras_gpukit.configure.plan import differences, plan
from keras_gpukit.configure.settings import check
from keras_gpukit.records import Build, Cluster, GPUInfo, Machine, TensorFlowState

GIB = 1 << 30
TWO_WORKERS = Cluster("Slurm", {"worker": ("n1:2222", "n2:2222")}, "worker", 1)
ROLES = {"chief": ("n0:1",), "worker": ("n1:1", "n2:1", "n3:1"), "ps": ("n4:1",)}
SERVERS = Cluster("TF_CONFIG", ROLES, "chief", 0)


def machine(
    count=1, capability=(8, 0), memory_bytes=40 * GIB, environment=None, cluster=None, **state
):
    gpus = tuple(GPUInfo(i, "NVIDIA", f"GPU-{i}", memory_bytes, capability) for i in range(count))
    none = (None,) * count
    state = {"visible_gpus": tuple(range(count)), "growth": none, "memory_limit_mib": none, **state}
    now = TensorFlowState(**state)
    build = Build(cuda=True)
    return Machine(gpus, now, build=build, environment=environment or {}, cluster=cluster)


def kinds(planned):
    return [action.kind for action in planned.actions]


def test_the_default_plan_and_everything_in_the_only_order_that_works():
    planned = plan(check(), machine(2))
    assert kinds(planned) == ["visible_gpus", "memory_growth", "mirrored_strategy"]
    assert planned.gpus == (0, 1)
    assert planned.warnings == ()
    assert "memory_growth of GPU 0, 1 = True (memory is taken as needed)" in str(planned)
    of_steps = {"jit": False, "mixed_precision": "float32", "tf32": True, "deterministic": True}
    of_memory = {"memory": "4GiB", "allocator": "cuda_malloc", "strategy": "one_device"}
    more = {"soft_placement": True, "seed": 1, "log_device_placement": True}
    planned = plan(check(**of_steps, **of_memory, **more), machine(growth=(True,)))
    assert " ".join(kinds(planned)) == (
        # Growth is set, to off: next to sizes TensorFlow would drop it without a word.
        "environment visible_gpus memory_growth memory_limit_mib log_device_placement seed "
        "deterministic soft_placement tf32 jit dtype_policy one_device_strategy"
    )


SUITS = {"float32": [(6, 1), None], "mixed_float16": [(7, 0), (7, 5)]}
SUITS |= {"mixed_bfloat16": [(8, 0), (10, 0)]}


@pytest.mark.parametrize(
    ("policy", "capability"), [(policy, each) for policy in SUITS for each in SUITS[policy]]
)
def test_mixed_precision_suits_the_gpu_and_says_why(policy, capability):
    planned = plan(check(mixed_precision="auto"), machine(capability=capability))
    (action,) = [action for action in planned.actions if action.kind == "dtype_policy"]
    assert action.value == policy
    expected = "unknown" if capability is None else "{}.{}".format(*capability)
    assert expected in action.reason
    newer = (GPUInfo(0, compute_capability=(12, 0)), *machine(capability=capability).gpus)
    several = replace(machine(2), gpus=newer)  # the oldest one decides
    assert plan(check(mixed_precision="auto"), several).value_of("dtype_policy") == policy


def test_a_policy_that_the_gpu_is_slow_at_is_set_with_a_warning():
    slow = ("mixed_bfloat16", machine(1, (7, 5))), ("mixed_float16", machine(1, (6, 1)))
    without = ("mixed_float16", machine(0, None))
    fast = ("mixed_bfloat16", machine(1, (8, 0))), ("float32", machine(1, (6, 1)))
    for policy, there in (*slow, without, *fast):
        planned = plan(check(mixed_precision=policy), there)
        assert planned.value_of("dtype_policy") == policy
        assert bool(planned.warnings) == ((policy, there) not in fast)


def test_jit_auto_compiles_where_it_can_and_pays():
    def clusters(count, **arguments):
        return plan(check(jit="auto", **arguments), machine(count)).value_of("jit")

    assert clusters(1) is clusters(2, strategy="none") is True
    assert clusters(2) is clusters(0) is clusters(1, deterministic=True, seed=0) is False


def test_strategies_name_only_devices_that_exist():
    for count, strategy, *expected in (
        (0, "auto"),
        (1, "auto"),
        (2, "auto", ("mirrored_strategy", ("/GPU:0", "/GPU:1"))),
        (2, "none"),
        (1, "mirrored", ("mirrored_strategy", ("/GPU:0",))),
        (2, "one_device", ("one_device_strategy", ("/GPU:0",))),
        (0, "one_device", ("one_device_strategy", ("/CPU:0",))),
        (0, "mirrored"),
    ):
        planned = plan(check(strategy=strategy), machine(count))
        found = [action for action in planned.actions if action.kind.endswith("strategy")]
        assert [(each.kind, each.value) for each in found] == expected


def test_logical_gpus_count_as_devices_and_without_a_gpu_several_logical_cpus():
    planned = plan(check(logical_gpus={0: ["1GiB"] * 3}), machine(2))
    assert planned.logical_gpus == 4
    assert len(planned.value_of("mirrored_strategy")) == 4
    planned = plan(check(strategy="mirrored"), machine(0, logical_cpus=2))
    assert planned.value_of("mirrored_strategy") == ("/CPU:0", "/CPU:1")
    assert planned.warnings == ()


def test_gpus_left_idle_missing_hardware_and_another_backend_are_pointed_out():
    assert "7.5" in plan(check(tf32=True), machine(capability=(7, 5))).warnings[0]
    assert "Keras runs on jax" in plan(check(), Machine(keras_backend="jax")).warnings[0]
    (warning,) = plan(check(strategy="one_device"), machine(3)).warnings
    assert "3 logical GPUs" in warning
    assert "idle" in warning
    # So is determinism that the environment forces.
    forced = machine(deterministic=True, environment={"TF_DETERMINISTIC_OPS": "1"})
    assert "TF_DETERMINISTIC_OPS=1" in plan(check(), forced).warnings[0]
    assert plan(check(deterministic=True, seed=1), forced).warnings == ()


@pytest.mark.parametrize(
    ("environment", "arguments", "sets", "warns_of"),
    [
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "false"}, {}, "true", "is overridden by"),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"memory": "all"}, "false", "is overridden by"),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {}, None, None),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "1"}, {}, None, "is ignored"),
        ({"TF_FORCE_GPU_ALLOW_GROWTH": "true"}, {"memory": "1GiB"}, None, "up to the sizes"),
        ({"TF_GPU_ALLOCATOR": "cuda_malloc"}, {}, None, None),
        (
            {"TF_GPU_ALLOCATOR": "cuda_malloc"},
            {"allocator": "cuda_malloc_async"},
            "cuda_malloc_async",
            "TF_GPU_ALLOCATOR=cuda_malloc in",
        ),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, {"tf32": True}, None, "keeps TF32 off"),
    ],
)
def test_arguments_win_over_the_environment_and_say_so(environment, arguments, sets, warns_of):
    planned = plan(check(**arguments), machine(environment=environment))
    assert planned.value_of("environment") == sets
    assert len(planned.warnings) == (warns_of is not None)
    assert warns_of is None or warns_of in planned.warnings[0]


def test_an_unknown_uuid_is_refused_with_the_reason():
    nameless = Machine(gpus=(GPUInfo(0),), state=machine().state)
    with pytest.raises(ValueError, match="UUIDs of TensorFlow's GPUs are unknown"):
        plan(check(devices="GPU-1"), nameless)
    hidden = machine(environment={"CUDA_VISIBLE_DEVICES": "1"})
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES=1"):
        plan(check(devices=["GPU-7"]), hidden)
    # An even split needs the memory to be known.
    with pytest.raises(ValueError, match="give the sizes"):
        plan(check(logical_gpus=2), machine(memory_bytes=None))
    sized = plan(check(logical_gpus=2, memory="3GiB"), machine(memory_bytes=None))
    assert sized.value_of("memory_limit_mib") == (1536, 1536)
    even = plan(check(logical_gpus=2), machine()).value_of("memory_limit_mib")
    assert even == (18 * 1024, 18 * 1024)  # of 40 GiB, a tenth is left to CUDA
    with pytest.raises(ValueError, match="at least 1 MiB"):
        plan(check(logical_gpus=9, memory="8MiB"), machine())


def test_once_started_only_what_differs_is_too_late():
    started = machine(2, initialized=True, growth=(True, True))
    assert plan(check(), started).too_late == ()
    late = plan(check(devices=[0], allocator="cuda_malloc", tf32=False), started).too_late
    assert [action.kind for action in late] == ["environment", "visible_gpus"]
    assert plan(check(memory="all"), started).too_late[0].value is False
    # Without a GPU, settings about GPUs are listed as not applied.
    planned = plan(check(gpu_threads=2, devices=[0], tf32=True), machine(0))
    idle = ("devices=(0,)", "tf32=True", "gpu_threads=('gpu_private', 2)")
    assert planned.not_applied == idle
    assert kinds(planned) == ["tf32"]
    assert planned.actions[0].reason == "as asked; it is about GPUs only"
    assert plan(check(devices="none"), machine(0)).not_applied == ()


def test_what_turned_out_other_than_planned_is_said():
    planned = plan(check(memory="growth", tf32=False, strategy="none"), machine(2))
    kept = {"growth": (True, True), "tf32": False}
    assert differences(planned, machine(2, **kept, logical_gpus=2)) == ()
    assert "tf32 = False" in differences(planned, machine(2, growth=(True, True)))[0]
    (dropped,) = differences(planned, machine(2, **kept, growth_dropped=True))
    assert "is not in effect" in dropped
    forced = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert differences(planned, machine(2, **kept, growth_dropped=True, environment=forced)) == ()
    (ignored,) = differences(planned, machine(2, **kept, logical_gpus=1))
    assert "1 of the 2 logical GPUs" in ignored


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
    planned = plan(check(strategy="auto", seed=0), machine(gpus, cluster=cluster))
    chosen = strategy_of(planned)
    assert (chosen.kind if chosen else None) == kind
    assert why in (chosen.reason if chosen else planned.notes[0])


@pytest.mark.parametrize(
    ("strategy", "cluster", "words"),
    [
        ("mirrored", None, ("Synchronous", "1/2", "drop_remainder")),
        ("multi_worker", TWO_WORKERS, ("Synchronous", "4 replicas", "1/4", "the chief writes")),
        ("parameter_server", SERVERS, ("Asynchronous", "3 workers", "not 3 times", "to 6 steps")),
        ("one_device", None, ("without a strategy",)),
    ],
)
def test_each_says_what_it_means_for_the_loss_and_the_batch(strategy, cluster, words):
    (note,) = plan(check(strategy=strategy, seed=0), machine(2, cluster=cluster)).notes
    for word in words:
        assert word in note


def test_what_cannot_be_had_is_refused_with_the_reason():
    for strategy, cluster, words in (
        ("central_storage", None, "reports wrong losses"),
        ("multi_worker", None, "keras-gpukit launch --workers 2"),
        ("parameter_server", None, "needs a cluster"),
        ("multi_worker", SERVERS, "use strategy='parameter_server'"),
        ("parameter_server", TWO_WORKERS, "needs one chief"),
        ("multi_worker", replace(TWO_WORKERS, task_type="evaluator"), "does not train"),
    ):
        with pytest.raises(ValueError, match=rf"{words}[^$]*Received: "):
            plan(check(strategy=strategy), machine(0, cluster=cluster))
    with pytest.raises(ValueError, match="XLA cannot compile"):  # all workers' replicas count
        plan(check(strategy="multi_worker", jit=True, seed=0), machine(1, cluster=TWO_WORKERS))


def test_workers_without_a_seed_are_warned_of_shuffling_apart():
    [warning] = plan(check(strategy="multi_worker"), machine(0, cluster=TWO_WORKERS)).warnings
    assert "give configure_gpus(seed=…)" in warning
    # The script may set one later, which is not known here.
    assert warning.startswith("Unless the script sets a seed, as with keras.utils.set_random_seed")
    seeded = check(strategy="multi_worker", seed=1)
    assert plan(seeded, machine(0, cluster=TWO_WORKERS)).warnings == ()
    # A plan with a cluster is plain data.
    data = plan(check(strategy="auto", seed=0), machine(0, cluster=TWO_WORKERS)).to_dict()
    (action,) = [each for each in data["actions"] if each["kind"] == "multi_worker_strategy"]
    assert action["value"]["cluster"]["task_index"] == 1
    assert data["notes"]


def test_a_cluster_must_come_before_tensorflow_starts_its_devices():
    late = machine(0, cluster=TWO_WORKERS, initialized=True)
    asked = check(strategy="multi_worker", seed=0)
    (action,) = plan(asked, late).too_late
    assert "worker 1 at n2:2222" in str(action)
    # The same call again finds the strategy made.
    assert plan(asked, replace(late, cluster_strategy="multi_worker")).too_late == ()
