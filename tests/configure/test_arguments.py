"""Bad arguments are refused by name, before TensorFlow is loaded."""

import subprocess
import sys

import pytest

from keras_gpukit import configure_gpus
from keras_gpukit.configure.settings import check

# Of each argument, those of a wrong type and those of a wrong value.
BAD = {
    "devices": (
        [None, 1.5, True, {0, 1}, [0, None]],
        [-1, [], "", "gpu:0", "GPU-", "MIG-", "ALL", [0, 0], ["all"]],
    ),
    "memory": (
        [None, True, 0.5, ["1GiB", None], {"0": "1GiB"}],
        [0, -(1 << 30), 8, "8", "-8GiB", "50%", [], ["growth", "2GiB"], ["growth", "all"]],
    ),
    "logical_gpus": ([True, 2.0, "2GiB", [2.5], {"0": 2}, {0: None}], [0, [], [2], {}, {-1: 2}]),
    "soft_placement": ([1, "yes"], []),
    "log_device_placement": ([0], []),
    "mixed_precision": ([True], ["fp16", ""]),
    "jit": ([1], ["always"]),
    "tf32": (["auto"], []),
    "deterministic": ([None, 1], [True]),
    "seed": (["7", 7.0, True], [-1, 2**32]),
    "allocator": ([1], ["bfc"]),
    "gpu_threads": (
        [1.0, True, (2, "gpu_private")],
        [0, "private", ("global", 2), ("gpu_shared", 0)],
    ),
    "strategy": ([None, object, ["/GPU:0"]], ["mirror", "multiworker"]),
    "worker_timeout_s": (["1m", True], [0]),
    "require_gpu": ([1, None], []),
    "verbose": ([], [None, "yes", 3]),
}


@pytest.mark.parametrize("argument", BAD)
def test_a_bad_argument_is_named_with_its_value_and_what_is_accepted(argument):
    for error, values in zip((TypeError, ValueError), BAD[argument], strict=True):
        for value in values:
            with pytest.raises(error) as refused:
                configure_gpus(**{argument: value})
            message = str(refused.value)
            assert f"`{argument}" in message
            assert f"{argument}=" in message.split("Received: ")[1]


def test_a_strategy_that_is_refused_is_not_among_those_that_are_accepted():
    with pytest.raises(ValueError, match="one_device") as refused:
        configure_gpus(strategy="miror")
    assert "central_storage" not in str(refused.value)


def test_arguments_that_contradict_each_other_are_refused_with_the_reason():
    for arguments, reason in (
        ({"deterministic": True}, "refuses random operations without"),
        ({"deterministic": True, "seed": 1, "jit": True}, "not every operation is deterministic"),
        ({"memory": ["growth", "1GiB"]}, "all its GPUs or of none"),
        ({"memory": ["1GiB", "1GiB"], "devices": [0]}, "one entry for each GPU"),
        ({"memory": "8GiB", "logical_gpus": ["4GiB"]}, "already says how large"),
        ({"memory": ["8GiB"], "logical_gpus": {0: ["4GiB"]}}, "already says how large"),
        ({"devices": "none", "require_gpu": True}, "hides every GPU"),
        ({"devices": "none", "logical_gpus": 2}, "none to split"),
    ):
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


def test_sizes_are_read_as_they_are_written():
    sizes = {"8GiB": 8 << 30, "8 gib": 8 << 30, "1.5GiB": 3 << 29, "500 MB": 500_000_000}
    for text, size_bytes in {**sizes, "2TB": 2 * 10**12, 1 << 20: 1 << 20}.items():
        assert check(memory=text).memory == size_bytes
    # The defaults suit themselves.
    settings = check()
    assert (settings.devices, settings.memory, settings.strategy) == ("all", "growth", "auto")
    with pytest.raises(TypeError):
        configure_gpus("all")
