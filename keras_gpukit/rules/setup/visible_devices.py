"""Which GPUs the entries of `CUDA_VISIBLE_DEVICES` name.

https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
"""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.installation import DriverGPU

VISIBLE = "CUDA_VISIBLE_DEVICES"


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


def names_any(entry: str, gpus: Sequence[DriverGPU]) -> bool:
    """Whether an entry may name one or more of the machine's GPUs, or of their MIG instances."""
    if entry.isdecimal():
        return int(entry) < len(gpus)
    instances = [instance for gpu in gpus for instance in gpu.mig or ()]
    # Drivers before 470 name an instance by its GPU.
    if entry.startswith("MIG-GPU-" if instances else "MIG-"):
        return True
    uuids = (*(gpu.uuid for gpu in gpus), *(instance.uuid for instance in instances))
    return any((uuid or "").lower().startswith(entry.lower()) for uuid in uuids)
