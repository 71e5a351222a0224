"""Which units of a GPU were busy, from NVML's answers."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest
from helpers.fake_nvml import FakeGPU, FakeNVML

from keras_gpukit.records import GPUInfo
from keras_gpukit.sensors.nvml import DRAM, SM, TENSOR, Activity, GPUActivity, NVMLSensor


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
    (reading,) = NVMLSensor([GPUInfo(0, uuid="GPU-0")], FakeNVML([gpu])).read()
    assert reading.utilization_percent == 90
    assert reading.tensor_active_percent is None
