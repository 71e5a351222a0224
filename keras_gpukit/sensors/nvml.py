"""NVIDIA GPUs through NVML.

Nothing here has run on a GPU yet: it is tested against a stand-in for the NVML library.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.machine import GPUSample, GPUUtilization
from keras_gpukit.sensors.statistics import Gauges

T = TypeVar("T")

# NVML's reasons for a lowered clock. Idling lowers it too and is no complaint, so it is left out.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
THROTTLE_REASONS = {
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
    """Reads the GPUs that TensorFlow uses.

    Args:
        names: Product name of each GPU, in TensorFlow's order.
        nvml: The `pynvml` module, or a stand-in.

    Raises:
        Exception: NVML's own error when there is no driver.
    """

    def __init__(self, names: Sequence[str | None], nvml: ModuleType | None = None) -> None:
        if nvml is None:
            import pynvml

            nvml = pynvml
        self._nvml: Any = nvml
        self._nvml.nvmlInit()
        self._handles = self._match(names, os.environ.get("CUDA_VISIBLE_DEVICES"))
        self._pid = os.getpid()

    def read(self) -> tuple[GPUSample, ...]:
        """Reads each GPU once.

        Raises:
            Exception: NVML's own error when a GPU or the driver is gone.
        """
        return tuple(self._read(index, handle) for index, handle in self._handles.items())

    def describe(self, gpu: GPUInfo) -> GPUInfo:
        """Adds what NVML knows of a GPU to what TensorFlow knows."""
        handle = self._handles.get(gpu.index)
        if handle is None:
            return gpu
        return replace(
            gpu,
            uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            memory_bytes=self._nvml.nvmlDeviceGetMemoryInfo(handle).total,
        )

    def close(self) -> None:
        """Lets NVML go."""
        self._nvml.nvmlShutdown()

    def _match(self, names: Sequence[str | None], visible: str | None) -> dict[int, Any]:
        """Finds each TensorFlow GPU among NVML's.

        NVML counts every GPU in bus order; TensorFlow counts those that CUDA_VISIBLE_DEVICES
        names, in its order, or the fastest first. Among GPUs of one kind that is bus order too,
        so a GPU is the next visible one of its own name.
        """
        handles = [
            self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())
        ]
        left = handles
        if visible is not None:
            left = [
                handle for entry in visible.split(",") if (handle := self._find(entry, handles))
            ]
        matched = {}
        for index, name in enumerate(names):
            for handle in left:
                if name is None or name == _text(self._nvml.nvmlDeviceGetName(handle)):
                    matched[index] = handle
                    left = [other for other in left if other is not handle]
                    break
        return matched

    def _find(self, entry: str, handles: Sequence[Any]) -> Any:
        """The GPU that an entry of CUDA_VISIBLE_DEVICES names by index or by (part of) its UUID."""
        entry = entry.strip()
        if entry.isdigit():
            return handles[int(entry)] if int(entry) < len(handles) else None
        return next(
            (
                handle
                for handle in handles
                if entry and _text(self._nvml.nvmlDeviceGetUUID(handle)).startswith(entry)
            ),
            None,
        )

    def _read(self, index: int, handle: Any) -> GPUSample:
        nvml = self._nvml
        # Every card answers this one; when it does not, the GPU or the driver is gone.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        power_limit = self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        mine, others = self._memory_by_process(handle)
        reasons = self._ask(self._throttle_mask, handle)
        return GPUSample(
            index=index,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            memory_used_bytes=memory.used,
            memory_process_bytes=mine,
            memory_others_bytes=others,
            memory_total_bytes=memory.total,
            power_watts=None if power is None else power / 1000,
            power_limit_watts=None if power_limit is None else power_limit / 1000,
            temperature_celsius=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            throttle_reasons=None
            if reasons is None
            else tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        )

    def _throttle_mask(self, handle: Any) -> int:
        nvml = self._nvml
        # Drivers before 535 know the question by its old name only.
        ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        mask: int = (ask or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle)
        return mask

    def _memory_by_process(self, handle: Any) -> tuple[int | None, int | None]:
        """This process' memory and that of all others.

        Unknown where the driver does not tell (Windows) or tells process numbers of another
        namespace than ours (most containers).
        """
        processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if processes is None:
            return None, None
        used = {process.pid: process.usedGpuMemory for process in processes}
        if self._pid not in used or None in used.values():
            return None, None
        return used[self._pid], sum(used.values()) - used[self._pid]

    def _ask(self, question: Callable[..., T], *args: Any) -> T | None:
        """The answer, or None where this card or driver has none."""
        try:
            return question(*args)
        except self._nvml.NVMLError_NotSupported:
            return None
        except self._nvml.NVMLError_FunctionNotFound:
            return None


class GPUStatistics:
    """Sums one GPU's readings up."""

    def __init__(self) -> None:
        self._gauges = Gauges()
        self._asked = self._throttled = 0
        self._reasons: Counter[str] = Counter()

    def add(self, sample: GPUSample) -> None:
        """Takes one reading in."""
        self._gauges.add(sample)
        if sample.throttle_reasons is not None:
            self._asked += 1
            self._throttled += bool(sample.throttle_reasons)
            self._reasons.update(sample.throttle_reasons)

    def summarize(self) -> GPUUtilization:
        """The GPU over the whole run."""
        gauges, asked = self._gauges, self._asked
        return GPUUtilization(
            index=gauges.last("index"),
            utilization_percent=gauges.mean("utilization_percent"),
            memory_used_max_bytes=gauges.highest("memory_used_bytes"),
            memory_process_max_bytes=gauges.highest("memory_process_bytes"),
            memory_others_max_bytes=gauges.highest("memory_others_bytes"),
            memory_total_bytes=gauges.last("memory_total_bytes"),
            power_watts=gauges.mean("power_watts"),
            power_limit_watts=gauges.last("power_limit_watts"),
            temperature_max_celsius=gauges.highest("temperature_celsius"),
            sm_clock_mhz=gauges.mean("sm_clock_mhz"),
            throttled_fraction=self._throttled / asked if asked else None,
            throttle_fractions={reason: n / asked for reason, n in sorted(self._reasons.items())}
            if asked
            else None,
        )


def _text(value: str | bytes) -> str:
    # Older bindings give bytes.
    return value.decode() if isinstance(value, bytes) else value
