"""The driver, against a stand-in for NVML."""

from configure.cases.stand_in import nvml, uuid

from keras_gpukit.configure.driver import Driver, DriverGPU, identify, read_driver
from keras_gpukit.records.environment import GPUInfo


def test_a_working_driver_describes_its_gpus():
    driver = read_driver(nvml(2))
    assert driver.version == "560.35.03"
    assert driver.cuda_version == (12, 6)
    assert driver.gpus[1] == DriverGPU(
        1, "NVIDIA A100", uuid(1), 80 << 30, (8, 0), "00000000:01:00.0"
    )


def test_what_a_gpu_does_not_tell_is_unknown():
    silent = nvml()

    def refuse(handle):
        raise silent.NVMLError

    silent.nvmlDeviceGetMemoryInfo = silent.nvmlDeviceGetCudaComputeCapability = refuse
    (gpu,) = read_driver(silent).gpus
    assert gpu.uuid == uuid(0)
    assert gpu.memory_bytes is None
    assert gpu.compute_capability is None


def test_a_missing_driver_is_no_error():
    driver = read_driver(nvml(fails="LibraryNotFound"))
    assert driver.error == "LibraryNotFound"
    assert driver.version is None
    assert driver.gpus == ()


def test_gpus_are_identified_by_uuid_whatever_their_order():
    driver = Driver(
        gpus=(DriverGPU(0, "small", uuid(0), 1 << 30), DriverGPU(1, "large", uuid(1), 2 << 30))
    )
    first, second = identify((GPUInfo(0), GPUInfo(1)), driver, (uuid(1), uuid(0)))
    assert (first.name, first.memory_bytes) == ("large", 2 << 30)
    assert (second.name, second.memory_bytes) == ("small", 1 << 30)


def test_what_cannot_be_told_apart_stays_unknown():
    driver = Driver(gpus=(DriverGPU(0, uuid=uuid(0)), DriverGPU(1, uuid=uuid(1))))
    assert identify((GPUInfo(0),), driver, ()) == (GPUInfo(0),)
    only = Driver(gpus=(DriverGPU(0, "one", uuid(0), 1 << 30, (8, 0)),))
    assert identify((GPUInfo(0),), only, ()) == (GPUInfo(0, "one", uuid(0), 1 << 30, (8, 0)),)
