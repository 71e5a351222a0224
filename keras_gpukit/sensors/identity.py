"""Identifies which of the machine's GPUs each GPU of TensorFlow is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Driver, DriverGPU, MIGInstance
from keras_gpukit.rules.setup.visible_devices import cuda_order
from keras_gpukit.sensors.cuda import CUDADevice


def identify(
    gpus: tuple[GPUInfo, ...],
    driver: Driver,
    cuda: tuple[CUDADevice, ...],
    environment: Mapping[str, str],
) -> tuple[GPUInfo, ...]:
    """Adds the driver's information to the GPUs that TensorFlow lists.

    The best evidence is CUDA itself, which reports the UUID and the PCI bus id of each GPU in
    TensorFlow's order. If CUDA does not answer, environment variables are used, as far as they
    determine the order.

    Returns:
        The GPUs. If it is unknown which of the driver's GPUs they are, each contains the reason.
    """
    order = cuda
    because: str | None = None
    if not cuda:
        inferred = cuda_order(driver.gpus, environment)
        order = tuple(CUDADevice(uuid) for uuid in inferred.uuids or ())
        because = inferred.unknown_because
    if len(order) != len(gpus):
        source = "CUDA lists" if cuda else "the environment variables show"
        because = because or f"TensorFlow lists {len(gpus)} GPUs and {source} {len(order)}"
        return tuple(replace(gpu, unidentified_because=because) for gpu in gpus)
    return tuple(_described(*each, driver.gpus) for each in zip(gpus, order, strict=True))


@dataclass(frozen=True)
class _Match:
    uuid: str
    name: str | None
    memory_bytes: int | None


def _described(gpu: GPUInfo, device: CUDADevice, known: tuple[DriverGPU, ...]) -> GPUInfo:
    for whole in known:
        if (match := _match(device, whole)) is not None:
            return replace(
                gpu,
                uuid=match.uuid,
                name=gpu.name or match.name,
                memory_bytes=match.memory_bytes,
                compute_capability=gpu.compute_capability or whole.compute_capability,
                pci_bus_id=whole.pci_bus_id,
            )
    # NVML does not describe it, or does not answer.
    return replace(gpu, uuid=device.uuid, pci_bus_id=device.pci_bus_id)


def _match(device: CUDADevice, whole: DriverGPU) -> _Match | None:
    """Returns the GPU or the instance of it that is CUDA's device; None if neither is."""
    known: list[DriverGPU | MIGInstance] = [whole, *(whole.mig or ())]
    for each in known:
        if each.uuid is not None and _octets(each.uuid) == _octets(device.uuid):
            return _Match(each.uuid, each.name, each.memory_bytes)
    # Some virtual GPUs have another UUID in CUDA; a GPU in MIG mode is never listed as a whole.
    if whole.uuid is None or whole.mig or not same_bus(device.pci_bus_id, whole.pci_bus_id):
        return None
    return _Match(whole.uuid, whole.name, whole.memory_bytes)


def same_bus(one: str | None, other: str | None) -> bool:
    """Whether two PCI bus ids are equal: "0000:65:00.0" in CUDA is "00000000:65:00.0" in NVML.

    An unknown id (None) equals no other.
    """
    return one is not None and other is not None and _place(one) == _place(other)


def _place(bus_id: str) -> tuple[int, str]:
    domain, _, rest = bus_id.lower().partition(":")
    return int(domain, 16), rest


def _octets(uuid: str) -> str:
    """Returns a UUID without the prefix for the kind of GPU, on which drivers disagree."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")
