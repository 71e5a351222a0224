"""The split of a model over devices, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.cluster import SplitPlan
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, show_as, table

_SIZES = ("weights", "slots", "activations", "together")
_CHOSEN_BY = {
    "memory": "balanced by memory",
    "boundaries": "cut at the given layers",
    "layers": "placed as given",
}


def render(plan: SplitPlan) -> RenderableType:
    """Returns a table of the stages with their memory, and the transfers between devices."""
    heading = (
        f"Split over {len(plan.stages)} devices, {_CHOSEN_BY[plan.chosen_by]}; activations of "
        f"{plan.batch_size} examples, optimizer {plan.optimizer}."
    )
    rows = []
    for stage in plan.stages:
        first, last = stage.layers[0], stage.layers[-1]
        layers = first if first == last else f"{len(stage.layers)}: {first} to {last}"
        sizes = (stage.weight_bytes, stage.slot_bytes, stage.activation_bytes, stage.memory_bytes)
        rows.append((stage.device, layers, *map(units.size, sizes)))
    stages = table(rows, ("device", "layers", *_SIZES), _SIZES)
    notes = (plain(f"Note: {note}.") for note in plan.notes)
    return Group(plain(heading), stages, plain(_crossings(plan)), *notes)


def _crossings(plan: SplitPlan) -> str:
    if not plan.crossings:
        return "The forward pass sends nothing between devices."
    ends: dict[str, list[int | None]] = {}
    for each in plan.crossings:
        ends.setdefault(f"{each.from_device} to {each.to_device}", []).append(each.size_bytes)
    return "The forward pass sends in each step: " + "; ".join(
        f"{path} {len(sizes)} tensor{'s' if len(sizes) > 1 else ''}, {_sum(sizes)}"
        for path, sizes in ends.items()
    )


def _sum(sizes: list[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return units.size(sum(known)) if len(known) == len(sizes) else "size unknown"


show_as(SplitPlan, render)
