"""Health of the machine's GPUs: what can prevent training, from NVML and the kernel's log."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from keras_gpukit.records.installation import DriverGPU, GPUHealth, RecoveryAction, Xid
from keras_gpukit.records.memory import GPUHolder
from keras_gpukit.sensors.devices import same_bus
from keras_gpukit.sensors.driver import ask, in_first_namespace, program_name

_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
# https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
_RECOVERY_ACTIONS: dict[int, RecoveryAction] = {
    0: "none",
    1: "reset_gpu",
    2: "restart_machine",
    3: "end_peer_traffic",
    4: "end_processes_and_reset_gpu",
    5: "recover_imex",
    6: "reset_bus",
    7: "restart_machine",
}
LOG = "/dev/kmsg"
# "NVRM: Xid (PCI:0000:65:00): 79, pid=4242, name=python, GPU has fallen off the bus."
# https://docs.nvidia.com/deploy/xid-errors/working-with-xid-errors.html
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)\): (\d+), (.*)")
_LONGEST_LINE = 8192


def read_health(
    gpus: Sequence[DriverGPU], xids: Sequence[Xid] | None, nvml: Any = None
) -> tuple[GPUHealth, ...]:
    """Reads the health of each GPU; never raises."""
    try:
        nvml = nvml or import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no driver, which is reported elsewhere
        return ()
    try:
        return tuple(_read(nvml, gpu, xids) for gpu in gpus)
    except Exception:  # the driver is gone
        return ()
    finally:
        nvml.nvmlShutdown()


def _read(nvml: Any, gpu: DriverGPU, xids: Sequence[Xid] | None) -> GPUHealth:
    own = None
    if xids is not None and gpu.pci_bus_id is not None:
        own = tuple(xid for xid in xids if same_bus(f"{xid.pci_bus_id}.0", gpu.pci_bus_id))
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(gpu.index)
    except nvml.NVMLError:
        return GPUHealth(gpu.index, xids=own)
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    mode = ask(nvml, "nvmlDeviceGetComputeMode", handle)
    rows = ask(nvml, "nvmlDeviceGetRemappedRows", handle)
    # GPUs before Ampere retire memory pages; later ones remap rows.
    pages = ask(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", handle)
    return GPUHealth(
        index=gpu.index,
        compute_mode=None if mode is None else _COMPUTE_MODES.get(mode),
        memory_used_bytes=None if memory is None else memory.used,
        processes=_processes(nvml, handle),
        ecc_uncorrected=ask(
            nvml,
            "nvmlDeviceGetTotalEccErrors",
            handle,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            nvml.NVML_VOLATILE_ECC,
        ),
        remapping_pending=_either(pages, None if rows is None else rows[2]),
        remapping_failed=None if rows is None else bool(rows[3]),
        recovery_action=_recovery_action(nvml, handle),
        xids=own,
    )


def _processes(nvml: Any, handle: Any) -> tuple[GPUHolder, ...] | None:
    """Returns the processes on the GPU, largest first; None if unknown.

    They have names, and this process is left out, only if NVML's PIDs are the PIDs seen here.
    """
    listed = ask(nvml, "nvmlDeviceGetComputeRunningProcesses_v3", handle)
    if listed is None:
        return None
    named = in_first_namespace()
    found = [
        GPUHolder(process.pid, process.usedGpuMemory, program_name(process.pid) if named else None)
        for process in listed
        if process.usedGpuMemory is not None and not (named and process.pid == os.getpid())
    ]
    return tuple(sorted(found, key=lambda holder: -holder.used_bytes))


def _recovery_action(nvml: Any, handle: Any) -> RecoveryAction | None:
    """Returns the action that the driver recommends, from driver 560 on; None if unknown."""
    values = ask(
        nvml, "nvmlDeviceGetFieldValues", handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    )
    if values is None or values[0].nvmlReturn != nvml.NVML_SUCCESS:
        return None
    return _RECOVERY_ACTIONS.get(values[0].value.uiVal)


def _either(*flags: int | None) -> bool | None:
    known = [flag for flag in flags if flag is not None]
    return any(known) if known else None


def read_xids(path: str = LOG) -> tuple[Xid, ...] | None:
    """Returns the errors of NVIDIA's GPUs since the machine started; None if not readable.

    NVML itself reports these errors only while a program waits for them. On most machines only the
    administrator can read the log, and containers have no log.
    """
    try:
        return xids_in(_lines(path))
    except OSError:
        return None


def xids_in(lines: Iterable[str]) -> tuple[Xid, ...]:
    """Returns the GPU errors in lines of a log."""
    found = (_XID.search(line) for line in lines)
    return tuple(Xid(int(match[2]), match[1], match[3].strip()) for match in found if match)


def _lines(path: str) -> Iterator[str]:
    log = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        while True:
            try:
                text = os.read(log, _LONGEST_LINE)
            except BlockingIOError:  # the end of the log so far
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # entry overwritten: continue with the oldest one
                    continue
                raise
            if not text:
                return
            yield from text.decode(errors="replace").splitlines()
    finally:
        os.close(log)
