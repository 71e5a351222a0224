"""Plans are pure: any machine can be planned for here."""

import pytest

from keras_gpukit.configure.apply import differences
from keras_gpukit.configure.plan import plan
from keras_gpukit.configure.settings import check
from keras_gpukit.records import Build, GPUInfo, Machine, TensorFlowState

GIB = 1 << 30


def machine(count=1, capability=(8, 0), memory_bytes=40 * GIB, environment=None, **state):
    gpus = tuple(GPUInfo(i, "NVIDIA", f"GPU-{i}", memory_bytes, capability) for i in range(count))
    now = TensorFlowState(
        **{
            "visible_gpus": tuple(range(count)),
            "growth": (None,) * count,
            "memory_limit_mib": (None,) * count,
            **state,
        }
    )
    return Machine(gpus=gpus, state=now, build=Build(cuda=True), environment=environment or {})


def kinds(planned):
    return [action.kind for action in planned.actions]


def test_the_default_plan():
    planned = plan(check(), machine(2))
    assert kinds(planned) == ["visible_gpus", "memory_growth", "mirrored_strategy"]
    assert planned.gpus == (0, 1)
    assert planned.warnings == ()
    assert "memory_growth of GPU 0, 1 = True (memory is taken as needed)" in str(planned)


def test_everything_comes_in_the_only_order_that_works():
    asked = check(
        jit=False,
        mixed_precision="float32",
        tf32=True,
        soft_placement=True,
        deterministic=True,
        seed=1,
        log_device_placement=True,
        memory="4GiB",
        allocator="cuda_malloc",
        strategy="one_device",
    )
    assert kinds(plan(asked, machine(growth=(True,)))) == [
        "environment",
        "visible_gpus",
        "memory_growth",  # off: next to sizes TensorFlow would drop it without a word
        "memory_limit_mib",
        "log_device_placement",
        "seed",
        "deterministic",
        "soft_placement",
        "tf32",
        "jit",
        "dtype_policy",
        "one_device_strategy",
    ]


@pytest.mark.parametrize(
    ("capability", "policy"),
    [
        ((6, 1), "float32"),
        ((7, 0), "mixed_float16"),
        ((7, 5), "mixed_float16"),
        ((8, 0), "mixed_bfloat16"),
        ((10, 0), "mixed_bfloat16"),
        (None, "float32"),
    ],
)
def test_mixed_precision_suits_the_gpu_and_says_why(capability, policy):
    planned = plan(check(mixed_precision="auto"), machine(capability=capability))
    (action,) = [action for action in planned.actions if action.kind == "dtype_policy"]
    assert action.value == policy
    expected = "unknown" if capability is None else "{}.{}".format(*capability)
    assert expected in action.reason


def test_mixed_precision_suits_the_oldest_of_several_gpus():
    mixed = machine(2)
    old = GPUInfo(1, compute_capability=(7, 5))
    mixed = Machine(gpus=(mixed.gpus[0], old), state=mixed.state)
    assert plan(check(mixed_precision="auto"), mixed).value_of("dtype_policy") == "mixed_float16"


@pytest.mark.parametrize(
    ("policy", "capability", "count", "warns"),
    [
        ("mixed_bfloat16", (7, 5), 1, True),
        ("mixed_bfloat16", (8, 0), 1, False),
        ("mixed_float16", (6, 1), 1, True),
        ("mixed_float16", None, 0, True),
        ("float32", (6, 1), 1, False),
    ],
)
def test_a_policy_that_the_gpu_is_slow_at_is_set_with_a_warning(policy, capability, count, warns):
    planned = plan(check(mixed_precision=policy), machine(count, capability))
    assert planned.value_of("dtype_policy") == policy
    assert bool(planned.warnings) == warns


@pytest.mark.parametrize(
    ("count", "arguments", "clusters"),
    [
        (1, {}, True),
        (2, {}, False),
        (2, {"strategy": "none"}, True),
        (0, {}, False),
        (1, {"deterministic": True, "seed": 0}, False),
    ],
)
def test_jit_auto_compiles_where_it_can_and_pays(count, arguments, clusters):
    assert plan(check(jit="auto", **arguments), machine(count)).value_of("jit") is clusters


@pytest.mark.parametrize(
    ("count", "strategy", "kind", "devices"),
    [
        (0, "auto", None, None),
        (1, "auto", None, None),
        (2, "auto", "mirrored_strategy", ("/GPU:0", "/GPU:1")),
        (2, "none", None, None),
        (1, "mirrored", "mirrored_strategy", ("/GPU:0",)),
        (2, "one_device", "one_device_strategy", ("/GPU:0",)),
        (0, "one_device", "one_device_strategy", ("/CPU:0",)),
        (0, "mirrored", None, None),
    ],
)
def test_strategies_name_only_devices_that_exist(count, strategy, kind, devices):
    planned = plan(check(strategy=strategy), machine(count))
    found = [action for action in planned.actions if action.kind.endswith("strategy")]
    assert [(a.kind, a.value) for a in found] == ([(kind, devices)] if kind else [])


def test_logical_gpus_count_as_devices():
    planned = plan(check(logical_gpus={0: ["1GiB"] * 3}), machine(2))
    assert planned.logical_gpus == 4
    assert len(planned.value_of("mirrored_strategy")) == 4


def test_without_a_gpu_mirrored_uses_several_logical_cpus_and_never_a_gpu_that_is_not_there():
    planned = plan(check(strategy="mirrored"), machine(0, logical_cpus=2))
    assert planned.value_of("mirrored_strategy") == ("/CPU:0", "/CPU:1")
    assert planned.warnings == ()


def test_gpus_left_idle_are_pointed_out():
    (warning,) = plan(check(strategy="one_device"), machine(3)).warnings
    assert "3 logical GPUs" in warning
    assert "idle" in warning


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


def test_determinism_that_the_environment_forces_is_pointed_out():
    forced = machine(deterministic=True, environment={"TF_DETERMINISTIC_OPS": "1"})
    assert "TF_DETERMINISTIC_OPS=1" in plan(check(), forced).warnings[0]
    assert plan(check(deterministic=True, seed=1), forced).warnings == ()


def test_tf32_without_the_hardware_is_pointed_out():
    assert "7.5" in plan(check(tf32=True), machine(capability=(7, 5))).warnings[0]


def test_another_backend_is_pointed_out():
    jax = Machine(keras_backend="jax")
    assert "Keras runs on jax" in plan(check(), jax).warnings[0]


def test_an_unknown_uuid_is_refused_with_the_reason():
    nameless = Machine(gpus=(GPUInfo(0),), state=machine().state)
    with pytest.raises(ValueError, match="UUIDs of TensorFlow's GPUs are unknown"):
        plan(check(devices="GPU-1"), nameless)
    hidden = machine(environment={"CUDA_VISIBLE_DEVICES": "1"})
    with pytest.raises(ValueError, match="CUDA_VISIBLE_DEVICES=1"):
        plan(check(devices=["GPU-7"]), hidden)


def test_an_even_split_needs_the_memory_to_be_known():
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


def test_without_a_gpu_settings_about_gpus_are_listed_as_not_applied():
    planned = plan(check(gpu_threads=2, devices=[0], tf32=True), machine(0))
    assert planned.not_applied == (
        "devices=(0,)",
        "tf32=True",
        "gpu_threads=('gpu_private', 2)",
    )
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
