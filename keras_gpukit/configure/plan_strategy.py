"""Over which devices training is distributed."""

from __future__ import annotations

from keras_gpukit.configure.actions import Draft
from keras_gpukit.configure.settings import Settings


def plan_strategy(draft: Draft, settings: Settings, gpus: int) -> int:
    """Plans the strategy.

    Args:
        draft: The plan so far.
        settings: What was asked for.
        gpus: Logical GPUs that will be used.

    Returns:
        How many replicas will train in step.

    Raises:
        ValueError: If this process has a `MirroredStrategy` over other devices.
    """
    if not isinstance(settings.strategy, str):
        draft.do("given_strategy", settings.strategy, "as given")
        return int(settings.strategy.num_replicas_in_sync)
    if settings.strategy == "one_device":
        device = "/GPU:0" if gpus else "/CPU:0"
        draft.do("one_device_strategy", (device,), "everything on one device")
        if gpus > 1:
            draft.warnings.append(
                f'strategy="one_device" uses the first of {gpus} logical GPUs; the others take '
                "memory and stay idle. Name one GPU in `devices` to leave the others free."
            )
        return 1
    if settings.strategy == "mirrored" or (settings.strategy == "auto" and gpus > 1):
        return _plan_mirrored(draft, [f"/GPU:{index}" for index in range(gpus)])
    return 1


def _plan_mirrored(draft: Draft, gpus: list[str]) -> int:
    cpus = [f"/CPU:{index}" for index in range(draft.machine.state.logical_cpus)]
    if not gpus and len(cpus) == 1:
        # A MirroredStrategy would name GPU:0 here and train on the CPU without a word.
        draft.warnings.append(
            'strategy="mirrored" has no GPU to mirror over: training uses the CPU, unmirrored.'
        )
        return 1
    devices = tuple(gpus or cpus)
    existing = draft.machine.mirrored_devices
    if existing not in (None, devices):
        raise ValueError(
            f"A process can have one MirroredStrategy, and this one's is over {existing}, not "
            f"{devices}: restart Python to change it. Received: strategy='mirrored'"
        )
    kind = "GPUs" if gpus else "CPUs, as there is no GPU"
    draft.do("mirrored_strategy", devices, f"training in step on {len(devices)} logical {kind}")
    return len(devices)
