"""Which of the machine's GPUs each GPU of TensorFlow is, and what is read of it.

NVML is read through NVIDIA's own binding; the library below it replays the files of
`helpers/nvml_scenarios`.
"""

import ctypes
import os
import sys
import uuid
from dataclasses import replace
from itertools import permutations

import pytest
from helpers.fake_nvml import GIB, FakeGPU, FakeNVML, scenario

from keras_gpukit.records import GPUInfo, GPUSample
from keras_gpukit.sensors import driver
from keras_gpukit.sensors.devices import CUDADevice, cuda_devices, identify
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.nvml import NVMLSensor, other_holders

ME = os.getpid()


@pytest.fixture(autouse=True)
def _process_numbers_of_the_machine(monkeypatch):
    monkeypatch.setattr(driver, "in_first_namespace", lambda: True)


@pytest.fixture
def in_container(monkeypatch):
    monkeypatch.setattr(driver, "in_first_namespace", lambda: False)
    monkeypatch.setattr(driver, "exists", {ME, 324}.__contains__)


def machine(name):
    """The scenario's GPUs, NVML over them, and what the driver reports."""
    gpus = scenario(name, this=ME)
    nvml = FakeNVML(gpus)
    return gpus, nvml, read_driver(nvml)


def tensorflow_gpus(count):
    return tuple(GPUInfo(index) for index in range(count))


class FakeCUDA:
    """The CUDA driver library: lists GPUs by UUID, and of an instance also that of its GPU."""

    def __init__(self, *listed, status=0, without=()):
        self._listed = listed  # (UUID, UUID of the whole GPU, bus id)
        self._status = status
        for name in without:
            setattr(self, name, None)

    def cuInit(self, flags):
        return self._status

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self._listed)
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = 100 + ordinal
        return 0

    def cuDeviceGetUuid(self, octets, device):
        return self._fill(octets, self._listed[device.value - 100][1])

    def cuDeviceGetUuid_v2(self, octets, device):
        return self._fill(octets, self._listed[device.value - 100][0])

    def cuDeviceGetPCIBusId(self, text, length, device):
        bus = self._listed[device.value - 100][2]
        if bus is None:
            return 1
        text.value = bus.encode()
        return 0

    def _fill(self, octets, found):
        ctypes.memmove(octets._obj, uuid.UUID(found[4:]).bytes, 16)
        return 0


def as_cuda(gpu, whole=None):
    bus = (whole or gpu).pci_bus_id.lower().removeprefix("0000")
    return gpu.uuid, (whole or gpu).uuid, bus


# Five machines


def test_one_gpu_is_read_as_nvml_reports_it():
    gpus, nvml, driver = machine("one_gpu")
    found = identify(
        tensorflow_gpus(1), driver, cuda_devices(lambda name: FakeCUDA(as_cuda(gpus[0])))
    )
    assert (found[0].uuid, found[0].pci_bus_id) == (gpus[0].uuid, "00000000:65:00.0")
    sensor = NVMLSensor(found, nvml)
    assert sensor.read_gpus() == (
        GPUSample(
            index=0,
            utilization_percent=97.0,
            memory_used_bytes=30 * GIB,
            memory_process_bytes=24 * GIB,
            memory_others_bytes=5 * GIB,
            memory_total_bytes=85520809984,
            power_watts=512.345,
            temperature_celsius=61,
            sm_clock_mhz=1755,
            throttle_reasons=("software power cap",),
        ),
    )
    (holder,) = other_holders(found[0], nvml)
    assert (holder.pid, holder.used_bytes) == (4242, 5 * GIB)


def test_of_eight_gpus_each_is_its_own_in_every_order_of_cuda():
    gpus, nvml, driver = machine("eight_gpus")
    orders = [tuple(range(8)), tuple(reversed(range(8))), (6, 2), *permutations((1, 4, 7))]
    for order in orders:
        listed = [as_cuda(gpus[place]) for place in order]
        cuda = cuda_devices(lambda name, listed=listed: FakeCUDA(*listed))
        found = identify(tensorflow_gpus(len(order)), driver, cuda)
        assert [gpu.uuid for gpu in found] == [gpus[place].uuid for place in order]
        sensor = NVMLSensor(found, nvml)
        assert [each.utilization_percent for each in sensor.read_gpus()] == [10 * i for i in order]
        assert [each.memory_used_bytes for each in sensor.read_gpus()] == [
            (i + 1) * GIB for i in order
        ]
        sensor.close()


def test_an_instance_of_a_gpu_in_mig_mode_has_its_own_counters():
    gpus, nvml, driver = machine("mig")
    second = gpus[0].mig[1]
    cuda = cuda_devices(lambda name: FakeCUDA(as_cuda(second, gpus[0])))
    assert cuda[0].uuid == second.uuid
    (found,) = identify(tensorflow_gpus(1), driver, cuda)
    assert (found.uuid, found.memory_bytes) == (second.uuid, second.memory_total)
    assert found.pci_bus_id == gpus[0].pci_bus_id
    (reading,) = NVMLSensor([found], nvml).read_gpus()
    assert reading == GPUSample(
        index=0,  # power, clock and utilization are those of the GPU, and NVML keeps them there
        memory_used_bytes=6 * GIB + 2**27,
        memory_total_bytes=20937965568,
    )
    (found,) = identify(tensorflow_gpus(1), driver, (CUDADevice(gpus[0].mig[0].uuid),))
    (reading,) = NVMLSensor([found], nvml).read_gpus()
    assert (reading.memory_process_bytes, reading.memory_others_bytes) == (9 * GIB, 0)
    divided, whole = driver.gpus
    assert whole.mig is None
    assert [each.name for each in divided.mig] == ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"] * 2


def test_of_a_gpu_that_vanishes_only_the_others_are_read_on():
    gpus, nvml, _ = machine("vanishing_gpu")
    sensor = NVMLSensor([GPUInfo(i, uuid=gpu.uuid) for i, gpu in enumerate(gpus)], nvml)
    read = [[each.utilization_percent for each in sensor.read_gpus()] for _ in range(4)]
    assert read[0] == [80.0, 85.0, 90.0]
    assert read[-1] == [80.0, 90.0]
    assert sensor.lost == {1: "GPU is lost"}
    driver = read_driver(nvml)
    assert [gpu.error for gpu in driver.gpus] == [None, "GpuIsLost", None]
    # The next run starts without it.
    sensor = NVMLSensor([GPUInfo(i, uuid=gpu.uuid) for i, gpu in enumerate(gpus)], nvml)
    assert [each.index for each in sensor.read_gpus()] == [0, 2]
    assert sensor.lost == {1: "GPU is lost"}


def test_unreadable_counters_are_unknown_and_never_zero():
    gpus, nvml, driver = machine("unreadable_counters")
    sensor = NVMLSensor([GPUInfo(i, uuid=gpu.uuid) for i, gpu in enumerate(gpus)], nvml)
    old, virtual, hidden = sensor.read_gpus()
    assert (old.utilization_percent, old.power_watts, old.memory_process_bytes) == (
        33.0,
        None,
        None,
    )
    assert virtual == GPUSample(index=1)
    assert (hidden.memory_used_bytes, hidden.memory_process_bytes) == (3 * GIB, None)
    assert [gpu.mig for gpu in driver.gpus] == [None] * 3
    assert [gpu.memory_bytes for gpu in driver.gpus] == [6 * GIB, None, 24 * GIB]
    assert sensor.lost == {}


def test_no_gpu_at_all_is_nvmls_own_error():
    nvml = FakeNVML([FakeGPU("GPU-a", lost=True)])
    with pytest.raises(nvml.NVMLError_GpuIsLost):
        NVMLSensor([GPUInfo(0, uuid="GPU-a")], nvml)
    assert nvml.users == 0


# CUDA


def test_cuda_without_its_second_question_identifies_whole_gpus_and_none_if_it_is_not_there():
    gpus, _, _ = machine("eight_gpus")
    library = FakeCUDA(as_cuda(gpus[5]), without=["cuDeviceGetUuid_v2"])
    assert cuda_devices(lambda name: library)[0].uuid == gpus[5].uuid

    def load(name):
        raise OSError(f"{name}: cannot open shared object file")

    assert cuda_devices(lambda name: FakeCUDA(status=100)) == ()
    assert cuda_devices(load) == ()


def test_where_uuids_disagree_the_place_on_the_bus_decides():
    gpus, _, driver = machine("eight_gpus")
    other = CUDADevice("GPU-" + "0" * 8, "0000:4c:00.0")
    (found,) = identify(tensorflow_gpus(1), driver, (other,))
    assert found.uuid == gpus[3].uuid
    nowhere = replace(other, pci_bus_id=None)
    (found,) = identify(tensorflow_gpus(1), driver, (nowhere,))
    assert found.memory_bytes is None


def test_a_count_that_differs_identifies_no_gpu():
    gpus, nvml, driver = machine("eight_gpus")
    cuda = (CUDADevice(gpus[0].uuid),)
    found = identify(tensorflow_gpus(2), driver, cuda)
    assert {gpu.unidentified_because for gpu in found} == {
        "TensorFlow lists 2 GPUs and CUDA lists 1"
    }
    with pytest.raises(LookupError, match="TensorFlow lists 2 GPUs and CUDA lists 1"):
        NVMLSensor(found, nvml)


# This process's memory


def memory(**settings):
    gpu = FakeGPU("GPU-a", **settings)
    nvml = FakeNVML([gpu])
    sensor = NVMLSensor([GPUInfo(0, uuid="GPU-a")], nvml)
    (reading,) = sensor.read_gpus()
    holders = other_holders(GPUInfo(0, uuid="GPU-a"), nvml)
    assert (holders is None) == (reading.memory_others_bytes is None)
    own_and_others = (reading.memory_process_bytes, reading.memory_others_bytes)
    return own_and_others, sensor.processes_unknown_because


@pytest.mark.parametrize(
    ("processes", "expected", "because"),
    [
        ({ME: 3 * GIB}, (3 * GIB, 0), None),
        ({ME: 3 * GIB, 1: GIB, 2: GIB}, (3 * GIB, 2 * GIB), None),
        ({}, (None, None), "does not list this process"),
        ({1: 5 * GIB}, (None, None), "does not list this process"),
        ({ME: None}, (None, None), "does not report memory by process"),
        ({ME: GIB, 1: None}, (GIB, None), "the memory of every other process"),
    ],
)
def test_memory_is_this_processs_apart_from_others(processes, expected, because):
    found, reason = memory(processes=processes)
    assert found == expected
    assert reason is None if because is None else because in reason


@pytest.mark.parametrize(
    ("processes", "own"),
    [
        pytest.param({645400: 5 * GIB}, None, id="numbers of the machine"),
        pytest.param({ME: 5 * GIB, 645400: GIB}, None, id="one of them is by chance ours"),
        pytest.param({ME: 0}, None, id="numbers of the container, without memory"),
        pytest.param({ME: 5 * GIB, 324: GIB}, 5 * GIB, id="numbers of the container"),
    ],
)
@pytest.mark.usefixtures("in_container")
def test_in_a_container_others_are_unknown_and_so_are_numbers_of_the_machine(processes, own):
    found, reason = memory(processes=processes)
    assert found == (own, None)
    assert "container" in reason


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_namespace_of_its_own_is_noticed(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026533000]")
    assert not driver.in_first_namespace()
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026531836]")
    assert driver.in_first_namespace()
    assert driver.exists(os.getpid())
    assert not driver.exists(2**30)
