"""A stand-in for NVIDIA's `pynvml`: what it answers and how it refuses, with no driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

GIB = 2**30


@dataclass(eq=False)
class FakeGPU:
    """One GPU; what a test sets here NVML answers.

    Attributes:
        processes: Memory by process number; None where the driver keeps it to itself.
        throttle_mask: NVML's bits of clock reasons.
        refuses: Questions that get no answer, with the error's name, such as "NotSupported".
        lost: Whether it fell off the bus.
    """

    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    memory_total: int = 80 * GIB
    capability: tuple[int, int] = (8, 0)
    memory_used: int = 20 * GIB
    utilization: int = 90
    power_milliwatts: int = 250_000
    power_limit_milliwatts: int = 400_000
    temperature: int = 55
    sm_clock: int = 1410
    processes: dict[int, int | None] = field(default_factory=dict)
    throttle_mask: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    lost: bool = False


class FakeNVML(ModuleType):
    """Put in the place of `pynvml`.

    Args:
        gpus: In bus order.
        error: Name of the error with which NVML refuses to start, such as "LibraryNotFound".
        old_driver: Whether the driver is older than 535, which brought new names.
    """

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    class NVMLError_Uninitialized(NVMLError):
        pass

    class NVMLError_NotSupported(NVMLError):
        pass

    class NVMLError_NoPermission(NVMLError):
        pass

    class NVMLError_NotFound(NVMLError):
        pass

    class NVMLError_FunctionNotFound(NVMLError):
        pass

    class NVMLError_LibraryNotFound(NVMLError):
        pass

    class NVMLError_GpuIsLost(NVMLError):
        pass

    def __init__(
        self,
        gpus: Sequence[FakeGPU] = (),
        *,
        error: str | None = None,
        old_driver: bool = False,
    ) -> None:
        super().__init__("pynvml")
        self.gpus = list(gpus)
        self.error = error
        self.old_driver = old_driver
        self.users = 0

    def nvmlInit(self) -> None:
        if self.error:
            raise getattr(self, f"NVMLError_{self.error}")("NVML cannot start")
        self.users += 1

    def nvmlShutdown(self) -> None:
        self._check()
        self.users -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._check()
        return "560.35.03"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        self._check()
        return 12060

    def nvmlDeviceGetCount(self) -> int:
        self._check()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGPU:
        self._check()
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGPU:
        self._check()
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise self.NVMLError_NotFound("Not Found")

    def nvmlDeviceGetName(self, handle: FakeGPU) -> bytes:
        self._check(handle, "nvmlDeviceGetName")
        return handle.name.encode()  # as older bindings give it

    def nvmlDeviceGetUUID(self, handle: FakeGPU) -> str:
        self._check(handle, "nvmlDeviceGetUUID")
        return handle.uuid

    def nvmlDeviceGetCudaComputeCapability(self, handle: FakeGPU) -> list[int]:
        self._check(handle, "nvmlDeviceGetCudaComputeCapability")
        return list(handle.capability)

    def nvmlDeviceGetPciInfo(self, handle: FakeGPU) -> Any:
        self._check(handle, "nvmlDeviceGetPciInfo")
        return SimpleNamespace(busId=f"00000000:{self.gpus.index(handle):02X}:00.0")

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGPU) -> Any:
        self._check(handle, "nvmlDeviceGetMemoryInfo")
        return SimpleNamespace(
            total=handle.memory_total,
            used=handle.memory_used,
            free=handle.memory_total - handle.memory_used,
        )

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGPU) -> Any:
        self._check(handle, "nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=handle.utilization, memory=handle.utilization // 2)

    def nvmlDeviceGetPowerUsage(self, handle: FakeGPU) -> int:
        self._check(handle, "nvmlDeviceGetPowerUsage")
        return handle.power_milliwatts

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGPU) -> int:
        self._check(handle, "nvmlDeviceGetEnforcedPowerLimit")
        return handle.power_limit_milliwatts

    def nvmlDeviceGetTemperature(self, handle: FakeGPU, sensor: int) -> int:
        self._check(handle, "nvmlDeviceGetTemperature")
        assert sensor == self.NVML_TEMPERATURE_GPU
        return handle.temperature

    def nvmlDeviceGetClockInfo(self, handle: FakeGPU, type: int) -> int:
        self._check(handle, "nvmlDeviceGetClockInfo")
        assert type == self.NVML_CLOCK_SM
        return handle.sm_clock

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGPU) -> int:
        if self.old_driver:
            raise self.NVMLError_FunctionNotFound("Function Not Found")
        self._check(handle, "nvmlDeviceGetCurrentClocksEventReasons")
        return handle.throttle_mask

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeGPU) -> int:
        self._check(handle, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return handle.throttle_mask

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGPU) -> list[Any]:
        self._check(handle, "nvmlDeviceGetComputeRunningProcesses")
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in handle.processes.items()
        ]

    def _check(self, handle: FakeGPU | None = None, question: str = "") -> None:
        if not self.users:
            raise self.NVMLError_Uninitialized("Uninitialized")
        if handle is not None and handle.lost:
            raise self.NVMLError_GpuIsLost("GPU is lost")
        if handle is not None and question in handle.refuses:
            raise getattr(self, f"NVMLError_{handle.refuses[question]}")(question)
