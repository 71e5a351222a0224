"""The driver, with NVIDIA's binding over a stand-in for its library; and the CUDA libraries."""

from helpers.fake_nvml import GIB, FakeGPU, FakeNVML

from keras_gpukit.records.installation import DriverGPU
from keras_gpukit.sensors.cuda_libraries import find_libraries, needed_libraries
from keras_gpukit.sensors.driver import read_driver

A, B = "GPU-a", "GPU-b"


def test_a_working_driver_describes_its_gpus():
    driver = read_driver(FakeNVML([FakeGPU(A), FakeGPU(B, "NVIDIA A100", 80 * GIB)]))
    assert driver.version == "560.35.03"
    assert driver.cuda_version == (12, 6)
    assert driver.gpus[1] == DriverGPU(1, "NVIDIA A100", B, 80 << 30, (8, 0), "00000000:01:00.0")


def test_what_a_gpu_does_not_tell_is_unknown():
    questions = "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"
    silent = FakeNVML([FakeGPU(A, refuses=dict.fromkeys(questions, "NotSupported"))])
    (gpu,) = read_driver(silent).gpus
    assert gpu.uuid == A
    assert gpu.memory_bytes is None
    assert gpu.compute_capability is None


def test_a_missing_driver_is_no_error():
    driver = read_driver(FakeNVML(error="LibraryNotFound"))
    assert driver.error == "LibraryNotFound"
    assert driver.version is None
    assert driver.gpus == ()


def test_bindings_that_cannot_be_used_are_no_error():
    assert read_driver(object()).error == "AttributeError"


def test_libraries_are_looked_for_in_pip_packages_then_in_the_system(tmp_path):
    folder = tmp_path / "nvidia" / "cublas" / "lib"
    folder.mkdir(parents=True)
    (folder / "libcublas.so.12").touch()

    def load(name):
        if name != "libcudart.so.12":
            raise OSError(name)

    names = ("libcublas.so.12", "libcudart.so.12", "libcudnn.so.9")
    found = find_libraries(names, [str(tmp_path)], load)
    assert [library.path for library in found] == [
        str(folder / "libcublas.so.12"),
        "system",
        None,
    ]


def test_the_libraries_needed_follow_the_build():
    assert "libcublas.so.12" in needed_libraries("12.5.1", "9")
    assert needed_libraries("12.5.1", "9")[-1] == "libcudnn.so.9"
    assert "libcudart.so.11.0" in needed_libraries("11.8", "8")
    assert needed_libraries(None, None) == ()
    assert needed_libraries("99.0", "9") == ()
