"""The GPU setup, done or planned, as text for a terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Group, RenderableType
from rich.panel import Panel

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Action, Cause, TensorFlowState
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, table


def setup_panel(
    devices: tuple[GPUInfo, ...],
    state: TensorFlowState,
    *,
    actions: tuple[Action, ...],
    causes: tuple[Cause, ...],
    not_applied: tuple[str, ...],
    warnings: tuple[str, ...],
    strategy: str | None,
    replicas: int,
    notes: tuple[str, ...] = (),
) -> RenderableType:
    """Returns a panel: the GPUs (or why there are none), the settings with reasons, the warnings.

    `devices` are those in use, `state` is what TensorFlow reports after the setup, `not_applied`
    are arguments that have no effect without a GPU, and `notes` say what the strategy does to the
    loss and the batch, or why none is used.
    """
    name = strategy or "No distribution strategy"
    count = units.count(replicas, "replica")
    parts = [
        gpu_table(devices, state) if devices else no_gpu_text(causes, not_applied),
        *([actions_table(actions)] if actions else []),
        plain(f"{name}, {count}; dtype policy {state.dtype_policy}."),
        *map(plain, notes),
        *(plain(f"Warning: {warning}", style="yellow") for warning in warnings),
    ]
    return Panel(Group(*parts), title="GPU setup", title_align="left")


def worker_lines(
    name: str,
    devices: tuple[GPUInfo, ...],
    *,
    causes: tuple[Cause, ...],
    warnings: tuple[str, ...],
) -> RenderableType:
    """Returns lines for a worker other than the chief: its GPUs and its own warnings."""
    own = " ".join(["no GPU.", *(cause.text for cause in causes[:1])])
    if devices:
        models = Counter(gpu.name or "unknown" for gpu in devices).items()
        used = (f"{times} × {model}" if times > 1 else model for model, times in models)
        own = f"{units.count(len(devices), 'GPU')} ({', '.join(used)})"
    line = (
        f"GPU setup of {name}: {own.rstrip('.')}. The chief prints the settings and their warnings."
    )
    lines = [plain(f"Warning of {name}: {warning}", style="yellow") for warning in warnings]
    return Group(plain(line), *lines)


def gpu_table(devices: tuple[GPUInfo, ...], state: TensorFlowState | None = None) -> RenderableType:
    """Returns a table with a row per GPU; with a state, also how its memory is allocated."""
    rows = [
        (
            str(gpu.index),
            gpu.name or "unknown",
            units.known(gpu.compute_capability, lambda version: f"{version[0]}.{version[1]}"),
            units.known(gpu.memory_bytes, units.size),
            gpu.uuid or f"unknown: {gpu.unidentified_because or 'not reported'}",
            *([] if state is None else [_use(gpu.index, state)]),
        )
        for gpu in devices
    ]
    heads = ("GPU", "Name", "Capability", "Memory", "UUID")
    return table(rows, heads if state is None else (*heads, "Use"))


def actions_table(actions: tuple[Action, ...]) -> RenderableType:
    """Returns a table with a row per action, in order."""
    rows = []
    for action in actions:
        target = action.name or action.kind.replace("_", " ")
        if action.gpus:
            target += f" of GPU {', '.join(map(str, action.gpus))}"
        value = action.shown
        if isinstance(value, tuple):
            value = ", ".join(map(str, value)) or "none"
        rows.append((target, str(value), plain(action.reason, style="dim")))
    return table(rows)


def no_gpu_text(causes: tuple[Cause, ...], not_applied: tuple[str, ...]) -> RenderableType:
    """Explains why no GPU is used and what to do."""
    text = plain("No GPU is used; training runs on the CPU.", style="bold")
    for cause in causes:
        text.append(f"\n{cause}", style="not bold")
    if not_applied:
        without = f"\nWithout a GPU these do nothing: {', '.join(not_applied)}."
        text.append(without, style="not bold")
    return text


def _use(index: int, state: TensorFlowState) -> str:
    limits = state.memory_limit_mib[index]
    if limits:
        return " + ".join(units.size(limit * 2**20) for limit in limits)
    return "grows" if state.growth[index] else "whole"
