"""NVML without a driver: what `pynvml` returns for a list of `FakeGPU`, or of `nvml_scenarios`."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 2**30
SCENARIOS = Path(__file__).parent / "nvml_scenarios"


@dataclass(eq=False)
class FakeGPU:
    """One GPU, or one instance of a GPU in MIG mode; what a test sets here NVML answers.

    Attributes:
        processes: Memory by process number; None where the driver keeps it to itself.
        throttle_mask: NVML's bits of clock reasons.
        mig: The instances it is divided into, which makes it a GPU in MIG mode.
        instance: Of an instance, the numbers of its GPU instance and its compute instance.
        remapped: Rows remapped for corrected and uncorrected errors, whether more are pending, and
            whether remapping failed.
        refuses: Questions that get no answer, with the error's name, such as "NotSupported".
        lost: Whether it fell off the bus.
        lost_after: Readings of its memory after which it falls off the bus.
    """

    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    memory_total: int = 80 * GIB
    capability: tuple[int, int] = (8, 0)
    memory_used: int = 20 * GIB
    utilization: int = 90
    power_milliwatts: int = 250_000
    temperature: int = 55
    sm_clock: int = 1410
    processes: dict[int, int | None] = field(default_factory=dict)
    throttle_mask: int = 0
    pci_bus_id: str | None = None
    mig: Sequence[FakeGPU] = ()
    instance: tuple[int, int] | None = None
    compute_mode: int = 0
    ecc_uncorrected: int = 0
    retired_pending: int = 0
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    recovery_action: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    lost_after: int | None = None


def scenario(name: str, **processes: int) -> list[FakeGPU]:
    """Reads the GPUs of a file, given process numbers by its names for them, such as "this"."""

    def numbered(listed: dict[str, int | None]) -> dict[int, int | None]:
        return {processes.get(pid) or int(pid): used for pid, used in listed.items()}

    def gpu(**facts: Any) -> FakeGPU:
        instances = [gpu(**each) for each in facts.pop("mig", ())]
        listed = numbered(facts.pop("processes", {}))
        return FakeGPU(**facts, mig=instances, processes=listed)

    text = (SCENARIOS / f"{name}.json").read_text(encoding="utf-8")
    return [gpu(**each) for each in json.loads(text)["gpus"]]


class Refused(Exception):
    """NVML answers with an error of this name."""


# Functions of a GPU: what they return, given the GPU and their other arguments.
ANSWERS = {
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "PowerUsage": lambda gpu: gpu.power_milliwatts,
    "Temperature": lambda gpu, sensor: gpu.temperature,
    "ClockInfo": lambda gpu, clock: gpu.sm_clock,
    "CurrentClocksEventReasons": lambda gpu: gpu.throttle_mask,
    "CurrentClocksThrottleReasons": lambda gpu: gpu.throttle_mask,
    "ComputeMode": lambda gpu: gpu.compute_mode,
    "TotalEccErrors": lambda gpu, kind, counter: gpu.ecc_uncorrected,
    "RetiredPagesPendingStatus": lambda gpu: gpu.retired_pending,
    "RemappedRows": lambda gpu: gpu.remapped,
    "CudaComputeCapability": lambda gpu: tuple(gpu.capability),
    "MaxMigDeviceCount": lambda gpu: 7,
    "MemoryInfo": lambda gpu: SimpleNamespace(
        total=gpu.memory_total, used=gpu.memory_used, free=gpu.memory_total - gpu.memory_used
    ),
    "ComputeRunningProcesses": lambda gpu: [
        SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.processes.items()
    ],
    "FieldValues": lambda gpu, fields: [
        SimpleNamespace(
            nvmlReturn=pynvml.NVML_SUCCESS, value=SimpleNamespace(uiVal=gpu.recovery_action)
        )
        for _ in fields
    ],
}


def _answers(function: Any) -> Any:
    ANSWERS[function.__name__] = function
    return function


@_answers
def UtilizationRates(gpu: FakeGPU) -> Any:
    if gpu.instance is not None or gpu.mig:
        raise Refused("NotSupported")  # as NVML documents for GPUs in MIG mode
    return SimpleNamespace(gpu=gpu.utilization, memory=gpu.utilization // 2)


@_answers
def MigMode(gpu: FakeGPU) -> list[int]:
    if gpu.instance is not None:
        raise Refused("InvalidArgument")
    return [bool(gpu.mig)] * 2


@_answers
def MigDeviceHandleByIndex(gpu: FakeGPU, index: int) -> FakeGPU:
    if index >= len(gpu.mig):
        raise Refused("NotFound")
    return gpu.mig[index]


class FakeNVML:
    """Stands for the module `pynvml`, with NVIDIA's own constants and errors; handles are GPUs.

    These are in bus order. `error` names the one with which NVML refuses to start, such as
    "LibraryNotFound". An `old_driver` is older than 535, which brought new names. The library is
    `without` some functions, named with their version, such as "…_v3".
    """

    def __init__(
        self,
        gpus: Sequence[FakeGPU] = (),
        *,
        error: str | None = None,
        old_driver: bool = False,
        without: Sequence[str] = (),
    ) -> None:
        self.gpus, self.error, self.users = list(gpus), error, 0
        new = ("nvmlDeviceGetCurrentClocksEventReasons",) if old_driver else ()
        self._without = {*without, *new}
        self._readings: dict[FakeGPU, int] = {}

    def __getattr__(self, name: str) -> Any:
        question = re.sub(r"_v\d$", "", name)
        own = getattr(FakeNVML, f"_{question}", None)
        if own is None and question.removeprefix("nvmlDeviceGet") not in ANSWERS:
            return getattr(pynvml, name)
        ask = functools.partial(own, self) if own else functools.partial(self._ask, question)

        def call(*args: Any) -> Any:
            try:
                if name in self._without:
                    raise Refused("FunctionNotFound")
                if name != "nvmlInit" and not self.users:
                    raise Refused("Uninitialized")
                return ask(*args)
            except Refused as refusal:
                raise getattr(pynvml, f"NVMLError_{refusal}")() from None

        return call

    def _ask(self, question: str, gpu: FakeGPU, *args: Any) -> Any:
        if gpu.lost_after is not None and self._readings.get(gpu, 0) >= gpu.lost_after:
            gpu.lost = True
        self._check(gpu)
        if question in gpu.refuses:
            raise Refused(gpu.refuses[question])
        if question == "nvmlDeviceGetMemoryInfo":
            self._readings[gpu] = self._readings.get(gpu, 0) + 1
        return ANSWERS[question.removeprefix("nvmlDeviceGet")](gpu, *args)

    def _check(self, gpu: FakeGPU) -> FakeGPU:
        if gpu.lost:
            raise Refused("GpuIsLost")
        return gpu

    def _nvmlInit(self) -> None:
        if self.error:
            raise Refused(self.error)
        self.users += 1

    def _nvmlShutdown(self) -> None:
        self.users -= 1

    def _nvmlSystemGetDriverVersion(self) -> str:
        return "560.35.03"

    def _nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12060

    def _nvmlGpmQueryDeviceSupport(self, gpu: FakeGPU) -> Any:
        return SimpleNamespace(isSupportedDevice=0)

    def _nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def _nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGPU:
        return self._check(self.gpus[index])

    def _nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGPU:
        found = [each for gpu in self.gpus for each in (gpu, *gpu.mig) if each.uuid == uuid]
        if not found:
            raise Refused("NotFound")
        return self._check(found[0])

    def _nvmlDeviceGetPciInfo(self, gpu: FakeGPU) -> Any:
        whole = next(each for each in self.gpus if gpu is each or gpu in each.mig)
        bus = whole.pci_bus_id or f"00000000:{self.gpus.index(whole):02X}:00.0"
        return SimpleNamespace(busId=bus)
