"""Whether the device requested for an operation exists, and which device is most similar."""

from __future__ import annotations

from collections.abc import Collection

_ANY = ("", "*")


def is_missing(requested: str, devices: Collection[str]) -> bool:
    """Whether no device matches the requested one; False if the devices are unknown.

    Args:
        requested: Requested device, such as "GPU:0", or "GPU:*" for any GPU; empty if none was.
        devices: Devices that TensorFlow lists, such as "GPU:0".
    """
    return bool(requested and devices) and not any(is_met(requested, each) for each in devices)


def is_met(requested: str, device: str) -> bool:
    """Whether a device matches the requested one."""
    (kind, number), (real_kind, real_number) = _parts(requested), _parts(device)
    return kind == real_kind and number in (*_ANY, real_number)


def nearest(requested: str, devices: Collection[str]) -> str | None:
    """Returns the device most similar to a requested one that does not exist; None if none is."""
    kind, number = _parts(requested)
    alike = [each for each in devices if _parts(each)[0] in kind]
    wanted = int(number) if number.isdecimal() else 0
    return min(alike, key=lambda each: abs(int(_parts(each)[1]) - wanted), default=None)


def no_such_device(requested: str, device: str, devices: Collection[str]) -> str:
    """Explains that soft placement ran operations elsewhere, and which device to request."""
    like = nearest(requested, devices)
    if like:
        advice = f"Ask for {like}."
    elif _parts(requested)[0] == "GPU":
        advice = "`keras-gpukit doctor` says why there are no GPUs."
    else:
        advice = "Ask for one of these."
    return (
        f"the script asks for {requested}, and TensorFlow has only {', '.join(sorted(devices))}. "
        f"Soft placement ran it on {device} without a warning. {advice}"
    )


def _parts(device: str) -> tuple[str, str]:
    kind, _, number = device.partition(":")
    return kind.upper(), number
