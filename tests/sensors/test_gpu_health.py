"""The driver, GPUs' health and units through NVIDIA's binding; kernel log; CUDA's libraries."""

import ctypes
import os
import shutil
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pynvml
import pytest
from helpers.fake_nvml import GIB, FakeGPU, FakeNVML, scenario

from keras_gpukit.records import CUDALibrary, DriverGPU, GPUHealth, GPUInfo, Xid
from keras_gpukit.sensors import gpu_health
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.gpu_health import read_health, read_xids, xids_in
from keras_gpukit.sensors.installation import (
    find_libraries,
    needed_libraries,
    read_packages,
    try_loading,
)
from keras_gpukit.sensors.nvml import DRAM, SM, TENSOR, Activity, GPUActivity, NVMLSensor

LOG = """\
6,339,5140900,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  560.35.03
4,812,9140900,-;NVRM: Xid (PCI:0000:65:00): 31, pid=4242, name=python, Ch 00000008
4,813,9940900,-;NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', GPU has fallen off the bus.
4,814,9950900,-;NVRM: Xid (PCI:0000:b3:00): 63, Row Remapper: New row marked for remapping
"""
XIDS = (
    Xid(31, "0000:65:00", "pid=4242, name=python, Ch 00000008"),
    Xid(79, "0000:65:00", "pid='<unknown>', GPU has fallen off the bus."),
    Xid(63, "0000:b3:00", "Row Remapper: New row marked for remapping"),
)


@pytest.fixture(autouse=True)
def _process_numbers_of_the_machine(monkeypatch):
    monkeypatch.setattr(gpu_health, "in_first_namespace", lambda: True)


def health(gpus, xids=None):
    nvml = FakeNVML(gpus)
    found = read_health(read_driver(nvml).gpus, xids, nvml)
    assert nvml.users == 0
    return found


def test_a_gpu_is_described_as_nvml_and_the_log_do():
    parent = os.getppid()
    sick = FakeGPU(
        "GPU-a",
        memory_used=3 * GIB,
        processes={os.getpid(): GIB, parent: GIB, 2**22 + 1: 2 * GIB},
        pci_bus_id="00000000:65:00.0",
        compute_mode=3,
        ecc_uncorrected=2,
        remapped=(1, 2, 1, 1),
        recovery_action=1,
    )
    (found,) = health([sick], XIDS)
    assert [each.pid for each in found.processes] == [2**22 + 1, parent]
    assert found.processes[0].name is None
    assert found.processes[1].name
    assert found == GPUHealth(
        0,
        compute_mode="exclusive process",
        memory_used_bytes=3 * GIB,
        processes=found.processes,
        ecc_uncorrected=2,
        remapping_pending=True,
        remapping_failed=True,
        recovery_action="reset_gpu",
        xids=XIDS[:2],
    )


def test_what_is_not_readable_is_unknown():
    # Pages of older GPUs wait for a reset, too.
    refuses = {"nvmlDeviceGetRemappedRows": "NotSupported"}
    (found,) = health([FakeGPU("GPU-a", retired_pending=1, refuses=refuses)])
    assert (found.remapping_pending, found.remapping_failed) == (True, None)
    old, virtual, _ = health(scenario("unreadable_counters", this=1))
    assert old == GPUHealth(0, memory_used_bytes=GIB)
    assert virtual == GPUHealth(1)
    assert read_health((), None, FakeNVML(error="LibraryNotFound")) == ()


def test_in_a_container_numbers_of_the_machine_are_not_named(monkeypatch):
    monkeypatch.setattr(gpu_health, "in_first_namespace", lambda: False)
    (found,) = health([FakeGPU("GPU-a", processes={os.getppid(): GIB})])
    assert [each.name for each in found.processes] == [None]


def test_a_lost_gpu_has_its_errors_of_the_log_and_nothing_else():
    lost = FakeGPU("GPU-a", pci_bus_id="00000000:65:00.0", lost=True)
    found = health([FakeGPU("GPU-b", pci_bus_id="00000000:B3:00.0"), lost], XIDS)
    assert found[0].xids == XIDS[2:]
    assert found[1] == GPUHealth(1)  # NVML no longer says where it is


def test_a_working_driver_describes_its_gpus_and_a_missing_one_or_binding_is_no_error():
    gpus = [FakeGPU("GPU-a"), FakeGPU("GPU-b", "NVIDIA A100", 80 * GIB)]
    driver = read_driver(FakeNVML(gpus))
    assert (driver.version, driver.cuda_version) == ("560.35.03", (12, 6))
    expected = DriverGPU(1, "NVIDIA A100", "GPU-b", 80 << 30, (8, 0), "00000000:01:00.0")
    assert driver.gpus[1] == expected
    driver = read_driver(FakeNVML(error="LibraryNotFound"))
    assert (driver.error, driver.version, driver.gpus) == ("LibraryNotFound", None, ())
    assert read_driver(object()).error == "AttributeError"


# The kernel's log


def test_errors_are_found_in_the_kernels_log_if_it_is_readable(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text(LOG)
    assert read_xids(str(log)) == XIDS
    assert xids_in(["NVRM: Xid (0000:01:00): 3, an older form"]) == ()
    assert read_xids(str(tmp_path / "none")) is None


# Libraries


def test_the_loaders_own_order_is_kept(tmp_path, monkeypatch):
    first, packages = tmp_path / "cuda", tmp_path / "site"
    inside = packages / "nvidia" / "cudnn" / "lib"
    inside.mkdir(parents=True)
    first.mkdir()
    (inside / "libcudnn.so.9").touch()

    def load(name):
        if name != "libcufft.so.11":
            raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "path", [str(packages)])
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{first}:")
    (found,) = find_libraries(("libcudnn.so.9",))
    assert (found.path, found.source) == (str(inside / "libcudnn.so.9"), "pip")
    (first / "libcudnn.so.9").touch()
    (found,) = find_libraries(("libcudnn.so.9",))
    assert (found.path, found.source) == (str(first / "libcudnn.so.9"), "LD_LIBRARY_PATH")
    (found,) = find_libraries(("libcudart.so.12",))
    assert found == CUDALibrary(
        "libcudart.so.12", error="libcudart.so.12: cannot open shared object file"
    )
    (found,) = find_libraries(("libcufft.so.11",))
    assert found.path == "system"


def test_the_libraries_needed_follow_the_build():
    assert "libcublas.so.12" in needed_libraries("12.5.1", "9")
    assert needed_libraries("12.5.1", "9")[-1] == "libcudnn.so.9"
    assert needed_libraries(None, None) == ()
    assert needed_libraries("99.0", "9") == ()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the loader's messages on Linux")
def test_a_library_that_does_not_load_has_the_loaders_message(tmp_path):
    empty, text = tmp_path / "libcublas.so.12", tmp_path / "libcufft.so.11"
    empty.touch()
    text.write_text("not a library" * 100)
    missing = CUDALibrary("libcusolver.so.11")
    found = try_loading(
        (
            CUDALibrary("libcublas.so.12", str(empty)),
            CUDALibrary("libcufft.so.11", str(text)),
            CUDALibrary("libc.so.6", "system"),
            missing,
        )
    )
    assert found[0].error == f"{empty}: file too short"
    assert f"{text}: invalid ELF header" in found[1].error
    assert (found[2].error, found[2].version) == (None, None)
    assert found[3] == missing


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("libcudnn.so.9", "unsigned long cudnnGetVersion() { return 91002; }", "9.10.2"),
        ("libcudart.so.12", "int cudaRuntimeGetVersion(int *v) { *v = 12050; return 0; }", "12.5"),
        ("libcublas.so.12", "void __attribute__((constructor)) f() { __builtin_trap(); }", None),
    ],
)
def test_a_library_that_loads_reports_its_version_and_one_that_crashes_that(
    tmp_path, name, source, expected
):
    code = tmp_path / "library.c"
    code.write_text(source)
    library = tmp_path / name
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, code], check=True)
    (found,) = try_loading((CUDALibrary(name, str(library)),))
    assert found.version == expected
    assert (found.error is None) == (expected is not None)


def test_packages_are_compared_with_what_tensorflow_asks_for(monkeypatch):
    requires = [
        "numpy>=1.26",
        'nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',
        'nvidia-cublas-cu12<13.0,>=12.5.3.2; extra == "and-cuda"',
        'nvidia-nccl-cu12<3.0,>=2.27.7; extra == "and-cuda"',
    ]
    installed = {"nvidia-cudnn-cu12": "9.1.0.70", "nvidia-nccl-cu12": "2.28.3"}

    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    monkeypatch.setattr(metadata, "version", version)
    found = read_packages()
    assert [(each.name, each.installed, each.fits) for each in found] == [
        ("nvidia-cudnn-cu12", "9.1.0.70", False),
        ("nvidia-cublas-cu12", None, None),
        ("nvidia-nccl-cu12", "2.28.3", True),
    ]
    assert found[0].lowest == "9.3.0.75"


def test_tensorflow_still_names_its_packages_in_an_extra():
    assert any(each.name.startswith("nvidia-cudnn-") and each.lowest for each in read_packages())


class Monitoring:
    """NVML's functions for performance monitoring, over given percentages."""

    NVMLError_NotSupported = pynvml.NVMLError_NotSupported
    NVML_GPM_METRICS_GET_VERSION = pynvml.NVML_GPM_METRICS_GET_VERSION
    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t

    def __init__(self, answers, supported=1):
        self.answers, self.supported = answers, supported
        self.held = 0

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=self.supported)

    def nvmlGpmSampleAlloc(self):
        self.held += 1
        return pynvml.c_nvmlGpmSample_t()

    def nvmlGpmSampleGet(self, handle, sample):
        return sample

    def nvmlGpmSampleFree(self, sample):
        self.held -= 1

    def nvmlGpmMetricsGet(self, asked):
        assert (asked.version, asked.numMetrics) == (1, 3)
        for each in asked.metrics[: asked.numMetrics]:
            each.value = self.answers.get(each.metricId, 0.0)
            each.nvmlReturn = 0 if each.metricId in self.answers else 3
        return asked


def test_the_units_are_known_from_the_second_reading_on_if_nvml_answers():
    nvml = Monitoring({SM: 61.5, TENSOR: 4.0, DRAM: 83.25})
    activity = GPUActivity(nvml, "handle")
    assert activity.read() == Activity()
    assert activity.read() == Activity(61.5, 4.0, 83.25)
    activity.close()
    assert nvml.held == 0
    activity = GPUActivity(Monitoring({SM: 50.0}), "handle")
    activity.read()
    assert activity.read() == Activity(50.0, None, None)


def test_an_older_gpu_is_refused_and_read_as_before():
    with pytest.raises(pynvml.NVMLError_NotSupported):
        GPUActivity(Monitoring({}, supported=0), "handle")
    gpu = FakeGPU("GPU-0")
    (reading,) = NVMLSensor([GPUInfo(0, uuid="GPU-0")], FakeNVML([gpu])).read_gpus()
    assert reading.utilization_percent == 90
    assert reading.tensor_active_percent is None
