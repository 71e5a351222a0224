"""What is expected of a run on more GPUs, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from keras_gpukit.records.scaling import Link, ScalingBasis, ScalingForecast, ScalingPoint
from keras_gpukit.reports import units

_UNKNOWN = "unknown"


def render(forecast: ScalingForecast) -> RenderableType:
    """The basis, the links, a row for each number of GPUs, and the assumptions."""
    parts: list[RenderableType] = [Text(_basis(forecast.run, forecast.basis))]
    parts.append(Text(_link("Inside a node", forecast.inside)))
    count = forecast.links_per_node
    parts.append(
        Text(_link(f"Between nodes ({count} link{'s' * (count > 1)} a node)", forecast.between))
    )
    parts.append(_table(forecast.points))
    notes = dict.fromkeys(
        (*forecast.basis.unknown.values(), *(each.unknown_because for each in forecast.points))
    )
    parts += [Text(f"- {note}") for note in notes if note]
    parts.append(Text("Assumptions, by the ring model (Patarasuk and Yuan 2009):"))
    parts += [Text(f"- {each}") for each in forecast.assumptions]
    return Group(*parts)


def _basis(run: str | None, basis: ScalingBasis) -> str:
    gradients = _UNKNOWN if basis.gradient_bytes is None else units.size(basis.gradient_bytes)
    batch = _UNKNOWN if basis.batch is None else f"{units.number(basis.batch)} examples"
    return (
        f"{run or 'As given'}: step of one GPU without exchange {_time(basis.step_s)}, gradients "
        f"{gradients}, batch per GPU {batch}."
    )


def _link(place: str, link: Link) -> str:
    if link.bandwidth_bytes_per_s is None:
        return f"{place}: bandwidth {_UNKNOWN}."
    bandwidth = f"{units.number(link.bandwidth_bytes_per_s / 1e9)} GB/s ({link.source})"
    if link.latency_s is None:
        return f"{place}: {bandwidth}, latency {_UNKNOWN}."
    latency = f"{units.duration(link.latency_s)} ({link.latency_source})"
    return f"{place}: {bandwidth}, latency {latency}."


def _table(points: tuple[ScalingPoint, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("GPUs", "nodes", "exchange", "step", "efficiency", "examples/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        rate = point.examples_per_s
        table.add_row(
            f"{point.gpus:,}",
            f"{point.nodes:,}",
            _time(point.exchange_s),
            _time(point.step_s),
            _UNKNOWN if point.efficiency is None else units.percentage(point.efficiency),
            _UNKNOWN if rate is None else units.number(rate),
        )
    return table


def _time(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else units.duration(seconds)
