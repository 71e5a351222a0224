"""Bad arguments are refused by name, before TensorFlow is loaded."""

import subprocess
import sys

import pytest

from keras_gpukit import configure_gpus
from keras_gpukit.configure.settings import check

BAD = [
    ("devices", None, TypeError),
    ("devices", 1.5, TypeError),
    ("devices", True, TypeError),
    ("devices", {0, 1}, TypeError),
    ("devices", [0, None], TypeError),
    ("devices", -1, ValueError),
    ("devices", [], ValueError),
    ("devices", "", ValueError),
    ("devices", "gpu:0", ValueError),
    ("devices", "GPU-", ValueError),
    ("devices", "MIG-", ValueError),
    ("devices", "ALL", ValueError),
    ("devices", [0, 0], ValueError),
    ("devices", ["all"], ValueError),
    ("memory", None, TypeError),
    ("memory", True, TypeError),
    ("memory", 0.5, TypeError),
    ("memory", ["1GiB", None], TypeError),
    ("memory", {"0": "1GiB"}, TypeError),
    ("memory", 0, ValueError),
    ("memory", -(1 << 30), ValueError),
    ("memory", 8, ValueError),
    ("memory", "8", ValueError),
    ("memory", "-8GiB", ValueError),
    ("memory", "8 gigs", ValueError),
    ("memory", "50%", ValueError),
    ("memory", [], ValueError),
    ("memory", ["growth", "2GiB"], ValueError),
    ("memory", ["growth", "all"], ValueError),
    ("logical_gpus", True, TypeError),
    ("logical_gpus", 2.0, TypeError),
    ("logical_gpus", "2GiB", TypeError),
    ("logical_gpus", [2.5], TypeError),
    ("logical_gpus", {"0": 2}, TypeError),
    ("logical_gpus", {0: None}, TypeError),
    ("logical_gpus", 0, ValueError),
    ("logical_gpus", [], ValueError),
    ("logical_gpus", [2], ValueError),
    ("logical_gpus", {}, ValueError),
    ("logical_gpus", {-1: 2}, ValueError),
    ("soft_placement", 1, TypeError),
    ("soft_placement", "yes", TypeError),
    ("log_device_placement", 0, TypeError),
    ("mixed_precision", True, TypeError),
    ("mixed_precision", "fp16", ValueError),
    ("mixed_precision", "", ValueError),
    ("jit", 1, TypeError),
    ("jit", "always", ValueError),
    ("tf32", "auto", TypeError),
    ("deterministic", None, TypeError),
    ("deterministic", 1, TypeError),
    ("deterministic", True, ValueError),
    ("seed", "7", TypeError),
    ("seed", 7.0, TypeError),
    ("seed", True, TypeError),
    ("seed", -1, ValueError),
    ("seed", 2**32, ValueError),
    ("allocator", 1, TypeError),
    ("allocator", "bfc", ValueError),
    ("gpu_threads", 1.0, TypeError),
    ("gpu_threads", True, TypeError),
    ("gpu_threads", (2, "gpu_private"), TypeError),
    ("gpu_threads", 0, ValueError),
    ("gpu_threads", "private", ValueError),
    ("gpu_threads", ("global", 2), ValueError),
    ("gpu_threads", ("gpu_shared", 0), ValueError),
    ("strategy", None, TypeError),
    ("strategy", object, TypeError),
    ("strategy", ["/GPU:0"], TypeError),
    ("strategy", "mirror", ValueError),
    ("strategy", "multiworker", ValueError),
    ("worker_timeout_s", 0, ValueError),
    ("worker_timeout_s", "1m", TypeError),
    ("worker_timeout_s", True, TypeError),
    ("require_gpu", 1, TypeError),
    ("require_gpu", None, TypeError),
    ("verbose", None, ValueError),
    ("verbose", "yes", ValueError),
    ("verbose", 3, ValueError),
]


@pytest.mark.parametrize(("argument", "value", "error"), BAD, ids=lambda part: repr(part)[:40])
def test_a_bad_argument_is_named_with_its_value_and_what_is_accepted(argument, value, error):
    with pytest.raises(error) as refused:
        configure_gpus(**{argument: value})
    message = str(refused.value)
    assert f"`{argument}" in message
    assert f"{argument}=" in message.split("Received: ")[1]


@pytest.mark.tensorflow
def test_a_strategy_that_is_refused_is_not_among_those_that_are_accepted():
    with pytest.raises(ValueError, match="one_device") as refused:
        configure_gpus(strategy="miror")
    assert "central_storage" not in str(refused.value)
    with pytest.raises(ValueError, match="reports wrong losses"):
        configure_gpus(strategy="central_storage")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"deterministic": True}, "refuses random operations without"),
        ({"deterministic": True, "seed": 1, "jit": True}, "not every operation is deterministic"),
        ({"memory": ["growth", "1GiB"]}, "all its GPUs or of none"),
        ({"memory": ["1GiB", "1GiB"], "devices": [0]}, "one entry for each GPU"),
        ({"memory": "8GiB", "logical_gpus": ["4GiB"]}, "already says how large"),
        ({"memory": ["8GiB"], "logical_gpus": {0: ["4GiB"]}}, "already says how large"),
        ({"devices": "none", "require_gpu": True}, "hides every GPU"),
        ({"devices": "none", "logical_gpus": 2}, "none to split"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused_with_the_reason(arguments, reason):
    with pytest.raises(ValueError) as refused:
        configure_gpus(**arguments)
    assert reason in str(refused.value)
    for argument in arguments.keys() - {"seed"}:
        assert f"{argument}={arguments[argument]!r}" in str(refused.value)


def test_refusing_loads_no_framework():
    script = (
        "import sys, keras_gpukit\n"
        "try: keras_gpukit.configure_gpus(memory='much')\n"
        "except ValueError: print(sorted({'tensorflow', 'keras', 'pynvml'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8GiB", 8 << 30),
        ("8 gib", 8 << 30),
        ("1.5GiB", 3 << 29),
        ("500 MB", 500_000_000),
        ("2TB", 2 * 10**12),
        (1 << 20, 1 << 20),
    ],
)
def test_sizes_are_read_as_they_are_written(text, size_bytes):
    assert check(memory=text).memory == size_bytes


def test_the_defaults_suit_themselves():
    settings = check()
    assert (settings.devices, settings.memory, settings.strategy) == ("all", "growth", "auto")
    with pytest.raises(TypeError):
        configure_gpus("all")
