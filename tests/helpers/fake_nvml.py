"""NVML without a driver: NVIDIA's own binding, over a library whose functions are Python's.

`FakeNVML` is a fresh copy of `pynvml`. Its structures, function versions and errors are the real
ones; only the shared library below them is replaced, by functions that fill the pointers they get.
What they answer is a list of `FakeGPU`, or a file of `nvml_scenarios`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml

GIB = 2**30
SCENARIOS = Path(__file__).parent / "nvml_scenarios"
NOT_AVAILABLE = 2**64 - 1
MIG_MODE, RECOVERY_ACTION = "nvmlDeviceGetMigMode", 230


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
    power_limit_milliwatts: int = 400_000
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
    """Reads the GPUs of a file in `nvml_scenarios`.

    Args:
        name: Of the file, without its suffix.
        processes: Process numbers by the names that the file has for them, such as "this".
    """

    def numbered(listed: dict[str, int | None]) -> dict[int, int | None]:
        return {processes.get(pid) or int(pid): used for pid, used in listed.items()}

    def gpu(**facts: Any) -> FakeGPU:
        instances = [gpu(**each) for each in facts.pop("mig", ())]
        listed = numbered(facts.pop("processes", {}))
        return FakeGPU(**facts, mig=instances, processes=listed)

    text = (SCENARIOS / f"{name}.json").read_text(encoding="utf-8")
    return [gpu(**each) for each in json.loads(text)["gpus"]]


def FakeNVML(  # named as a class, for which it stands
    gpus: Sequence[FakeGPU] = (),
    *,
    error: str | None = None,
    old_driver: bool = False,
    without: Sequence[str] = (),
) -> ModuleType:
    """Returns a copy of `pynvml` to put in its place; `nvmlLib` is the library below it.

    Args:
        gpus: In bus order.
        error: Name of the error with which NVML refuses to start, such as "LibraryNotFound".
        old_driver: Whether the driver is older than 535, which brought new names.
        without: Functions that the library lacks, with their version, such as "…_v3".
    """
    spec = importlib.util.spec_from_file_location("pynvml", pynvml.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    real = sys.modules["pynvml"]
    sys.modules["pynvml"] = module  # it looks itself up while it is loaded
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules["pynvml"] = real
    if error == "LibraryNotFound":
        module.CDLL = _no_library  # type: ignore[attr-defined]
        return module
    lacks = {*without, *(["nvmlDeviceGetCurrentClocksEventReasons"] if old_driver else [])}
    module.nvmlLib = FakeLibrary(gpus, error, lacks)  # type: ignore[attr-defined]
    return module


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file: No such file or directory")


class Refused(Exception):
    """The library returns an error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.code: int = getattr(pynvml, f"NVMLError_{name}")().value


class FakeLibrary:
    """What `ctypes.CDLL("libnvidia-ml.so.1")` would return.

    Each method answers the function of its name, in all its versions, and raises `Refused` for an
    error. Of a device function the first argument is the GPU.
    """

    def __init__(self, gpus: Sequence[FakeGPU], error: str | None, without: set[str]) -> None:
        self.gpus, self.error, self.without = list(gpus), error, without
        self.users = 0
        self._devices = [each for gpu in gpus for each in (gpu, *gpu.mig)]
        self._readings: dict[int, int] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        answer = _ANSWERS.get(re.sub(r"_v\d$", "", name))
        if answer is None or name in self.without:
            raise AttributeError(f"undefined symbol: {name}")

        def call(*args: Any) -> int:
            try:
                answer(self, *args)
            except Refused as refusal:
                return refusal.code
            return 0

        return call

    def device(self, handle: Any, question: str) -> FakeGPU:
        """The GPU of a handle, if it answers."""
        self.check()
        gpu = self._devices[ctypes.cast(handle, ctypes.c_void_p).value - 1]
        if gpu.lost_after is not None and self._readings.get(id(gpu), 0) >= gpu.lost_after:
            gpu.lost = True
        if gpu.lost:
            raise Refused("GpuIsLost")
        if question in gpu.refuses:
            raise Refused(gpu.refuses[question])
        return gpu

    def check(self) -> None:
        if not self.users:
            raise Refused("Uninitialized")

    def put_handle(self, gpu: FakeGPU, device: Any) -> None:
        """Points a caller's handle to a GPU: its number, which is never 0, is the address."""
        if gpu.lost:
            raise Refused("GpuIsLost")
        ctypes.c_void_p.from_buffer(device._obj).value = self._devices.index(gpu) + 1

    def count_reading(self, gpu: FakeGPU) -> None:
        self._readings[id(gpu)] = self._readings.get(id(gpu), 0) + 1

    def bus_of(self, gpu: FakeGPU) -> str:
        """An instance is where its GPU is."""
        whole = next(each for each in self.gpus if gpu is each or gpu in each.mig)
        return whole.pci_bus_id or f"00000000:{self.gpus.index(whole):02X}:00.0"


_ANSWERS: dict[str, Callable[..., None]] = {}


def _answers(function: Callable[..., None]) -> Callable[..., None]:
    """Registers what the library answers to the function of this name."""
    _ANSWERS[function.__name__] = function
    return function


def _answers_of(question: str) -> Callable[[Callable[..., None]], None]:
    """Registers what a GPU answers."""

    def register(function: Callable[..., None]) -> None:
        def answer(library: FakeLibrary, handle: Any, *args: Any) -> None:
            function(library, library.device(handle, question), *args)

        _ANSWERS[question] = answer

    return register


def _number(question: str, number: Callable[[FakeGPU], int]) -> None:
    """Registers a question whose answer is one number, the last argument."""

    def answer(library: FakeLibrary, handle: Any, *args: Any) -> None:
        args[-1]._obj.value = number(library.device(handle, question))

    _ANSWERS[question] = answer


def _text(question: str, text: Callable[[FakeGPU], str]) -> None:
    """Registers a question whose answer is a text."""

    def answer(library: FakeLibrary, handle: Any, buffer: Any, size: Any) -> None:
        buffer.value = text(library.device(handle, question)).encode()

    _ANSWERS[question] = answer


_text("nvmlDeviceGetName", lambda gpu: gpu.name)
_text("nvmlDeviceGetUUID", lambda gpu: gpu.uuid)
_number("nvmlDeviceGetPowerUsage", lambda gpu: gpu.power_milliwatts)
_number("nvmlDeviceGetEnforcedPowerLimit", lambda gpu: gpu.power_limit_milliwatts)
_number("nvmlDeviceGetTemperature", lambda gpu: gpu.temperature)
_number("nvmlDeviceGetClockInfo", lambda gpu: gpu.sm_clock)
_number("nvmlDeviceGetCurrentClocksEventReasons", lambda gpu: gpu.throttle_mask)
_number("nvmlDeviceGetCurrentClocksThrottleReasons", lambda gpu: gpu.throttle_mask)
_number("nvmlDeviceGetComputeMode", lambda gpu: gpu.compute_mode)
_number("nvmlDeviceGetTotalEccErrors", lambda gpu: gpu.ecc_uncorrected)
_number("nvmlDeviceGetRetiredPagesPendingStatus", lambda gpu: gpu.retired_pending)
_number("nvmlDeviceGetMaxMigDeviceCount", lambda gpu: 7)


@_answers
def nvmlInitWithFlags(library: FakeLibrary, flags: Any) -> None:
    if library.error:
        raise Refused(library.error)
    library.users += 1


@_answers
def nvmlShutdown(library: FakeLibrary) -> None:
    library.check()
    library.users -= 1


@_answers
def nvmlSystemGetDriverVersion(library: FakeLibrary, buffer: Any, size: Any) -> None:
    library.check()
    buffer.value = b"560.35.03"


@_answers
def nvmlSystemGetCudaDriverVersion(library: FakeLibrary, version: Any) -> None:
    library.check()
    version._obj.value = 12060


@_answers
def nvmlDeviceGetCount(library: FakeLibrary, count: Any) -> None:
    library.check()
    count._obj.value = len(library.gpus)


@_answers
def nvmlDeviceGetHandleByIndex(library: FakeLibrary, index: Any, device: Any) -> None:
    library.check()
    library.put_handle(library.gpus[index.value], device)


@_answers
def nvmlDeviceGetHandleByUUID(library: FakeLibrary, uuid: Any, device: Any) -> None:
    library.check()
    _put_first(library, [g for g in library._devices if g.uuid == uuid.value.decode()], device)


@_answers
def nvmlDeviceGetHandleByPciBusId(library: FakeLibrary, bus: Any, device: Any) -> None:
    library.check()
    asked = bus.value.decode().upper().split(":", 1)[1]
    found = [g for g in library.gpus if library.bus_of(g).upper().split(":", 1)[1] == asked]
    _put_first(library, found, device)


def _put_first(library: FakeLibrary, found: list[FakeGPU], device: Any) -> None:
    if not found:
        raise Refused("NotFound")
    library.put_handle(found[0], device)


@_answers_of("nvmlDeviceGetCudaComputeCapability")
def _capability(library: FakeLibrary, gpu: FakeGPU, major: Any, minor: Any) -> None:
    major._obj.value, minor._obj.value = gpu.capability


@_answers_of("nvmlDeviceGetPciInfo")
def _pci(library: FakeLibrary, gpu: FakeGPU, info: Any) -> None:
    info._obj.busId = library.bus_of(gpu).encode()


@_answers_of("nvmlDeviceGetMemoryInfo")
def _memory(library: FakeLibrary, gpu: FakeGPU, info: Any) -> None:
    library.count_reading(gpu)
    info._obj.total, info._obj.used = gpu.memory_total, gpu.memory_used
    info._obj.free = gpu.memory_total - gpu.memory_used


@_answers_of("nvmlDeviceGetUtilizationRates")
def _utilization(library: FakeLibrary, gpu: FakeGPU, rates: Any) -> None:
    if gpu.instance is not None or gpu.mig:
        raise Refused("NotSupported")  # as NVML documents for GPUs in MIG mode
    rates._obj.gpu, rates._obj.memory = gpu.utilization, gpu.utilization // 2


@_answers_of("nvmlDeviceGetComputeRunningProcesses")
def _processes(library: FakeLibrary, gpu: FakeGPU, count: Any, found: Any) -> None:
    if len(gpu.processes) > count._obj.value:
        count._obj.value = len(gpu.processes)
        raise Refused("InsufficientSize")
    count._obj.value = len(gpu.processes)
    for place, (pid, used) in enumerate(gpu.processes.items()):
        found[place].pid = pid
        found[place].usedGpuMemory = NOT_AVAILABLE if used is None else used


@_answers_of(MIG_MODE)
def _mig_mode(library: FakeLibrary, gpu: FakeGPU, current: Any, pending: Any) -> None:
    if gpu.instance is not None:
        raise Refused("InvalidArgument")
    current._obj.value = pending._obj.value = bool(gpu.mig)


@_answers_of("nvmlDeviceGetMigDeviceHandleByIndex")
def _instance(library: FakeLibrary, gpu: FakeGPU, index: Any, device: Any) -> None:
    if index.value >= len(gpu.mig):
        raise Refused("NotFound")
    library.put_handle(gpu.mig[index.value], device)


@_answers_of("nvmlDeviceGetGpuInstanceId")
def _gpu_instance(library: FakeLibrary, gpu: FakeGPU, number: Any) -> None:
    assert gpu.instance is not None
    number._obj.value = gpu.instance[0]


@_answers_of("nvmlDeviceGetComputeInstanceId")
def _compute_instance(library: FakeLibrary, gpu: FakeGPU, number: Any) -> None:
    assert gpu.instance is not None
    number._obj.value = gpu.instance[1]


@_answers_of("nvmlDeviceGetRemappedRows")
def _remapped(library: FakeLibrary, gpu: FakeGPU, *rows: Any) -> None:
    for row, number in zip(rows, gpu.remapped, strict=True):
        row._obj.value = number


@_answers_of("nvmlDeviceGetFieldValues")
def _fields(library: FakeLibrary, gpu: FakeGPU, count: Any, values: Any) -> None:
    for value in values._obj:
        if value.fieldId == RECOVERY_ACTION:
            value.value.uiVal = gpu.recovery_action
        else:
            value.nvmlReturn = Refused("NotSupported").code
