"""The forecast for training on more GPUs, as a table in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType

from keras_gpukit.records.scaling import Link, ScalingBasis, ScalingForecast
from keras_gpukit.reports import units
from keras_gpukit.reports.terminal import plain, table

ON_CPU = (
    "Warning: the run had no GPU, so the table is for CPUs as fast as this one. For GPUs give the "
    "step time of one: --step-ms."
)
WHAT_TO_GIVE = (
    "What is unknown can be given: the step time by --step-ms, the gradients by --gradient-mb, the "
    "links by --inside and --between (GB/s, or a name of --help)."
)


def render(forecast: ScalingForecast) -> RenderableType:
    """Returns the basis, the links, a table with a row per number of GPUs, and the assumptions."""
    count = forecast.links_per_node
    heads = ("GPUs", "nodes", "exchange", "step", "efficiency", "examples/s")
    rows = [
        (
            f"{point.gpus:,}",
            f"{point.nodes:,}",
            units.known(point.exchange_s, units.duration),
            units.known(point.step_s, units.duration),
            units.known(point.efficiency, units.percentage),
            units.known(point.examples_per_s, units.number),
        )
        for point in forecast.points
    ]
    unknown = [each.unknown_because for each in forecast.points if each.unknown_because]
    notes = filter(None, dict.fromkeys((*forecast.basis.unknown.values(), *unknown)))
    before = (
        _basis(forecast.run, forecast.basis),
        *([ON_CPU] if forecast.basis.on_cpu else []),
        _link("Inside a node", forecast.inside),
        _link(f"Between nodes ({count} link{'s' * (count > 1)} a node)", forecast.between),
    )
    after = (
        *(f"- {note}" for note in notes),
        *([WHAT_TO_GIVE] if unknown else []),
        "Assumptions, by the ring model (Patarasuk and Yuan 2009):",
        *(f"- {each}" for each in forecast.assumptions),
    )
    return Group(*map(plain, before), table(rows, heads, heads), *map(plain, after))


def _basis(run: str | None, basis: ScalingBasis) -> str:
    gradients = units.known(basis.gradient_bytes, units.size)
    batch = "unknown" if basis.batch is None else f"{units.number(basis.batch)} examples"
    step = units.known(basis.step_s, units.duration)
    of = "the CPU" if basis.on_cpu else "one GPU"
    return (
        f"{run or 'As given'}: step of {of} without exchange {step}, gradients {gradients}, "
        f"batch per GPU {batch}."
    )


def _link(place: str, link: Link) -> str:
    if link.bandwidth_bytes_per_s is None:
        return f"{place}: bandwidth unknown."
    bandwidth = f"{units.number(link.bandwidth_bytes_per_s / 1e9)} GB/s ({link.source})"
    if link.latency_s is None:
        return f"{place}: {bandwidth}, latency unknown."
    latency = f"{units.duration(link.latency_s)} ({link.latency_source})"
    return f"{place}: {bandwidth}, latency {latency}."
