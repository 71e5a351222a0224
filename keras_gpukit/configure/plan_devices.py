"""Plans which GPUs are used."""

from __future__ import annotations

from keras_gpukit.configure.actions import Draft
from keras_gpukit.configure.settings import Settings
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Machine


def plan_devices(draft: Draft, settings: Settings) -> tuple[GPUInfo, ...]:
    """Plans which GPUs TensorFlow sees.

    Returns:
        The visible GPUs, in TensorFlow's order.

    Raises:
        ValueError: If `devices` names a GPU that does not exist, or the same GPU twice.
    """
    machine = draft.machine
    if not machine.gpus:
        return ()
    if settings.devices == "all":
        indices = {gpu.index for gpu in machine.gpus}
    elif settings.devices == "none":
        indices = set()
    else:
        indices = {_find(entry, settings, machine) for entry in settings.devices}
        if len(indices) < len(settings.devices):
            raise ValueError(f"`devices` names a GPU twice. Received: devices={settings.devices!r}")
    reason = f"{len(indices)} of the {len(machine.gpus)} GPUs that TensorFlow lists"
    draft.do("visible_gpus", tuple(sorted(indices)), reason, must_come_first=True)
    return tuple(gpu for gpu in machine.gpus if gpu.index in indices)


def _find(entry: int | str, settings: Settings, machine: Machine) -> int:
    visible = machine.environment.get("CUDA_VISIBLE_DEVICES")
    hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible} chooses and renumbers)"
    received = f"Received: devices={settings.devices!r}"
    count = len(machine.gpus)
    if isinstance(entry, int):
        if entry >= count:
            raise ValueError(
                f"`devices` names GPU {entry}, but TensorFlow lists {count}, numbered from 0"
                f"{hint}. {received}"
            )
        return entry
    unknown = [gpu for gpu in machine.gpus if gpu.uuid is None]
    if unknown:
        because = unknown[0].unidentified_because or "NVML or CUDA does not answer"
        raise ValueError(
            "`devices` names a UUID, but the UUIDs of TensorFlow's GPUs are unknown here "
            f"({because}): use indices. {received}"
        )
    # As in CUDA_VISIBLE_DEVICES, the beginning of a UUID is enough.
    found = [gpu.index for gpu in machine.gpus if (gpu.uuid or "").startswith(entry)]
    if len(found) == 1:
        return found[0]
    here = ", ".join(str(gpu.uuid) for gpu in machine.gpus)
    problem = "fits more than one GPU" if found else "is none of TensorFlow's GPUs"
    raise ValueError(f"`devices` names {entry!r}, which {problem}: {here}{hint}. {received}")
