"""`keras-gpukit doctor`."""

import argparse
import json
from importlib.metadata import version

import pytest

from keras_gpukit.cli import doctor, examination
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import (
    Build,
    CUDALibrary,
    Driver,
    DriverGPU,
    Machine,
    TensorFlowState,
)

HEALTHY = Machine(
    gpus=(GPUInfo(0, "NVIDIA A100", "GPU-0", 40 << 30, (8, 0)),),
    state=TensorFlowState(visible_gpus=(0,), growth=(None,), memory_limit_mib=(None,)),
    build=Build(cuda=True, cuda_version="12.5.1", cudnn_version="9"),
    driver=Driver(version="560.35", cuda_version=(12, 6)),
    libraries=(CUDALibrary("libcudnn.so.9", "/env/[gpu]/libcudnn.so.9"),),
    environment={"TF_FORCE_GPU_ALLOW_GROWTH": "false"},
)
BROKEN = Machine(
    build=HEALTHY.build,
    driver=Driver(version="560.35", cuda_version=(12, 6), gpus=(DriverGPU(0, uuid="GPU-0"),)),
    libraries=(CUDALibrary("libcudnn.so.9"),),
    environment={"CUDA_VISIBLE_DEVICES": ""},
)


@pytest.fixture
def examine(monkeypatch, capsys):
    """Runs the command on a machine given as facts."""

    def run(machine, *arguments):
        def read():
            if isinstance(machine, Exception):
                raise machine
            return machine

        monkeypatch.setattr(examination, "read_machine", read)
        monkeypatch.setenv("COLUMNS", "120")
        parser = argparse.ArgumentParser()
        doctor.add_parser(parser.add_subparsers())
        parsed = parser.parse_args(["doctor", *arguments])
        code = parsed.func(parsed)
        return code, capsys.readouterr().out

    return run


def test_a_healthy_machine(examine):
    code, text = examine(HEALTHY)
    assert code == 0
    for words in (
        version("tensorflow"),
        "560.35",
        "12.6",
        "/env/[gpu]/libcudnn.so.9",
        "NVIDIA A100",
        "configure_gpus() would set",
        "memory growth of GPU 0",
        "TF_FORCE_GPU_ALLOW_GROWTH=false",
    ):
        assert words in text


def test_a_machine_without_a_usable_gpu_exits_with_1_and_says_every_reason(examine):
    code, text = examine(BROKEN)
    assert code == 1
    assert "CUDA_VISIBLE_DEVICES='' hides every GPU" in text
    assert "missing: libcudnn.so.9" in text


def test_each_line_is_marked(examine):
    _, text = examine(HEALTHY)
    lines = [line.split() for line in text.split("\n\n")[0].splitlines()]
    assert ["set", "TF_FORCE_GPU_ALLOW_GROWTH", "'false'"] in lines
    assert {mark for mark, *_ in lines} == {"ok", "set"}
    _, text = examine(BROKEN)
    lines = [line.split() for line in text.split("\n\n")[0].splitlines()]
    assert ["missing", "libcudnn.so.9", "not", "found"] in lines
    assert ["missing", "GPUs", "that", "TensorFlow", "sees", "none"] in lines
    assert ["set", "CUDA_VISIBLE_DEVICES", "''"] in lines


def test_json_holds_all_that_was_found(examine):
    code, text = examine(HEALTHY, "--json")
    data = json.loads(text)
    assert code == 0
    assert data["can_train_on_gpu"] is True
    assert data["versions"]["keras"] == version("keras")
    assert data["gpus"][0]["uuid"] == "GPU-0"
    assert data["libraries"][0]["name"] == "libcudnn.so.9"
    assert data["plan"]["actions"][0]["name"] == "TF_FORCE_GPU_ALLOW_GROWTH"
    code, text = examine(BROKEN, "--json")
    assert code == 1
    assert [cause["code"] for cause in json.loads(text)["plan"]["causes"]] == [
        "hidden",
        "missing_libraries",
    ]


def test_a_tensorflow_that_cannot_be_imported_is_a_finding(examine):
    code, text = examine(ImportError("libfoo.so.1: not found"))
    assert code == 1
    assert "libfoo.so.1" in text


@pytest.mark.tensorflow
def test_this_very_machine(run_script):
    """The real facts, in a process of their own; whatever they are, the answer is consistent."""
    done = run_script(
        "import argparse, os, sys\n"
        "os.environ.pop('TF_CPP_MIN_LOG_LEVEL')\n"
        "from keras_gpukit.cli import doctor\n"
        "from keras_gpukit.sensors.tf_private import is_initialized\n"
        "code = doctor.run(argparse.Namespace(json=True))\n"
        "assert not is_initialized()\n"
        "sys.exit(code)",
        check=False,
    )
    data = json.loads(done.stdout)
    assert done.returncode == (0 if data["can_train_on_gpu"] else 1)
    assert done.stderr == ""  # nothing of TensorFlow's log
    assert bool(data["plan"]["causes"]) != data["can_train_on_gpu"]
