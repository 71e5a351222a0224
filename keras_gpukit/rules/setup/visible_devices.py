"""Infers which GPUs CUDA lists, and in which order, from its environment variables alone.

What CUDA itself reports is better evidence. This module serves if CUDA does not answer, and shows
what is wrong with the variables. It gives the reason instead if NVIDIA documents no order:
https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html and
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/mig-device-names.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keras_gpukit.records.installation import DriverGPU, MIGInstance

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
_IN_GPU = re.compile(r"MIG-(GPU-.+)/(\d+)/(\d+)")
"""MIG instance as drivers before 470 name it: by its GPU, GPU instance and compute instance."""


@dataclass(frozen=True)
class CUDAOrder:
    """The GPUs that CUDA lists.

    Attributes:
        uuids: UUIDs of the listed GPUs in CUDA's order; None if unknown.
        unknown_because: Reason why they are unknown; None if they are known.
    """

    uuids: tuple[str, ...] | None = None
    unknown_because: str | None = None


class _Unknown(Exception):
    """NVIDIA does not document what CUDA does here; the message is the reason."""


def entries_of(value: str) -> tuple[str, ...]:
    """Returns the entries of `CUDA_VISIBLE_DEVICES` before the first one that cannot name a GPU.

    CUDA ignores all entries from the first one on that names no GPU, such as -1.
    """
    entries = []
    for each in value.split(","):
        entry = each.strip()
        if not (entry.isdecimal() or entry.startswith(("GPU-", "MIG-"))):
            break
        entries.append(entry)
    return tuple(entries)


def cuda_order(gpus: Sequence[DriverGPU], environment: Mapping[str, str]) -> CUDAOrder:
    """Infers which GPUs CUDA lists in a process with these environment variables."""
    try:
        return CUDAOrder(_listed(gpus, environment))
    except _Unknown as reason:
        return CUDAOrder(unknown_because=str(reason))


def names_any(entry: str, gpus: Sequence[DriverGPU]) -> bool:
    """Whether an entry of `CUDA_VISIBLE_DEVICES` names one or more of the machine's GPUs."""
    if entry.isdecimal():
        return int(entry) < len(gpus)
    try:
        return _of_uuid(entry, gpus) is not None
    except _Unknown:
        return True


def _listed(gpus: Sequence[DriverGPU], environment: Mapping[str, str]) -> tuple[str, ...]:
    if not gpus:
        raise _Unknown("NVML lists no GPU")
    value = environment.get(VISIBLE)
    if value is None:
        return _seen(_numbered(gpus, environment))
    entries = entries_of(value)
    by_number = [entry for entry in entries if entry.isdecimal()]
    if by_number and len(by_number) < len(entries):
        raise _Unknown(f"{VISIBLE} has indices and UUIDs, and CUDA documents only one kind")
    # Only indices depend on CUDA's order.
    numbered = _numbered(gpus, environment) if by_number else ()
    found: list[DriverGPU | MIGInstance] = []
    for entry in entries:
        named: DriverGPU | MIGInstance | None
        if entry.isdecimal():
            named = numbered[int(entry)] if int(entry) < len(numbered) else None
        else:
            named = _of_uuid(entry, gpus)
        if named is None:
            break
        if named in found:
            raise _Unknown(f"{VISIBLE} names a GPU twice, and CUDA does not document what then")
        found.append(named)
    return _seen(found)


def _numbered(gpus: Sequence[DriverGPU], environment: Mapping[str, str]) -> Sequence[DriverGPU]:
    """Returns the GPUs in the order in which CUDA numbers them before it hides any."""
    if len(gpus) == 1:
        return gpus
    order = environment.get(ORDER, "FASTEST_FIRST")
    if order != "PCI_BUS_ID":
        raise _Unknown(
            f"{ORDER} is {order}: CUDA numbers the fastest GPU first, and the order of the others "
            "is not documented"
        )
    buses = [gpu.pci_bus_id for gpu in gpus]
    if None in buses:
        raise _Unknown("NVML does not report where each GPU is on the PCI bus")
    return sorted(gpus, key=lambda gpu: str(gpu.pci_bus_id).lower())


def _of_uuid(entry: str, gpus: Sequence[DriverGPU]) -> DriverGPU | MIGInstance | None:
    """Returns the GPU or MIG instance with a UUID or UUID prefix; None if none has it."""
    if entry.startswith("MIG-") and not any(gpu.mig for gpu in gpus):
        raise _Unknown(f"{VISIBLE} names an instance of a GPU in MIG mode, and NVML lists none")
    if (parts := _IN_GPU.fullmatch(entry)) is not None:
        numbers = int(parts[2]), int(parts[3])
        return next(
            (
                instance
                for gpu in gpus
                if gpu.uuid == parts[1]
                for instance in gpu.mig or ()
                if (instance.gpu_instance, instance.compute_instance) == numbers
            ),
            None,
        )
    everything: list[DriverGPU | MIGInstance] = [*gpus]
    everything += [instance for gpu in gpus for instance in gpu.mig or ()]
    found = [each for each in everything if (each.uuid or "").lower().startswith(entry.lower())]
    if len(found) > 1:
        raise _Unknown(f"{VISIBLE} has {entry!r}, with which several UUIDs begin")
    return found[0] if found else None


def _seen(listed: Sequence[DriverGPU | MIGInstance]) -> tuple[str, ...]:
    """Returns the UUIDs that CUDA lists: those of whole GPUs, or that of a single MIG instance."""
    instances = []
    for each in listed:
        if isinstance(each, MIGInstance):
            instances.append(each)
        elif each.mig:
            if len(each.mig) > 1:
                raise _Unknown(
                    f"GPU {each.index} is in MIG mode with {len(each.mig)} instances, and CUDA "
                    f"does not document which one it takes: name it in {VISIBLE}"
                )
            instances += each.mig
    chosen: Sequence[DriverGPU | MIGInstance] = instances[:1] or listed
    uuids = tuple(each.uuid for each in chosen if each.uuid is not None)
    if len(uuids) < len(chosen):
        raise _Unknown("NVML does not report the UUID of each GPU")
    return uuids
