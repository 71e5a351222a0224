"""Reads NVIDIA GPUs through NVML.

From Hopper on, NVML's performance monitoring (GPM) says which units were busy, where utilization
only says that some kernel ran. That has not run on a GPU yet:
https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from keras_gpukit.errors import one_line
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.machine import GPUSample, ThrottleReason
from keras_gpukit.records.memory import GPUHolder
from keras_gpukit.sensors.driver import ProcessMemory, memory_by_process, program_name

SM, TENSOR, DRAM = 2, 5, 10
"""NVML's numbers of `NVML_GPM_METRIC_SM_UTIL`, `_ANY_TENSOR_UTIL` and `_DRAM_BW_UTIL`."""


class Activity(NamedTuple):
    """Percentages of the time between two readings, or of the bandwidth; None if unknown."""

    sm_active_percent: float | None = None
    tensor_active_percent: float | None = None
    memory_bandwidth_percent: float | None = None


class GPUActivity:
    """Reads one GPU; the counters of two readings make a percentage.

    Raises NVML's own error if this GPU or driver does not monitor that.
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
                None if result.nvmlReturn else float(result.value)
                for result in answer.metrics[: len(Activity._fields)]
            )
        )

    def close(self) -> None:
        """Frees the last reading."""
        before, self._before = self._before, None
        if before is not None:
            self._nvml.nvmlGpmSampleFree(before)


T = TypeVar("T")

# NVML's reasons for a lowered clock. Idling lowers it too, but is no problem, so it is left out.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
THROTTLE_REASONS: dict[int, ThrottleReason] = {
    0x002: "applications clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
}


class NVMLSensor:
    """Reads GPUs through NVML.

    A GPU whose UUID is unknown, that NVML does not find, or that stops answering, is left out;
    `lost` says why, by its index. If the latest reading could not separate this process's memory
    from that of others, `processes_unknown_because` says why. Raises LookupError if no UUID is
    known, and NVML's own error without a driver, or if it finds none of the GPUs.
    """

    def __init__(self, gpus: Sequence[GPUInfo], nvml: Any = None) -> None:
        if not any(gpu.uuid for gpu in gpus):
            reasons = {gpu.unidentified_because for gpu in gpus if gpu.unidentified_because}
            because = f": {'; '.join(sorted(reasons))}" if reasons else ""
            raise LookupError(f"it is unknown which of the machine's GPUs TensorFlow uses{because}")
        self.lost: dict[int, str] = {}
        self.processes_unknown_because: str | None = None
        self._nvml = nvml or import_module("pynvml")
        self._nvml.nvmlInit()
        self._handles: dict[int, Any] = {}
        self._pid = os.getpid()
        # One thread may close while another reads.
        self._lock = threading.RLock()  # an interrupt may leave it locked
        self._find(gpus)
        self._activity: dict[int, GPUActivity] = {}
        for index, handle in self._handles.items():
            with suppress(self._nvml.NVMLError):  # GPUs before Hopper, and older drivers
                self._activity[index] = GPUActivity(self._nvml, handle)

    def read_gpus(self) -> tuple[GPUSample, ...]:
        """Reads each GPU once; returns no readings after `close`.

        Raises NVML's own error if the last GPU or the driver is gone.
        """
        readings = []
        with self._lock:
            for index, handle in tuple(self._handles.items()):
                try:
                    readings.append(self._read(index, handle))
                except self._nvml.NVMLError as error:
                    self.lost[index] = one_line(str(error))
                    del self._handles[index]
                    if not self._handles:
                        raise
        return tuple(readings)

    def processes(self, index: int) -> ProcessMemory | None:
        """Returns a GPU's memory by process; None for a GPU that is not read.

        Raises NVML's own error if the GPU or the driver is gone.
        """
        with self._lock:
            handle = self._handles.get(index)
            return None if handle is None else self._memory_by_process(handle)

    def close(self) -> None:
        """Stops reading, and shuts NVML down."""
        with self._lock:
            self._handles = {}
            activity, self._activity = self._activity, {}
            for gpu_activity in activity.values():
                with suppress(self._nvml.NVMLError):
                    gpu_activity.close()
            self._nvml.nvmlShutdown()

    def _find(self, gpus: Sequence[GPUInfo]) -> None:
        nvml = self._nvml
        failure: Exception | None = None
        for gpu in gpus:
            if gpu.uuid is None:
                self.lost[gpu.index] = gpu.unidentified_because or "it is unknown which GPU it is"
                continue
            try:
                self._handles[gpu.index] = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            except nvml.NVMLError as error:
                self.lost[gpu.index] = one_line(str(error))
                failure = error
        if not self._handles and failure is not None:
            nvml.nvmlShutdown()
            raise failure

    def _read(self, index: int, handle: Any) -> GPUSample:
        nvml = self._nvml
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        processes = self._memory_by_process(handle)
        self.processes_unknown_because = processes.unknown_because
        reasons = self._ask(self._throttle_mask, handle)
        return GPUSample(
            index=index,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            memory_used_bytes=None if memory is None else memory.used,
            memory_process_bytes=processes.own_bytes,
            memory_others_bytes=processes.others_bytes,
            memory_total_bytes=None if memory is None else memory.total,
            power_watts=None if power is None else power / 1000,
            temperature_celsius=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            **self._read_activity(index)._asdict(),
            throttle_reasons=None
            if reasons is None
            else tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        )

    def _read_activity(self, index: int) -> Activity:
        """Returns which units were busy. A GPU that fails to say that is not asked again."""
        try:
            return self._activity[index].read() if index in self._activity else Activity()
        except self._nvml.NVMLError:
            del self._activity[index]
            return Activity()

    def _throttle_mask(self, handle: Any) -> int:
        nvml = self._nvml
        try:
            return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except nvml.NVMLError_FunctionNotFound:
            # Drivers before 535 know the function only by its old name.
            return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def _memory_by_process(self, handle: Any) -> ProcessMemory:
        listed = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        return memory_by_process(listed, self._pid)

    def _ask(self, question: Callable[..., T], *args: Any) -> T | None:
        """Returns NVML's answer; None if this GPU or driver does not support or permit it."""
        nvml = self._nvml
        try:
            return question(*args)
        except (
            nvml.NVMLError_NotSupported,
            nvml.NVMLError_FunctionNotFound,
            nvml.NVMLError_NoPermission,
            # Raised by an instance of a GPU in MIG mode if only the GPU itself can answer.
            nvml.NVMLError_InvalidArgument,
        ):
            return None


def other_holders(gpu: GPUInfo, nvml: Any = None) -> tuple[GPUHolder, ...] | None:
    """Returns the other processes on a GPU, largest first; None if they are not visible."""
    try:
        sensor = NVMLSensor([gpu], nvml)
    except Exception:  # no driver, or it is unknown which GPU it is
        return None
    try:
        memory = sensor.processes(gpu.index)
    except Exception:  # the GPU or the driver is gone
        memory = None
    finally:
        sensor.close()
    if memory is None or memory.others_bytes is None:
        return None
    others = [GPUHolder(pid, used, program_name(pid)) for pid, used in memory.others.items()]
    return tuple(sorted(others, key=lambda holder: -holder.used_bytes))
