"""What the machine says: read right, unknown where it does not tell, and dropped when it goes."""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import psutil
import pynvml
import pytest
import tensorflow as tf
from helpers.fake_nvml import GIB, FakeGPU, FakeNVML

from keras_gpukit.records import GPUInfo, GPUSample
from keras_gpukit.rules.setup.gpus import LIMITS
from keras_gpukit.sensors import devices, driver
from keras_gpukit.sensors.devices import CUDADevice
from keras_gpukit.sensors.host import HostSensor, _own_usage
from keras_gpukit.sensors.installation import read_state
from keras_gpukit.sensors.nvml import THROTTLE_REASONS, Activity, NVMLSensor
from keras_gpukit.sensors.sampling_thread import SamplingThread

FAST, SLOW = "NVIDIA H100 PCIe", "NVIDIA T4"
A, B, C = (f"GPU-{uuid.UUID(int=number)}" for number in (10, 11, 12))


@pytest.fixture(autouse=True)
def _process_numbers_of_the_machine(monkeypatch):
    """Wherever the tests run."""
    monkeypatch.setattr(driver, "in_first_namespace", lambda: True)


def sensor_of(*gpus: FakeGPU, **settings) -> NVMLSensor:
    infos = [GPUInfo(index, uuid=gpu.uuid) for index, gpu in enumerate(gpus)]
    return NVMLSensor(infos, FakeNVML(gpus, **settings))


def sample(gpu: FakeGPU, **settings) -> GPUSample:
    (reading,) = sensor_of(gpu, **settings).read_gpus()
    return reading


# The GPUs of TensorFlow among those of the machine


@pytest.fixture
def machine(monkeypatch):
    """Makes TensorFlow, CUDA and NVML show GPUs: `machine(cuda_order, nvml, visible)`."""

    def show(cuda_order: list[FakeGPU], nvml: ModuleType, visible: list[int] | None = None):
        physical = [
            tf.config.PhysicalDevice(f"/physical_device:GPU:{index}", "GPU")
            for index in range(len(cuda_order))
        ]
        shown = physical if visible is None else [physical[index] for index in visible]
        details = {
            device: {"device_name": gpu.name, "compute_capability": (8, 0)}
            for device, gpu in zip(physical, cuda_order, strict=True)
        }
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: physical)
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: shown)
        monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda device: None)
        monkeypatch.setattr(devices.tf_runtime, "is_initialized", lambda: False)
        monkeypatch.setattr(tf.config.experimental, "get_device_details", details.__getitem__)
        in_cuda = tuple(CUDADevice(gpu.uuid) for gpu in cuda_order)
        monkeypatch.setattr(devices, "cuda_devices", lambda: in_cuda)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)

    return show


def gpus_of_the_machine() -> list[FakeGPU]:
    """In bus order, which is NVML's: the slow one first."""
    return [
        FakeGPU(A, SLOW, memory_total=16 * GIB, utilization=10),
        FakeGPU(B, FAST, memory_total=81 * GIB, utilization=20),
        FakeGPU(C, FAST, memory_total=82 * GIB, utilization=30),
    ]


@pytest.mark.parametrize(
    ("limits", "expected"), [([None], None), ([1024, 2048], (1024, 2048)), ([], None)]
)
def test_a_logical_gpu_may_have_no_limit(limits, expected, machine, monkeypatch):
    gpus = gpus_of_the_machine()[:1]
    machine(gpus, FakeNVML(gpus))
    parts = [tf.config.LogicalDeviceConfiguration(limit) for limit in limits]
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda device: parts)
    monkeypatch.setattr(tf.config.experimental, "get_memory_growth", lambda device: None)
    assert read_state().memory_limit_mib == (expected,)


@pytest.mark.parametrize(
    ("cuda_order", "visible", "expected"),
    [
        pytest.param([1, 2, 0], None, [B, C, A], id="the fastest first"),
        pytest.param([1, 2], [1], [C], id="TensorFlow hides the first"),
        pytest.param([0, 1, 2], [2, 0], [A, C], id="TensorFlow ignores the order of its own list"),
    ],
)
def test_each_gpu_of_tensorflow_is_found_on_the_machine(machine, cuda_order, visible, expected):
    gpus = gpus_of_the_machine()
    nvml = FakeNVML(gpus)
    machine([gpus[position] for position in cuda_order], nvml, visible)
    found = devices.visible_gpus()
    assert nvml.users == 0  # it is left closed
    its = [next(gpu for gpu in gpus if gpu.uuid == uuid) for uuid in expected]
    assert [(gpu.index, gpu.uuid, gpu.name, gpu.memory_bytes) for gpu in found] == [
        (index, gpu.uuid, gpu.name, gpu.memory_total) for index, gpu in enumerate(its)
    ]
    readings = NVMLSensor(found, nvml).read_gpus()
    assert [each.utilization_percent for each in readings] == [gpu.utilization for gpu in its]


@pytest.mark.parametrize("error", ["LibraryNotFound", "NoPermission"])
def test_without_nvml_gpus_are_what_tensorflow_says(machine, error):
    machine(gpus_of_the_machine()[:1], FakeNVML(error=error))
    assert devices.visible_gpus() == (
        GPUInfo(0, SLOW, A, memory_bytes=None, compute_capability=(8, 0), logical=(0,)),
    )


def test_a_gpu_that_nothing_describes_is_still_listed(machine, monkeypatch):
    machine(gpus_of_the_machine()[:1], FakeNVML(error="LibraryNotFound"))
    monkeypatch.setattr(devices, "cuda_devices", tuple)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", {}.__getitem__)
    because = "TensorFlow lists 1 GPUs and CUDA lists 0"
    assert devices.visible_gpus() == (GPUInfo(0, logical=(0,), unidentified_because=because),)


# NVML


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("nvmlDeviceGetMemoryInfo", {"memory_used_bytes", "memory_total_bytes"}),
        ("nvmlDeviceGetUtilizationRates", {"utilization_percent"}),
        ("nvmlDeviceGetPowerUsage", {"power_watts"}),
        ("nvmlDeviceGetTemperature", {"temperature_celsius"}),
        ("nvmlDeviceGetClockInfo", {"sm_clock_mhz"}),
        ("nvmlDeviceGetCurrentClocksEventReasons", {"throttle_reasons"}),
        ("nvmlDeviceGetComputeRunningProcesses", {"memory_process_bytes", "memory_others_bytes"}),
    ],
)
@pytest.mark.parametrize("error", ["NotSupported", "NoPermission", "FunctionNotFound"])
def test_what_a_card_does_not_tell_is_unknown_and_the_rest_is_read(question, fields, error):
    by_any_name = (question, question.replace("ClocksEvent", "ClocksThrottle"))
    refuses = dict.fromkeys(by_any_name, error)
    gpu = FakeGPU(A, processes={os.getpid(): GIB}, refuses=refuses)
    reading = vars(sample(gpu))
    unknown = {name for name, value in reading.items() if value is None}
    assert unknown - set(Activity._fields) == fields  # those are of newer cards


@pytest.mark.parametrize("old_driver", [False, True])
@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0x000, ()),
        (0x001, ()),  # idle
        (
            0x008 | 0x040 | 0x080,
            ("hardware slowdown", "hardware thermal slowdown", "hardware power brake"),
        ),
        (0x1000, ()),  # a reason that is not known yet
    ],
)
def test_throttle_reasons_have_names(mask, reasons, old_driver):
    assert sample(FakeGPU(A, throttle_mask=mask), old_driver=old_driver).throttle_reasons == reasons


def test_throttle_reasons_are_nvmls_own_and_known_to_the_rule():
    bits = {
        pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "applications clocks setting",
        pynvml.nvmlClocksThrottleReasonSwPowerCap: "software power cap",
        pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
        pynvml.nvmlClocksThrottleReasonSyncBoost: "sync boost",
        pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "software thermal slowdown",
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hardware thermal slowdown",
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "hardware power brake",
        pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display clock setting",
    }
    assert bits == THROTTLE_REASONS
    chosen = {"applications clocks setting", "sync boost", "display clock setting"}
    assert set(THROTTLE_REASONS.values()) - chosen == LIMITS


def test_nvml_stays_open_until_a_reading_under_way_is_done_and_then_nothing_is_read():
    """The run may end while the sampling thread reads."""
    nvml = FakeNVML([FakeGPU(A)])
    sensor = NVMLSensor([GPUInfo(0, uuid=A)], nvml)
    reading, closing = threading.Event(), threading.Event()
    answer = nvml.nvmlDeviceGetPowerUsage

    def slow_answer(handle):
        reading.set()
        closing.wait(0.2)
        return answer(handle)

    nvml.nvmlDeviceGetPowerUsage = slow_answer
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(sensor.read_gpus)
        reading.wait()
        sensor.close()
        closing.set()
        assert len(read.result()) == 1
    assert sensor.read_gpus() == ()


# The host


def test_the_host_is_read():
    reading = HostSensor().read()
    assert reading.memory_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    assert reading.memory_total_bytes == psutil.virtual_memory().total
    assert 0 < reading.memory_available_bytes < reading.memory_total_bytes


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts no page faults this way")
def test_page_faults_are_counted_between_two_readings_within_steps(monkeypatch):
    clock, used = iter([0.0, 10.0, 14.0, 15.0, 16.0]), [(1.0, 2.0, 500), (3.0, 2.5, 20_500)]
    used = iter([SimpleNamespace(ru_utime=u, ru_stime=s, ru_minflt=f) for u, s, f in used * 2])
    monkeypatch.setattr("resource.getrusage", lambda who: next(used))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    sensor = HostSensor()
    assert sensor.read(in_steps=True).page_faults_per_s is None  # nothing to compare it with
    reading = sensor.read(in_steps=True)
    assert reading.page_faults_per_s == 20_000 / 4
    assert (reading.user_cores, reading.kernel_cores) == (2 / 4, 0.5 / 4)
    assert sensor.read().page_faults_per_s is None  # such as in a validation
    assert sensor.read(in_steps=True).page_faults_per_s is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts no page faults this way")
def test_pages_that_a_process_touches_are_page_faults_of_its_own():
    before = _own_usage()
    with mmap.mmap(-1, 1000 * mmap.PAGESIZE) as memory:
        for page in range(1000):
            memory[page * mmap.PAGESIZE] = 1
    assert _own_usage()[2] - before[2] >= 1000


def test_the_share_of_this_process_is_of_all_cores(monkeypatch):
    clock, used_s = iter([0.0, 10.0]), iter([1.0, 6.0])
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(time, "process_time", lambda: next(used_s))
    assert HostSensor().read().process_cpu_percent == pytest.approx(100 * 5 / (4 * 10))


def burn_a_core(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


def test_the_first_reading_on_another_thread_is_of_the_time_before_it():
    sensor = HostSensor()
    burn_a_core(0.3)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(sensor.read).result().cpu_percent > 0


NO_TIME = psutil.cpu_times()._make(0.0 for _ in psutil.cpu_times())


linux_only = pytest.mark.skipif(not psutil.LINUX, reason="the fields of Linux")


@linux_only
def test_waiting_for_disks_is_idle_and_guests_count_once(monkeypatch):
    times = iter([NO_TIME, NO_TIME._replace(user=30.0, idle=50.0, iowait=20.0, guest=30.0)])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    assert HostSensor().read().cpu_percent == pytest.approx(30.0)


def test_no_time_between_two_readings_tells_nothing(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_times", lambda: NO_TIME)
    assert HostSensor().read().cpu_percent is None


def test_disk_reads_are_a_rate_between_two_readings_that_are_not_a_moment_apart(monkeypatch):
    disks = iter([1_000, 5_000, 5_000])
    clock = iter([10.0, 10.1, 12.0, 12.1, 14.0, 16.0])
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: SimpleNamespace(read_bytes=next(disks)))
    monkeypatch.setattr("keras_gpukit.sensors.host.time.perf_counter", lambda: next(clock))
    sensor = HostSensor()
    rates = [sensor.read().disk_read_bytes_per_s for _ in range(5)]
    assert rates == [None, None, None, 2_000.0, 0.0]


@pytest.mark.parametrize("error", [None, NotImplementedError, PermissionError])
def test_a_machine_that_shows_no_disks_is_read_without_them(monkeypatch, error):
    def counters():
        if error is not None:
            raise error("no /proc/diskstats")

    monkeypatch.setattr(psutil, "disk_io_counters", counters)
    reading = HostSensor().read()
    assert reading.disk_read_bytes_per_s is None
    assert reading.memory_total_bytes


# TensorFlow's allocators


READINGS = """
import json
import mmap
import tensorflow as tf
from keras_gpukit.records import to_dict
from keras_gpukit.sensors.allocator import AllocatorSensor

before_us = tf.zeros((1_000_000,))
before_us = tf.zeros((10,))
sensor = AllocatorSensor([])
at_first = sensor.read_allocators()
big = tf.zeros((2_000_000,))
with_it = sensor.read_allocators()
del big
after = sensor.read_allocators()
steps = AllocatorSensor([])
big = tf.zeros((2_000_000,))
del big
steps.first_step_ended()
first = steps.read_allocators()
small = tf.zeros((1_000_000,))
del small
print(json.dumps({
    "devices": sensor.devices,
    "steps": [to_dict(reading) for reading in (*first, *steps.read_allocators())],
    "only first": [to_dict(each) for each in steps.read_allocators(only_first_step=True)],
    "readings": [to_dict(reading) for reading in (at_first, with_it, after)],
}))
"""


def test_an_allocator_that_counts_has_current_and_peak_and_that_of_later_steps(run_script):
    result = json.loads(run_script(READINGS, TF_CPU_ALLOCATOR_USE_BFC="true").stdout)
    assert result["devices"] == ["CPU:0"]
    at_first, with_it, after = (reading[0] for reading in result["readings"])
    size = 8_000_000
    assert at_first["peak_bytes"] < 4_000_000  # that of before is forgotten
    assert with_it["current_bytes"] - at_first["current_bytes"] >= size
    assert after["current_bytes"] < size <= after["peak_bytes"]
    assert after["limit_bytes"] is None
    first, later = result["steps"]
    assert first["first_step_peak_bytes"] == first["peak_bytes"] >= size
    assert first["later_peak_bytes"] is None
    assert later["peak_bytes"] == first["peak_bytes"]
    assert 4_000_000 <= later["later_peak_bytes"] < size
    (only,) = result["only first"]
    assert only == {**later, "later_peak_bytes": None}


def test_an_allocator_that_counts_little_or_nothing_is_unknown(run_script):
    result = json.loads(run_script(READINGS, TF_CPU_ALLOCATOR_USE_BFC="false").stdout)
    assert result["devices"] == []


# The sampling thread


def test_tasks_are_called_at_every_tick_until_stopped_and_their_processor_time_is_counted():
    sampler, ticks, enough = SamplingThread(0.01), [], threading.Event()

    def task():
        burn_a_core(0.02)
        ticks.append(threading.current_thread().name)
        if len(ticks) == 3:
            enough.set()

    sampler.add_task("task", task)
    sampler.start()
    assert enough.wait(30)
    sampler.stop()
    count = len(ticks)
    assert set(ticks) == {"gpukit-sampler"}
    assert "gpukit-sampler" not in {thread.name for thread in threading.enumerate()}
    assert sampler.cpu_s >= 0.06
    sampler.stop()
    assert len(ticks) == count


def test_a_task_that_raises_is_dropped_with_one_warning(caplog):
    sampler, ticks = SamplingThread(), []

    def fails():
        ticks.append("fails")
        raise OSError("gone")

    sampler.add_task("a", fails)
    sampler.add_task("a", lambda: ticks.append("works"))  # of another callback of the kind
    sampler.tick()
    sampler.tick()
    assert ticks == ["fails", "works", "works"]
    (warning,) = caplog.records
    assert "Reading a failed (OSError: gone)" in warning.message


def test_tasks_can_be_called_by_number_unless_they_were_dropped(caplog):
    """For runs that are over before the first tick."""
    sampler, calls = SamplingThread(), []

    def fails():
        calls.append("fails")
        raise OSError("gone")

    works, broken = sampler.add_task("a", lambda: calls.append("a")), sampler.add_task("b", fails)
    for number in (broken, works, broken):
        sampler.call(number)
    assert calls == ["fails", "a"]
    assert len(caplog.records) == 1


def test_a_task_may_stop_the_thread_it_runs_on():
    """As it does on finding that the run is over."""
    sampler, done = SamplingThread(0.01), threading.Event()

    def stop():
        sampler.stop()
        done.set()

    sampler.add_task("stop", stop)
    sampler.start()
    assert done.wait(30)
