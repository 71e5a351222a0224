"""The GPU setup, done or planned, as text for a terminal."""

from __future__ import annotations

from collections import Counter

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import TensorFlowState
from keras_gpukit.records.setup import Action, Cause
from keras_gpukit.reports import units
from keras_gpukit.reports.printable import plain


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

    Args:
        devices: GPUs that are used.
        state: TensorFlow's settings after the setup.
        actions: Settings that were made.
        causes: Reasons why no GPU is used.
        not_applied: Arguments that have no effect, because the machine has no GPU.
        warnings: Settings that were resolved, overruled, or differ from the request.
        strategy: Class name of the distribution strategy; None without a strategy.
        replicas: Number of copies of the model that train in step.
        notes: Effects of the strategy on the loss and the batch, or why no strategy is used.
    """
    parts: list[RenderableType] = []
    if devices:
        parts.append(gpu_table(devices, state))
    else:
        parts.append(no_gpu_text(causes, not_applied))
    if actions:
        parts.append(actions_table(actions))
    name = strategy or "No distribution strategy"
    count = f"{replicas} replica{'s' if replicas > 1 else ''}"
    parts.append(plain(f"{name}, {count}; dtype policy {state.dtype_policy}."))
    parts += [plain(note) for note in notes]
    parts += [plain(f"Warning: {warning}", style="yellow") for warning in warnings]
    return Panel(Group(*parts), title="GPU setup", title_align="left")


def worker_lines(
    name: str,
    devices: tuple[GPUInfo, ...],
    *,
    causes: tuple[Cause, ...],
    warnings: tuple[str, ...],
) -> RenderableType:
    """Returns lines for a worker other than the chief: its GPUs and its own warnings."""
    if devices:
        models = Counter(gpu.name or "unknown" for gpu in devices)
        count = "1 GPU" if len(devices) == 1 else f"{len(devices)} GPUs"
        used = ", ".join(
            f"{times} × {name}" if times > 1 else name for name, times in models.items()
        )
        own = f"{count} ({used})"
    else:
        own = " ".join(["no GPU.", *(cause.text for cause in causes[:1])])
    line = (
        f"GPU setup of {name}: {own.rstrip('.')}. The chief prints the settings and their warnings."
    )
    lines = [plain(f"Warning of {name}: {warning}", style="yellow") for warning in warnings]
    return Group(plain(line), *lines)


def gpu_table(devices: tuple[GPUInfo, ...], state: TensorFlowState | None = None) -> Table:
    """Returns a table with a row per GPU; with a state, also how its memory is allocated."""
    headings = ("GPU", "Name", "Capability", "Memory", "UUID")
    table = Table(*headings, box=None, pad_edge=False)
    if state is not None:
        table.add_column("Use")
    for gpu in devices:
        capability = gpu.compute_capability
        row = [
            str(gpu.index),
            gpu.name or "unknown",
            "unknown" if capability is None else f"{capability[0]}.{capability[1]}",
            units.known(gpu.memory_bytes, units.size),
            gpu.uuid or f"unknown: {gpu.unidentified_because or 'not reported'}",
        ]
        table.add_row(*row, *([] if state is None else [_use(gpu.index, state)]))
    return table


def actions_table(actions: tuple[Action, ...]) -> Table:
    """Returns a table with a row per action, in order."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for action in actions:
        target = action.name or action.kind.replace("_", " ")
        if action.gpus:
            target += f" of GPU {', '.join(map(str, action.gpus))}"
        value = action.shown
        if isinstance(value, tuple):
            value = ", ".join(map(str, value)) or "none"
        table.add_row(target, plain(str(value)), plain(action.reason, style="dim"))
    return table


def no_gpu_text(causes: tuple[Cause, ...], not_applied: tuple[str, ...]) -> Text:
    """Explains why no GPU is used and what to do."""
    text = plain("No GPU is used; training runs on the CPU.", style="bold")
    for cause in causes:
        text.append(f"\n{cause}", style="not bold")
    if not_applied:
        text.append(
            f"\nWithout a GPU these do nothing: {', '.join(not_applied)}.", style="not bold"
        )
    return text


def _use(index: int, state: TensorFlowState) -> str:
    limits = state.memory_limit_mib[index]
    if limits:
        return " + ".join(units.size(limit * 2**20) for limit in limits)
    return "grows" if state.growth[index] else "whole"
