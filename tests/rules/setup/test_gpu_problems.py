"""What blocks a GPU is named, with its fix."""

from dataclasses import replace

import pytest

from keras_gpukit.records import (
    Build,
    CUDALibrary,
    CUDAPackage,
    DriverGPU,
    GPUHealth,
    GPUHolder,
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


@pytest.mark.parametrize("health", [FINE, GPUHealth(2)], ids=["fine", "nothing is readable"])
def test_a_gpu_without_a_fault_has_no_problem(health):
    assert gpu_problems([GPU], [health]) == ()
    assert gpu_problems([GPU], []) == ()


@pytest.mark.parametrize(
    ("gpu", "health", "code", "blocks", "words"),
    [
        ({"error": "GpuIsLost"}, {}, "gpu_lost", True, "NVML says GpuIsLost"),
        ({}, {"compute_mode": "prohibited"}, "compute_prohibited", True, "-i 2 -c DEFAULT"),
        (
            {},
            {"compute_mode": "exclusive process", "processes": (replace(TRAINING, used_bytes=1),)},
            "exclusive_process",
            True,
            "python (pid 4242, 0.0 GiB) has it",
        ),
        ({"mig": ()}, {}, "mig_without_instance", True, "nvidia-smi mig -i 2 -cgi"),
        (
            {},
            {"memory_used_bytes": 31 * GIB, "processes": (TRAINING,)},
            "memory_held",
            False,
            "31.0 of 80.0 GiB of GPU 2's memory are in use; python (pid 4242, 30.0 GiB)",
        ),
        (
            {},
            {"memory_used_bytes": 80 * GIB - 1},
            "memory_held",
            True,
            "the driver shows no process that does",
        ),
        ({}, {"ecc_uncorrected": 3}, "ecc_errors", False, "3 uncorrected memory errors"),
        ({}, {"remapping_pending": True}, "remapping_pending", False, "--gpu-reset -i 2"),
        ({}, {"remapping_failed": True}, "remapping_failed", False, "returning the GPU"),
        (
            {},
            {"recovery_action": "reset the GPU"},
            "recovery_needed",
            True,
            "the driver asks to reset the GPU. End its processes, then",
        ),
        (
            {},
            {"recovery_action": "restart the machine"},
            "recovery_needed",
            True,
            "administrator",
        ),
        ({}, {"xids": (xid(13),)}, "xid", False, "Xid 13 (an exception in a kernel)"),
    ],
)
def test_each_fault_is_named_with_its_fix(gpu, health, code, blocks, words):
    (problem,) = gpu_problems([replace(GPU, **gpu)], [replace(FINE, **health)])
    assert (problem.code, problem.gpu, problem.blocks) == (code, 2, blocks)
    assert words in str(problem)
    assert problem.advice


def test_exclusive_mode_alone_and_memory_of_instances_are_no_problem():
    assert gpu_problems([GPU], [replace(FINE, compute_mode="exclusive process")]) == ()
    divided = replace(GPU, mig=(MIGInstance("MIG-1"),))
    assert gpu_problems([divided], [replace(FINE, memory_used_bytes=80 * GIB)]) == ()


def test_what_blocks_comes_first():
    health = replace(FINE, ecc_uncorrected=1, compute_mode="prohibited")
    assert [each.blocks for each in gpu_problems([GPU], [health])] == [True, False]


def test_of_several_xids_the_latest_that_needs_a_reset_is_named():
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
