"""Why there is no GPU, and what blocks one: each is named with its fix."""

from dataclasses import replace

import pytest

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
    MIGInstance,
    Xid,
)
from keras_gpukit.rules.setup.gpu_problems import (
    MEANINGS,
    gpu_problems,
    library_problems,
    newer_gpus,
    worst_of,
)
from keras_gpukit.rules.setup.no_gpu import why_no_gpu

GIB = 2**30
GPU = DriverGPU(2, "NVIDIA H100", "GPU-2", 80 * GIB, (9, 0), "00000000:65:00.0")
FINE = GPUHealth(
    2,
    compute_mode="default",
    memory_used_bytes=GIB // 2,
    processes=(),
    ecc_uncorrected=0,
    remapping_pending=False,
    remapping_failed=False,
    recovery_action="none",
    xids=(),
)
TRAINING = GPUHolder(4242, 30 * GIB, "python")


def xid(code, text="pid=1, name=python"):
    return Xid(code, "0000:65:00", text)


EXCLUSIVE = {"compute_mode": "exclusive process", "processes": (replace(TRAINING, used_bytes=1),)}
HELD = {"memory_used_bytes": 31 * GIB, "processes": (TRAINING,)}
IN_USE = "memory are in use; python (pid 4242, 30.0 GiB)"
FULL, RESET = {"memory_used_bytes": 80 * GIB - 1}, {"recovery_action": "reset_gpu"}


DIVIDED = replace(GPU, mig=(MIGInstance("MIG-1"),))


@pytest.mark.parametrize(
    ("gpu", "health"),
    [
        (GPU, [FINE]),
        (GPU, [GPUHealth(2)]),  # nothing is readable
        (GPU, []),
        (GPU, [replace(FINE, compute_mode="exclusive process")]),  # and no process has it
        (DIVIDED, [replace(FINE, memory_used_bytes=80 * GIB)]),  # of its instances
    ],
)
def test_a_gpu_without_a_fault_has_no_problem(gpu, health):
    assert gpu_problems([gpu], health) == ()


@pytest.mark.parametrize(
    ("gpu", "health", "code", "blocks", "words"),
    [
        ({"error": "GpuIsLost"}, {}, "gpu_lost", True, "NVML says GpuIsLost"),
        ({}, {"compute_mode": "prohibited"}, "compute_prohibited", True, "-i 2 -c DEFAULT"),
        ({}, EXCLUSIVE, "exclusive_process", True, "python (pid 4242, 0.0 GiB) has it"),
        ({"mig": ()}, {}, "mig_without_instance", True, "nvidia-smi mig -i 2 -cgi"),
        ({}, HELD, "memory_held", False, f"31.0 of 80.0 GiB of GPU 2's {IN_USE}"),
        ({}, FULL, "memory_held", True, "the driver shows no process that does"),
        ({}, {"ecc_uncorrected": 3}, "ecc_errors", False, "3 uncorrected memory errors"),
        ({}, {"remapping_pending": True}, "remapping_pending", False, "--gpu-reset -i 2"),
        ({}, {"remapping_failed": True}, "remapping_failed", False, "returning the GPU"),
        ({}, RESET, "recovery_needed", True, "the driver asks to reset the GPU. End its processes"),
        ({}, {"recovery_action": "restart_machine"}, "recovery_needed", True, "administrator"),
        ({}, {"xids": (xid(13),)}, "xid", False, "Xid 13 (an exception in a kernel)"),
    ],
)
def test_each_fault_is_named_with_its_fix(gpu, health, code, blocks, words):
    (problem,) = gpu_problems([replace(GPU, **gpu)], [replace(FINE, **health)])
    assert (problem.code, problem.gpu, problem.blocks) == (code, 2, blocks)
    assert words in str(problem)
    assert problem.advice


def test_what_blocks_comes_first_and_of_xids_the_latest_that_needs_a_reset():
    health = replace(FINE, ecc_uncorrected=1, compute_mode="prohibited")
    assert [each.blocks for each in gpu_problems([GPU], [health])] == [True, False]
    assert worst_of([xid(79), xid(48), xid(45)])[0].code == 48
    assert worst_of([xid(13), xid(31)])[0].code == 31
    assert worst_of([xid(999)])[1].text == "of another kind"
    assert worst_of([]) is None
    assert all(meaning.advice for meaning in MEANINGS.values())


CUDNN = CUDALibrary("libcudnn.so.9", "/env/nvidia/cudnn/lib/libcudnn.so.9", "pip", "9.3.0")
PACKAGE = CUDAPackage("nvidia-cudnn-cu12", "<10.0,>=9.3.0.75", "9.3.0.75", fits=True)


def test_libraries_that_load_have_no_problem():
    assert library_problems([CUDNN, CUDALibrary("libcublas.so.12")], [PACKAGE]) == ()
    newer = replace(CUDNN, version="9.10.2")
    assert library_problems([newer], [PACKAGE]) == ()
    assert library_problems([replace(CUDNN, version=None)], [PACKAGE]) == ()
    assert library_problems([replace(CUDNN, version="9.1.0")], []) == ()


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("pip", 'pip install "nvidia-cudnn-cu12<10.0,>=9.3.0.75"'),
        ("LD_LIBRARY_PATH", "take that folder out of the variable"),
        ("system", "The system's own library is used because the pip package is missing"),
    ],
)
def test_a_cudnn_older_than_tensorflow_was_built_for_is_named(source, fix):
    old = replace(CUDNN, version="9.1.0", source=source)
    (problem,) = library_problems([old], [PACKAGE])
    assert (problem.code, problem.blocks, problem.gpu) == ("old_cudnn", True, None)
    assert f"cuDNN 9.1.0 ({old.path})" in problem.text
    assert fix in problem.advice


def test_a_broken_library_and_a_package_of_another_version_are_named():
    broken = replace(CUDNN, error="libcudnn_graph.so.9: cannot open shared object file")
    wrong = replace(PACKAGE, installed="8.9.7.29", fits=False)
    loading, clash = library_problems([broken], [wrong])
    assert "cannot be loaded: libcudnn_graph.so.9: cannot open" in loading.text
    assert loading.blocks
    assert "nvidia-cudnn-cu12 8.9.7.29 is installed" in clash.text
    assert not clash.blocks


WHEEL = Build(True, compute_capabilities=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"))


@pytest.mark.parametrize("capability", [(6, 1), (7, 5), (8, 6), (8, 9), (9, 0), None])
def test_gpus_that_the_build_has_kernels_for_are_no_problem(capability):
    assert newer_gpus([replace(GPU, compute_capability=capability)], WHEEL) == ()
    assert newer_gpus([replace(GPU, compute_capability=capability)], Build(True)) == ()


def test_a_gpu_newer_than_the_build_is_told_with_what_helps():
    new = replace(GPU, name="NVIDIA GeForce RTX 5080", compute_capability=(12, 0))
    (problem,) = newer_gpus([GPU, new], WHEEL)
    assert (problem.code, problem.gpu, problem.blocks) == ("newer_gpu", 2, False)
    assert problem.text == (
        "GPU 2 (NVIDIA GeForce RTX 5080) has compute capability 12.0, and this TensorFlow has "
        "kernels up to 9.0. The driver compiles them for it from PTX when it first needs them, "
        "which TensorFlow says may take 30 minutes or longer."
    )
    assert "jit_compile=False" in problem.advice
    assert "'sm_120'" in problem.advice
    binaries = Build(True, compute_capabilities=("sm_80", "sm_90"))
    assert newer_gpus([new], binaries)[0].blocks
    assert newer_gpus([replace(new, compute_capability=(9, 2))], binaries) == ()


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


def test_several_causes_come_in_the_order_to_mend_them():
    facts = machine(
        Build(cuda=False),
        Driver(error="LibraryNotFound"),
        environment={"CUDA_VISIBLE_DEVICES": ""},
        libraries=(CUDALibrary("libcudnn.so.9"),),
    )
    assert [cause.code for cause in why_no_gpu(facts)] == ["cpu_build", "hidden", "no_driver"]
    assert why_no_gpu(machine(gpus=(GPUInfo(0),))) == ()


@pytest.mark.parametrize("visible", ["0", " 0", "GPU-a", "GPU-abc,7", "MIG-1"])
def test_a_visible_gpu_is_not_said_to_be_hidden(visible):
    facts = machine(environment={"CUDA_VISIBLE_DEVICES": visible})
    assert why_no_gpu(facts)[0].code == "unknown"
