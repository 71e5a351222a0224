"""Why there is no GPU, from facts alone."""

import pytest

from keras_gpukit.records import Build, CUDALibrary, Driver, DriverGPU, GPUInfo, Machine
from keras_gpukit.rules.setup.no_gpu import why_no_gpu

CUDA = Build(cuda=True, cuda_version="12.5.1", cudnn_version="9", compute_capabilities=("sm_60",))
A100 = DriverGPU(0, "NVIDIA A100", "GPU-abc", 40 << 30, (8, 0))
WORKING = Driver(version="560.35", cuda_version=(12, 6), gpus=(A100,))


def machine(build=CUDA, driver=WORKING, **facts):
    return Machine(build=build, driver=driver, **facts)


CASES = {
    "cpu_build": (machine(Build(cuda=False)), "tensorflow[and-cuda]"),
    "cpu_build on Windows": (machine(Build(cuda=False), platform="win32"), "WSL2"),
    "cpu_build on a Mac": (
        machine(Build(cuda=False), Driver(error="LibraryNotFound"), platform="darwin"),
        "tensorflow-metal",
    ),
    "hidden": (machine(environment={"CUDA_VISIBLE_DEVICES": ""}), "hides every GPU"),
    "hidden by -1": (machine(environment={"CUDA_VISIBLE_DEVICES": "-1"}), "'-1' hides every GPU"),
    "hidden, index": (machine(environment={"CUDA_VISIBLE_DEVICES": "3,0"}), "begins with '3'"),
    "hidden, UUID": (machine(environment={"CUDA_VISIBLE_DEVICES": "GPU-x"}), "nvidia-smi -L"),
    "no_driver": (machine(driver=Driver(error="LibraryNotFound")), "No NVIDIA driver"),
    "driver_not_passed_in": (
        machine(driver=Driver(error="LibraryNotFound", kernel_module=True)),
        "--gpus all",
    ),
    "driver_not_loaded": (machine(driver=Driver(error="DriverNotLoaded")), "modprobe"),
    "driver_mismatch": (machine(driver=Driver(error="LibRmVersionMismatch")), "restart"),
    "driver_fails": (machine(driver=Driver(error="GpuIsLost")), "GpuIsLost"),
    "no_device": (machine(driver=Driver(version="560.35", cuda_version=(12, 6))), "finds no GPU"),
    "old_driver": (
        machine(driver=Driver(version="470.1", cuda_version=(11, 4), gpus=(A100,))),
        "CUDA up to 11.4",
    ),
    "missing_libraries": (
        machine(libraries=(CUDALibrary("libcudnn.so.9"), CUDALibrary("libcublas.so.12", "system"))),
        "missing: libcudnn.so.9.",
    ),
    "old_gpu": (
        machine(driver=Driver("560", (12, 6), gpus=(DriverGPU(0, compute_capability=(5, 2)),))),
        "capability 5.2",
    ),
    "unknown": (machine(), "TF_CPP_MAX_VLOG_LEVEL"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_told_apart_with_advice(name):
    facts, words = CASES[name]
    (cause,) = why_no_gpu(facts)
    assert cause.code == name.replace(",", " ").split()[0]
    assert words in str(cause)
    assert cause.advice


def test_a_gpu_needs_no_diagnosis():
    assert why_no_gpu(machine(gpus=(GPUInfo(0),))) == ()


def test_several_causes_come_in_the_order_to_mend_them():
    facts = machine(
        Build(cuda=False),
        Driver(error="LibraryNotFound"),
        environment={"CUDA_VISIBLE_DEVICES": ""},
        libraries=(CUDALibrary("libcudnn.so.9"),),
    )
    assert [cause.code for cause in why_no_gpu(facts)] == ["cpu_build", "hidden", "no_driver"]


@pytest.mark.parametrize("visible", ["0", " 0", "GPU-a", "GPU-abc,7", "MIG-1"])
def test_a_visible_gpu_is_not_said_to_be_hidden(visible):
    facts = machine(environment={"CUDA_VISIBLE_DEVICES": visible})
    assert why_no_gpu(facts)[0].code == "unknown"
