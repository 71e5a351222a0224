"""A setup or a plan, as people read it in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from keras_gpukit.configure.actions import Action, Plan
from keras_gpukit.configure.machine import TensorFlowState
from keras_gpukit.configure.sizes import MIB, format_size
from keras_gpukit.records.environment import GPUInfo


def setup_table(
    devices: tuple[GPUInfo, ...],
    plan: Plan,
    warnings: tuple[str, ...],
    state: TensorFlowState,
    strategy: Any,
    replicas: int,
) -> RenderableType:
    """Lays a setup out: the GPUs or why there are no GPUs, what was set and why, the warnings."""
    parts: list[RenderableType] = []
    if devices:
        parts.append(gpu_table(devices, state))
    else:
        parts.append(causes_text(plan))
    if plan.actions:
        parts.append(actions_table(plan.actions))
    name = "No distribution strategy" if strategy is None else type(strategy).__name__
    count = f"{replicas} replica{'s' if replicas > 1 else ''}"
    parts.append(Text(f"{name}, {count}; dtype policy {state.dtype_policy}."))
    parts += [Text(f"Warning: {warning}", style="yellow") for warning in warnings]
    return Panel(Group(*parts), title="GPU setup", title_align="left")


def gpu_table(devices: tuple[GPUInfo, ...], state: TensorFlowState | None = None) -> Table:
    """One row for each GPU; with a state, how its memory is used."""
    table = Table(box=None, pad_edge=False)
    for heading in ("GPU", "Name", "Capability", "Memory", "UUID"):
        table.add_column(heading)
    if state is not None:
        table.add_column("Use")
    for gpu in devices:
        capability = gpu.compute_capability
        row = [
            str(gpu.index),
            gpu.name or "unknown",
            "unknown" if capability is None else f"{capability[0]}.{capability[1]}",
            format_size(gpu.memory_bytes),
            gpu.uuid or "unknown",
        ]
        table.add_row(*row, *([] if state is None else [_use(gpu.index, state)]))
    return table


def actions_table(actions: tuple[Action, ...]) -> Table:
    """One row for each action, in order."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for action in actions:
        target = action.name or action.kind.replace("_", " ")
        if action.gpus:
            target += f" of GPU {', '.join(map(str, action.gpus))}"
        value = action.shown
        if isinstance(value, tuple):
            value = ", ".join(map(str, value)) or "none"
        table.add_row(target, Text(str(value)), Text(action.reason, style="dim"))
    return table


def causes_text(plan: Plan) -> Text:
    """Why no GPU is used, and what to do."""
    text = Text("No GPU is used; training runs on the CPU.", style="bold")
    for cause in plan.causes:
        text.append(f"\n{cause}", style="not bold")
    if plan.not_applied:
        text.append(
            f"\nWithout a GPU these do nothing: {', '.join(plan.not_applied)}.", style="not bold"
        )
    return text


def _use(index: int, state: TensorFlowState) -> str:
    limits = state.memory_limit_mib[index]
    if limits:
        return " + ".join(format_size(limit * MIB) for limit in limits)
    return "grows" if state.growth[index] else "whole"
