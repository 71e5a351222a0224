"""The arguments of `configure_gpus` as command-line flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def _devices(text: str) -> str | list[int | str]:
    if text in ("all", "none"):
        return text
    return [int(each) if each.isdecimal() else each for each in text.split(",")]


def _memory(text: str) -> str | list[str]:
    return text.split(",") if "," in text else text


def _logical_gpus(text: str) -> int | list[str]:
    return int(text) if text.isdecimal() else text.split(",")


def _jit(text: str) -> bool | str:
    values: dict[str, bool | str] = {"auto": "auto", "on": True, "off": False}
    if text not in values:
        raise argparse.ArgumentTypeError(f"must be {', '.join(values)}, and is {text!r}")
    return values[text]


def _gpu_threads(text: str) -> int | str | tuple[str, int]:
    mode, _, count = text.partition(":")
    if text.isdecimal():
        return int(text)
    return (mode, int(count)) if count else mode


_VALUES: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    ("--devices", "GPUS", _devices, 'all, none, or GPUs by index or UUID, such as "0,1"'),
    ("--memory", "SIZE", _memory, "growth, all, or a size such as 8GiB, or one for each GPU"),
    ("--logical-gpus", "N|SIZES", _logical_gpus, "splits each GPU, such as 2 or 4GiB,4GiB"),
    ("--mixed-precision", "POLICY", str, "auto, or a dtype policy such as mixed_bfloat16"),
    ("--jit", "auto|on|off", _jit, "whether XLA clusters operations"),
    ("--seed", "N", int, "seeds Python, NumPy and TensorFlow"),
    ("--allocator", "NAME", str, "TensorFlow's allocator, such as cuda_malloc_async"),
    ("--gpu-threads", "N|MODE[:N]", _gpu_threads, "threads that start kernels"),
    (
        "--strategy",
        "NAME",
        str,
        "such as auto, mirrored or multi_worker, for all models of the script (default: none)",
    ),
    (
        "--worker-timeout-s",
        "SECONDS",
        float,
        "how long to wait for the other processes of a cluster",
    ),
)
_SWITCHES = (
    ("--soft-placement", "whether operations without a kernel for their device use another"),
    ("--log-device-placement", "whether TensorFlow prints the device of each operation"),
    ("--tf32", "whether float32 matrix products may use TensorFloat-32"),
    ("--deterministic", "whether the same run gives the same numbers; needs --seed"),
    ("--require-gpu", "whether to end if no GPU can be used"),
)
_DESTINATION = "gpu_"


def add_gpu_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each argument of `configure_gpus` except `verbose`."""
    group = parser.add_argument_group(
        "setting up GPUs",
        "With any of these, configure_gpus() is called with them as soon as the script has "
        "imported TensorFlow. Without any, nothing is set.",
    )
    for flag, metavar, parse, described in _VALUES:
        options: dict[str, Any] = {"metavar": metavar, "type": parse, "help": described}
        group.add_argument(flag, dest=_name(flag), default=argparse.SUPPRESS, **options)
    for flag, described in _SWITCHES:
        options = {"action": argparse.BooleanOptionalAction, "help": described}
        group.add_argument(flag, dest=_name(flag), default=argparse.SUPPRESS, **options)


def given_gpu_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `configure_gpus` that were given as flags."""
    return {
        name.removeprefix(_DESTINATION): value
        for name, value in vars(args).items()
        if name.startswith(_DESTINATION)
    }


def _name(flag: str) -> str:
    return _DESTINATION + flag.removeprefix("--").replace("-", "_")
