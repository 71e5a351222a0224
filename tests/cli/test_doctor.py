"""`keras-gpukit doctor`."""

import argparse
import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import keras
import pytest
from helpers.json_output import valid_json

from keras_gpukit.cli import doctor, examination
from keras_gpukit.cli.tried_fit import TriedFit
from keras_gpukit.records import (
    Build,
    CUDALibrary,
    CUDAPackage,
    Driver,
    DriverGPU,
    GPUHealth,
    GPUHolder,
    GPUInfo,
    Machine,
    MissingNames,
    TensorFlowState,
)
from keras_gpukit.sensors.compilations import compilations
from keras_gpukit.version import __version__

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


class Tried:
    def __init__(self, lacking):
        self.lacks, self.stop = (lambda: lacking), lambda: None


@pytest.fixture
def examine(monkeypatch, capsys):
    """Runs the command on a machine given as facts."""

    def run(machine, *arguments, packages=(), health=(), not_measured=(), known=(), lacking=()):
        def read():
            if isinstance(machine, Exception):
                raise machine
            return machine

        monkeypatch.setattr(examination, "read_machine", read)
        monkeypatch.setattr(examination, "try_loading", lambda libraries: libraries)
        monkeypatch.setattr(examination, "read_packages", lambda: packages)
        monkeypatch.setattr(examination, "read_health", lambda gpus, xids: health)
        monkeypatch.setattr(examination, "missing_names", lambda: not_measured)
        monkeypatch.setattr(examination, "compilations", lambda: known)
        monkeypatch.setattr(examination, "TriedFit", lambda: Tried(lacking))
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


def two_gpus(**second):
    gpus = tuple(
        DriverGPU(i, "NVIDIA A100", f"GPU-{i}", 40 << 30, (8, 0), f"00000000:0{i}:00.0")
        for i in range(2)
    )
    listed = tuple(GPUInfo(i, gpu.name, gpu.uuid, 40 << 30, (8, 0)) for i, gpu in enumerate(gpus))
    none = (None, None)
    return replace(
        HEALTHY,
        gpus=listed,
        driver=replace(HEALTHY.driver, gpus=(gpus[0], replace(gpus[1], **second))),
        state=TensorFlowState(visible_gpus=(0, 1), growth=none, memory_limit_mib=none),
    )


FULL = GPUHealth(0, memory_used_bytes=(40 << 30) - 1, processes=(GPUHolder(7, 39 << 30, "python"),))


def test_a_missing_library_is_named_and_so_is_another_file_that_it_needs(examine):
    no_file = "cannot open shared object file: No such file or directory"
    libraries = (
        CUDALibrary("libcudnn.so.9", error=f"libcudnn.so.9: {no_file}"),
        CUDALibrary("libcusolver.so.11", error=f"libnvJitLink.so.12: {no_file}"),
    )
    _, text = examine(replace(BROKEN, libraries=libraries))
    words = " ".join(text.split())
    assert "missing libcudnn.so.9 not found" in words
    assert f"missing libcusolver.so.11 libnvJitLink.so.12: {no_file}" in words


def test_a_gpu_that_another_process_fills_is_named_with_that_process_and_the_other_is_used(examine):
    code, text = examine(two_gpus(), health=(FULL, GPUHealth(1, memory_used_bytes=0)))
    assert code == 0
    words = " ".join(text.split())
    assert (
        "Blocked: 40.0 of 40.0 GiB of GPU 0's memory are in use; python (pid 7, 39.0 GiB)" in words
    )
    line = "GPU 0 of the machine NVIDIA A100 at 00000000:00:00.0, 40 GiB of 40 GiB in use"
    assert f"{line}, TensorFlow's GPU 0" in words


def test_a_gpu_that_is_not_identified_has_the_reason(examine):
    because = "CUDA_DEVICE_ORDER is FASTEST_FIRST"
    unknown = replace(HEALTHY.gpus[0], uuid=None, unidentified_because=because)
    _, text = examine(replace(two_gpus(), gpus=(unknown,), state=HEALTHY.state))
    assert f"unknown: {because}" in text
    assert "TensorFlow's GPU" not in text


def test_a_machine_whose_every_gpu_is_blocked_exits_with_1(examine):
    code, text = examine(two_gpus(error="GpuIsLost"), health=(FULL,))
    assert code == 1
    assert "GPU 1 does not answer (NVML says GpuIsLost)" in text
    code, text = examine(two_gpus(error="GpuIsLost"), "--json", health=(FULL,))
    data = valid_json("doctor", text)
    assert not data["can_train_on_gpu"]
    assert [(each["code"], each["gpu"]) for each in data["problems"]] == [
        ("memory_held", 0),
        ("gpu_lost", 1),
    ]
    assert data["health"][0]["processes"] == [{"pid": 7, "used_bytes": 39 << 30, "name": "python"}]


def test_a_library_that_cannot_be_loaded_blocks_every_gpu(examine):
    path = "/usr/local/cuda/lib64/libcudnn.so.9"
    broken = CUDALibrary("libcudnn.so.9", path, "LD_LIBRARY_PATH", error=f"{path}: file too short")
    package = CUDAPackage("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.1.0.70", fits=False)
    code, text = examine(replace(HEALTHY, libraries=(broken,)), packages=(package,))
    assert code == 1
    words = " ".join(text.split())
    assert f"broken libcudnn.so.9 {path} (LD_LIBRARY_PATH): {path}: file too short" in words
    assert "take that folder out of the variable" in words
    assert "broken nvidia-cudnn-cu12 9.1.0.70; TensorFlow asks for <10.0,>=9.3.0.75" in words


def test_each_line_is_marked(examine):
    def lines(machine):
        text = examine(machine)[1].split("\n\n")[-1]
        return {" ".join(line.split()) for line in text.splitlines()}

    assert "set TF_FORCE_GPU_ALLOW_GROWTH 'false'" in lines(HEALTHY)
    assert {line.split()[0] for line in lines(HEALTHY)} == {"ok", "set"}
    assert lines(BROKEN) >= {
        "missing libcudnn.so.9 not found",
        "ok GPU 0 of the machine unknown name at unknown place",
        "missing GPUs that TensorFlow sees none",
        "set CUDA_VISIBLE_DEVICES ''",
    }


def test_a_measurement_that_this_tensorflow_does_not_allow_is_named_with_what_is_missing(examine):
    words = " ".join(examine(HEALTHY)[1].split())
    assert "ok measurements all are available with this TensorFlow and Keras" in words
    name = "tensorflow.python.data.ops.dataset_ops:DatasetV2._inputs"
    lacks = (MissingNames("input stall per stage", (name,)),)
    words = " ".join(examine(HEALTHY, not_measured=lacks)[1].split())
    said = f"unknown or less precise: tensorflow {version('tensorflow')} has no DatasetV2._inputs"
    assert f"missing input stall per stage {said}" in words
    counters = f"tensorflow {version('tensorflow')} has no counters in the layout of 2.21"
    assert counters in " ".join(examine(HEALTHY, known=None)[1].split())
    data = valid_json("doctor", examine(HEALTHY, "--json", not_measured=lacks)[1])
    assert data["not_measured"] == [{"measurement": "input stall per stage", "names": [name]}]


def test_another_backend_is_said_not_to_be_supported(examine):
    words = " ".join(examine(replace(HEALTHY, keras_backend="jax"))[1].split())
    said = "Keras runs on jax; keras_gpukit works on TensorFlow only (set KERAS_BACKEND=tensorflow)"
    assert f"missing Keras on TensorFlow {said}" in words


def test_json_holds_all_that_was_found(examine):
    code, text = examine(HEALTHY, "--json")
    data = valid_json("doctor", text)
    assert code == 0
    assert data["can_train_on_gpu"] is True
    assert data["versions"]["keras"] == keras.__version__
    assert data["gpus"][0]["uuid"] == "GPU-0"
    assert data["libraries"][0]["name"] == "libcudnn.so.9"
    assert data["plan"]["actions"][0]["name"] == "TF_FORCE_GPU_ALLOW_GROWTH"
    code, text = examine(BROKEN, "--json")
    assert code == 1
    assert [cause["code"] for cause in valid_json("doctor", text)["plan"]["causes"]] == [
        "hidden",
        "missing_libraries",
    ]


def test_a_tensorflow_that_cannot_be_imported_is_a_finding(examine, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    code, text = examine(ImportError("libfoo.so.1: not found"))
    assert code == 1
    assert "libfoo.so.1: not found). Does `python -c" in " ".join(text.split())
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    _, text = examine(ModuleNotFoundError("No module named 'jax'"))
    said = "KERAS_BACKEND is 'jax', and keras_gpukit works on TensorFlow only."
    assert said in " ".join(text.split())


def test_the_answer_comes_first_and_without_a_driver_libraries_are_one_line(examine):
    nothing = Driver(error="LibraryNotFound")
    libraries = tuple(map(CUDALibrary, ("libcudart.so.12", "libcudnn.so.9")))
    _, text = examine(replace(BROKEN, driver=nothing, libraries=libraries, environment={}))
    answer, checks = text.split("\n\n")
    assert answer.startswith("No GPU is used; training runs on the CPU.\nNo NVIDIA driver is")
    lines = {" ".join(line.split()) for line in checks.splitlines()}
    assert {
        "missing NVIDIA driver not found",
        "missing CUDA libraries 2 of 2 not found; that matters once there is a driver",
    } <= lines
    assert "libcudnn" not in checks


def test_its_own_version_is_known_without_being_installed(examine, monkeypatch):
    def not_installed(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(examination, "version", not_installed)
    _, text = examine(HEALTHY)
    lines = [line.split() for line in text.splitlines()]
    assert ["ok", "keras-gpukit", __version__] in lines
    assert ["missing", "tensorflow", "not", "installed"] in lines
    assert ["ok", "keras", keras.__version__] in lines  # as its own file says


@pytest.mark.parametrize(
    ("number", "pkg_resources", "cannot_start"),
    [("2.20.0", None, True), ("2.20.0", "there", False), ("2.21.0", None, False)],
)
def test_a_tensorboard_that_cannot_start_is_named(
    number, pkg_resources, cannot_start, examine, monkeypatch
):
    monkeypatch.setattr(examination, "version", lambda package: number)
    monkeypatch.setattr(examination, "find_spec", {"pkg_resources": pkg_resources}.get)
    code, text = examine(HEALTHY)
    assert code == 0
    said = "TensorBoard 2.20.0 cannot start: it needs pkg_resources, which setuptools 82 removed."
    said = f'Problem: {said} pip install "setuptools<82".'
    assert (said in " ".join(text.split())) is cannot_start


@pytest.mark.parametrize(
    ("level", "shown"),
    [({}, ""), ({"TF_CPP_MIN_LOG_LEVEL": "2"}, ""), ({"TF_CPP_MIN_LOG_LEVEL": "0"}, "logged")],
)
def test_what_tensorflow_logs_is_shown_if_it_fails_or_if_asked_for(level, shown, run_python):
    logs = (
        "import argparse, os, sys\n"
        "os.environ.pop('TF_CPP_MIN_LOG_LEVEL', None)\n"
        f"os.environ.update({level})\n"
        "from keras_gpukit.cli import doctor, examination\n"
        "from keras_gpukit.records import Build, Machine\n"
        "def read_machine():\n"
        "    os.write(2, b'logged')\n"
        "    if fails: raise ImportError('libfoo.so.1: not found')\n"
        "    return Machine(build=Build(cuda=True))\n"
        "examination.read_machine, examination.compilations = read_machine, lambda: ()\n"
        "for fails in (False, True):\n"
        "    doctor.run(argparse.Namespace(json=True))\n"
        "    print('and then', file=sys.stderr, flush=True)\n"
    )
    assert run_python(logs).stderr == f"{shown}and then\nloggedand then\n"


@pytest.mark.tensorflow
def test_this_very_machine(run_python):
    """The real facts, in a process of their own; whatever they are, the answer is consistent."""
    done = run_python(
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
    lacks = [] if compilations() is not None else ["compilations by XLA"]
    assert [each["measurement"] for each in data["not_measured"]] == lacks
    assert bool(data["plan"]["causes"]) != data["can_train_on_gpu"]


def test_a_measurement_that_found_nothing_in_a_trial_is_told(examine):
    _, text = examine(HEALTHY, lacking=("memory prediction",))
    assert "memory prediction" in text
    assert "a small model was trained, and it found nothing" in " ".join(text.split())


def test_a_gpu_newer_than_the_build_is_told_with_what_helps(examine):
    gpu = DriverGPU(0, "NVIDIA GeForce RTX 5080", "GPU-0", 16 << 30, (12, 0))
    build = replace(HEALTHY.build, compute_capabilities=("sm_89", "compute_90"))
    driver = Driver(version="570.1", cuda_version=(12, 8), gpus=(gpu,))
    _, text = examine(replace(HEALTHY, driver=driver, build=build))
    words = " ".join(text.split())
    assert "compute capability 12.0, and this TensorFlow has kernels up to 9.0" in words
    assert "jit_compile=False" in words


def test_two_distributions_of_keras_are_told(examine, monkeypatch):
    both = {"keras": ["keras", "keras-nightly"]}
    monkeypatch.setattr(examination, "packages_distributions", lambda: both)
    data = valid_json("doctor", examine(HEALTHY, "--json")[1])
    (problem,) = (each for each in data["problems"] if each["code"] == "two_keras")
    assert "keras and keras-nightly" in problem["text"]


@pytest.mark.slow
def test_every_measurement_finds_something_in_a_small_fit():
    assert TriedFit().lacks() == ()
