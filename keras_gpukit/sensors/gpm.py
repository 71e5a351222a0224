"""Reads which units of a GPU were busy: NVML's performance monitoring (GPM), from Hopper on.

nvidia-smi's utilization only says that some kernel ran. This says how much of the GPU it used. It
has not run on a GPU yet; it is tested over a stand-in for NVML.
https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html
"""

from __future__ import annotations

from typing import Any, NamedTuple

SM, TENSOR, DRAM = 2, 5, 10
"""NVML's numbers of `NVML_GPM_METRIC_SM_UTIL`, `_ANY_TENSOR_UTIL` and `_DRAM_BW_UTIL`."""


class Activity(NamedTuple):
    """Percentages of the time between two readings, or of the bandwidth; None if unknown."""

    sm_active_percent: float | None = None
    tensor_active_percent: float | None = None
    memory_bandwidth_percent: float | None = None


class GPUActivity:
    """Reads one GPU; the counters of two readings make a percentage.

    Args:
        nvml: The `pynvml` module, or a stand-in.
        handle: NVML's handle of the GPU.

    Raises:
        Exception: NVML's own error if this GPU or driver does not monitor that.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise nvml.NVMLError_NotSupported
        self._nvml = nvml
        self._handle = handle
        self._before: Any = None

    def read(self) -> Activity:
        """Returns what was busy since the last call; nothing is known at the first."""
        nvml, before = self._nvml, self._before
        self._before = nvml.nvmlGpmSampleGet(self._handle, nvml.nvmlGpmSampleAlloc())
        if before is None:
            return Activity()
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(Activity._fields)
        asked.sample1, asked.sample2 = before, self._before
        for place, metric in enumerate((SM, TENSOR, DRAM)):
            asked.metrics[place].metricId = metric
        answer = nvml.nvmlGpmMetricsGet(asked)
        nvml.nvmlGpmSampleFree(before)
        return Activity(
            *(
                None if each.nvmlReturn else float(each.value)
                for each in answer.metrics[: len(Activity._fields)]
            )
        )

    def close(self) -> None:
        """Frees the last reading."""
        before, self._before = self._before, None
        if before is not None:
            self._nvml.nvmlGpmSampleFree(before)
