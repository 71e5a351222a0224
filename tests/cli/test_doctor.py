"""`keras-gpukit doctor`."""

import argparse
import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

import keras
import pytest
from helpers.json_output import valid_json

from keras_gpukit import records
from keras_gpukit.cli import examination
from keras_gpukit.cli import machine as commands
from keras_gpukit.cli.tried_fit import TriedFit
from keras_gpukit.sensors.compilations import compilations
from keras_gpukit.version import __version__

DRIVER = records.Driver(version="560.35", cuda_version=(12, 6))
HEALTHY = records.Machine(
    gpus=(records.GPUInfo(0, "NVIDIA A100", "GPU-0", 40 << 30, (8, 0)),),
    state=records.TensorFlowState(visible_gpus=(0,), growth=(None,), memory_limit_mib=(None,)),
    build=records.Build(cuda=True, cuda_version="12.5.1", cudnn_version="9"),
    driver=DRIVER,
    libraries=(records.CUDALibrary("libcudnn.so.9", "/env/[gpu]/libcudnn.so.9"),),
    environment={"TF_FORCE_GPU_ALLOW_GROWTH": "false"},
)
BROKEN = records.Machine(
    build=HEALTHY.build,
    driver=replace(DRIVER, gpus=(records.DriverGPU(0, uuid="GPU-0"),)),
    libraries=(records.CUDALibrary("libcudnn.so.9"),),
    environment={"CUDA_VISIBLE_DEVICES": ""},
)


class Words(str):
    """What was printed; a search in it takes no notice of how it was wrapped."""

    def __contains__(self, part):
        return part in " ".join(self.split())


@pytest.fixture
def examine(monkeypatch, capsys):
    """Runs the command on a machine given as facts; returns its code and its words."""

    def run(machine, *arguments, packages=(), health=(), not_measured=(), known=(), lacking=()):
        def read():
            if isinstance(machine, Exception):
                raise machine
            return machine

        tried = SimpleNamespace(lacks=lambda: lacking, stop=lambda: None)
        monkeypatch.setattr(examination, "read_machine", read)
        monkeypatch.setattr(examination, "try_loading", lambda libraries: libraries)
        monkeypatch.setattr(examination, "read_packages", lambda: packages)
        monkeypatch.setattr(examination, "read_health", lambda gpus, xids: health)
        monkeypatch.setattr(examination, "missing_names", lambda: not_measured)
        monkeypatch.setattr(examination, "compilations", lambda: known)
        monkeypatch.setattr(examination, "TriedFit", lambda: tried)
        monkeypatch.setenv("COLUMNS", "120")
        parser = argparse.ArgumentParser()
        commands.add_parser(parser.add_subparsers())
        parsed = parser.parse_args(["doctor", *arguments])
        code, text = parsed.func(parsed), capsys.readouterr().out
        return code, valid_json("doctor", text) if "--json" in arguments else Words(text)

    return run


def lines_of(text):
    return {" ".join(line.split()) for line in text.splitlines()}


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
        "ok measurements all are available with this TensorFlow and Keras",
    ):
        assert words in text
    lines = lines_of(text.split("\n\n")[-1])
    assert "set TF_FORCE_GPU_ALLOW_GROWTH 'false'" in lines
    assert {line.split()[0] for line in lines} == {"ok", "set"}
    code, data = examine(HEALTHY, "--json")
    assert (code, data["can_train_on_gpu"]) == (0, True)
    assert data["versions"]["keras"] == keras.__version__
    assert data["gpus"][0]["uuid"] == "GPU-0"
    assert data["libraries"][0]["name"] == "libcudnn.so.9"
    assert data["plan"]["actions"][0]["name"] == "TF_FORCE_GPU_ALLOW_GROWTH"


def test_a_machine_without_a_usable_gpu_exits_with_1_and_says_every_reason(examine):
    code, text = examine(BROKEN)
    assert code == 1
    assert "CUDA_VISIBLE_DEVICES='' hides every GPU" in text
    assert "missing: libcudnn.so.9" in text
    assert lines_of(text.split("\n\n")[-1]) >= {
        "missing libcudnn.so.9 not found",
        "ok GPU 0 of the machine unknown name at unknown place",
        "missing GPUs that TensorFlow sees none",
        "set CUDA_VISIBLE_DEVICES ''",
    }
    code, data = examine(BROKEN, "--json")
    causes = [cause["code"] for cause in data["plan"]["causes"]]
    assert (code, causes) == (1, ["hidden", "missing_libraries"])
    # Also another file that a library needs.
    no_file = "cannot open shared object file: No such file or directory"
    libraries = (
        records.CUDALibrary("libcudnn.so.9", error=f"libcudnn.so.9: {no_file}"),
        records.CUDALibrary("libcusolver.so.11", error=f"libnvJitLink.so.12: {no_file}"),
    )
    _, text = examine(replace(BROKEN, libraries=libraries))
    assert "missing libcudnn.so.9 not found" in text
    assert f"missing libcusolver.so.11 libnvJitLink.so.12: {no_file}" in text


def two_gpus(**second):
    facts = [(f"GPU-{index}", 40 << 30, (8, 0)) for index in range(2)]
    gpus = [
        records.DriverGPU(index, "NVIDIA A100", *each, f"00000000:0{index}:00.0")
        for index, each in enumerate(facts)
    ]
    none = (None, None)
    return replace(
        HEALTHY,
        gpus=tuple(
            records.GPUInfo(index, "NVIDIA A100", *each) for index, each in enumerate(facts)
        ),
        driver=replace(DRIVER, gpus=(gpus[0], replace(gpus[1], **second))),
        state=records.TensorFlowState(visible_gpus=(0, 1), growth=none, memory_limit_mib=none),
    )


FULL = records.GPUHealth(
    0, memory_used_bytes=(40 << 30) - 1, processes=(records.GPUHolder(7, 39 << 30, "python"),)
)


def test_a_gpu_that_another_process_fills_is_named_with_that_process_and_the_other_is_used(examine):
    code, text = examine(two_gpus(), health=(FULL, records.GPUHealth(1, memory_used_bytes=0)))
    assert code == 0
    held = "40.0 of 40.0 GiB of GPU 0's memory are in use; python (pid 7, 39.0 GiB)"
    assert f"Blocked: {held}" in text
    line = "GPU 0 of the machine NVIDIA A100 at 00000000:00:00.0, 40 GiB of 40 GiB in use"
    assert f"{line}, TensorFlow's GPU 0" in text
    # One that is not identified has the reason.
    because = "CUDA_DEVICE_ORDER is FASTEST_FIRST"
    unknown = replace(HEALTHY.gpus[0], uuid=None, unidentified_because=because)
    _, text = examine(replace(two_gpus(), gpus=(unknown,), state=HEALTHY.state))
    assert f"unknown: {because}" in text
    assert "TensorFlow's GPU" not in text


def test_a_machine_whose_every_gpu_is_blocked_exits_with_1(examine):
    code, text = examine(two_gpus(error="GpuIsLost"), health=(FULL,))
    assert code == 1
    assert "GPU 1 does not answer (NVML says GpuIsLost)" in text
    _, data = examine(two_gpus(error="GpuIsLost"), "--json", health=(FULL,))
    assert not data["can_train_on_gpu"]
    problems = [(each["code"], each["gpu"]) for each in data["problems"]]
    assert problems == [("memory_held", 0), ("gpu_lost", 1)]
    assert data["health"][0]["processes"] == [{"pid": 7, "used_bytes": 39 << 30, "name": "python"}]


def test_a_library_that_cannot_be_loaded_blocks_every_gpu(examine):
    path = "/usr/local/cuda/lib64/libcudnn.so.9"
    error = f"{path}: file too short"
    broken = records.CUDALibrary("libcudnn.so.9", path, "LD_LIBRARY_PATH", error=error)
    package = records.CUDAPackage("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.1.0.70", fits=False)
    code, text = examine(replace(HEALTHY, libraries=(broken,)), packages=(package,))
    assert code == 1
    assert f"broken libcudnn.so.9 {path} (LD_LIBRARY_PATH): {path}: file too short" in text
    assert "take that folder out of the variable" in text
    assert "broken nvidia-cudnn-cu12 9.1.0.70; TensorFlow asks for <10.0,>=9.3.0.75" in text


def test_a_measurement_that_this_tensorflow_does_not_allow_is_named_with_what_is_missing(examine):
    package = version("tensorflow")
    name = "tensorflow.python.data.ops.dataset_ops:DatasetV2._inputs"
    lacks = (records.MissingNames("input stall per stage", (name,)),)
    said = f"unknown or less precise: tensorflow {package} has no DatasetV2._inputs"
    assert f"missing input stall per stage {said}" in examine(HEALTHY, not_measured=lacks)[1]
    counters = f"tensorflow {package} has no counters in the layout of 2.21"
    assert counters in examine(HEALTHY, known=None)[1]
    data = examine(HEALTHY, "--json", not_measured=lacks)[1]
    assert data["not_measured"] == [{"measurement": "input stall per stage", "names": [name]}]
    # Also one that found nothing in a trial.
    _, text = examine(HEALTHY, lacking=("memory prediction",))
    assert "memory prediction" in text
    assert "a small model was trained, and it found nothing" in text


def test_another_backend_and_a_gpu_newer_than_the_build_are_said_with_what_helps(examine):
    said = "Keras runs on jax; keras_gpukit works on TensorFlow only (set KERAS_BACKEND=tensorflow)"
    _, text = examine(replace(HEALTHY, keras_backend="jax"))
    assert f"missing Keras on TensorFlow {said}" in text
    gpu = records.DriverGPU(0, "NVIDIA GeForce RTX 5080", "GPU-0", 16 << 30, (12, 0))
    build = replace(HEALTHY.build, compute_capabilities=("sm_89", "compute_90"))
    _, text = examine(replace(HEALTHY, driver=replace(HEALTHY.driver, gpus=(gpu,)), build=build))
    assert "compute capability 12.0, and this TensorFlow has kernels up to 9.0" in text
    assert "jit_compile=False" in text


def test_a_tensorflow_that_cannot_be_imported_is_a_finding(examine, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    code, text = examine(ImportError("libfoo.so.1: not found"))
    assert code == 1
    assert "libfoo.so.1: not found). Does `python -c" in text
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    _, text = examine(ModuleNotFoundError("No module named 'jax'"))
    assert "KERAS_BACKEND is 'jax', and keras_gpukit works on TensorFlow only." in text


def test_the_answer_comes_first_and_without_a_driver_libraries_are_one_line(examine):
    nothing = records.Driver(error="LibraryNotFound")
    libraries = tuple(map(records.CUDALibrary, ("libcudart.so.12", "libcudnn.so.9")))
    _, text = examine(replace(BROKEN, driver=nothing, libraries=libraries, environment={}))
    answer, checks = text.split("\n\n")
    assert answer.startswith("No GPU is used; training runs on the CPU.\nNo NVIDIA driver is")
    assert lines_of(checks) >= {
        "missing NVIDIA driver not found",
        "missing CUDA libraries 2 of 2 not found; that matters once there is a driver",
    }
    assert "libcudnn" not in checks


def test_its_own_version_is_known_without_being_installed(examine, monkeypatch):
    def not_installed(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(examination, "version", not_installed)
    assert lines_of(examine(HEALTHY)[1]) >= {
        f"ok keras-gpukit {__version__}",
        "missing tensorflow not installed",
        f"ok keras {keras.__version__}",  # as its own file says
    }


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
    assert (said in text) is cannot_start


def test_what_tensorflow_logs_is_shown_if_it_fails_or_if_asked_for(run_python):
    logs = (
        "import argparse, os, sys\n"
        "from keras_gpukit.cli import examination, machine\n"
        "from keras_gpukit.records import Build, Machine\n"
        "def read_machine():\n"
        "    os.write(2, b'logged')\n"
        "    if fails: raise ImportError('libfoo.so.1: not found')\n"
        "    return Machine(build=Build(cuda=True))\n"
        "examination.read_machine, examination.compilations = read_machine, lambda: ()\n"
        "examination.TriedFit.lacks = lambda fit: fit.stop()\n"
        "for level in ({}, {'TF_CPP_MIN_LOG_LEVEL': '2'}, {'TF_CPP_MIN_LOG_LEVEL': '0'}):\n"
        "    os.environ.pop('TF_CPP_MIN_LOG_LEVEL', None)\n"
        "    os.environ.update(level)\n"
        "    for fails in (False, True):\n"
        "        machine.examine_machine(argparse.Namespace(json=True))\n"
        "        print('and then', file=sys.stderr, flush=True)\n"
    )
    shown = [f"{always}and then\nloggedand then\n" for always in ("", "", "logged")]
    assert run_python(logs).stderr == "".join(shown)


@pytest.mark.tensorflow
def test_this_very_machine(run_python):
    """The real facts, in a process of their own; whatever they are, the answer is consistent."""
    done = run_python(
        "import argparse, os, sys\n"
        "os.environ.pop('TF_CPP_MIN_LOG_LEVEL')\n"
        "from keras_gpukit.cli import machine\n"
        "from keras_gpukit.frameworks.tf_runtime import is_initialized\n"
        "code = machine.examine_machine(argparse.Namespace(json=True))\n"
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


def test_two_distributions_of_keras_are_told(examine, monkeypatch):
    both = {"keras": ["keras", "keras-nightly"]}
    monkeypatch.setattr(examination, "packages_distributions", lambda: both)
    problems = {each["code"]: each for each in examine(HEALTHY, "--json")[1]["problems"]}
    assert "keras and keras-nightly" in problems["two_keras"]["text"]


@pytest.mark.slow
@pytest.mark.long  # without it the very machine's answer names what is missing
def test_every_measurement_finds_something_in_a_small_fit():
    assert TriedFit().lacks() == ()
