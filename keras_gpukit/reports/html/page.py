"""Assembles the HTML page of a report from its charts and tables."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from keras_gpukit.records.capture import CaptureRecord, MissedCapture
from keras_gpukit.records.report import CaptureReport, Report, RunReport
from keras_gpukit.reports.evidence import advice_of, evidence_sentences
from keras_gpukit.reports.html import words
from keras_gpukit.reports.html.capture_charts import (
    capture_memory_chart,
    captures_chart,
    each_step_chart,
)
from keras_gpukit.reports.html.chart import Chart, Flat, Unknown
from keras_gpukit.reports.html.input_chart import input_chart
from keras_gpukit.reports.html.links import Link, captures_of, chart_links, stage_names
from keras_gpukit.reports.html.machine_charts import (
    device_memory_chart,
    disk_chart,
    host_memory_chart,
    utilization_chart,
)
from keras_gpukit.reports.html.memory_causes import memory_causes
from keras_gpukit.reports.html.placement_chart import placement_chart
from keras_gpukit.reports.html.run_comparison import (
    stages_of_runs_chart,
    stalls_chart,
    step_times_chart,
)
from keras_gpukit.reports.html.run_names import run_ids
from keras_gpukit.reports.html.runs_table import runs_table
from keras_gpukit.reports.html.stages_chart import stages_chart
from keras_gpukit.reports.html.state_notes import state_note
from keras_gpukit.reports.html.step_distribution_chart import step_distribution_chart
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.timeline_chart import timeline_chart
from keras_gpukit.reports.html.wall_time_chart import script_chart, wall_time_chart
from keras_gpukit.reports.html.workers_chart import workers_chart
from keras_gpukit.reports.phrases import correction, saved_parts
from keras_gpukit.rules.whole_run.many_calls import ManyShortCalls

_FOLDER = "keras_gpukit.reports.html"
_STYLES = ("report.css", "charts.css", "runs_table.css", "printing.css")
_SCRIPTS = (
    *("report.js", "linked_charts.js", "page_tools.js"),
    *("runs_table.js", "table_filter.js", "refresh.js"),
)
Keyed = tuple[str, Chart | Flat | Unknown]
"""A chart with its key, such as "timeline", which ends its id in the page."""


@dataclass(frozen=True)
class Shown:
    """A chart with its id in the page."""

    id: str
    chart: Chart


@dataclass(frozen=True)
class Section:
    """The charts of one run, or of captures without a run.

    Attributes:
        id: Id of the section, for links.
        run: The run; None for captures without a run and for comparisons of runs.
        shown: Charts that are drawn.
        flat: Sentences in place of charts that would only show flat lines.
        unknown: Charts that cannot be drawn.
        brief: Whether the run has no charts because it is one of many. A brief section is hidden
            until a link to it is followed.
    """

    id: str
    run: RunReport | None
    shown: tuple[Shown, ...]
    flat: tuple[Flat, ...]
    unknown: tuple[Unknown, ...]
    brief: bool = False

    @property
    def first(self) -> tuple[Shown, ...]:
        """The charts that follow the verdict directly: where the time went, and the timeline."""
        leading = (f"{self.id}-wall-time", f"{self.id}-timeline")
        return tuple(each for each in self.shown if each.id in leading)

    @property
    def others(self) -> tuple[Shown, ...]:
        """All other charts."""
        return tuple(each for each in self.shown if each not in self.first)

    @property
    def links(self) -> dict[str, Link]:
        """Link to each chart, by the chart's key."""
        return {
            each.id.removeprefix(f"{self.id}-"): Link(f"#{each.id}-title", each.chart.title)
            for each in self.shown
        }


def plotly_js() -> str:
    """Returns Plotly's JavaScript library, which draws the charts (about 5 MB)."""
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


def drawing_js() -> str:
    """Returns the page's own script, the only one apart from Plotly."""
    return "\n".join(map(_packaged, _SCRIPTS))


def render(
    report: Report,
    *,
    plotly_src: str | None = None,
    href: Callable[[RunReport], str | None] = lambda run: None,
    profile_href: Callable[[RunReport, CaptureRecord], str | None] = lambda run, capture: None,
) -> str:
    """Returns the report as one HTML document.

    Names of runs, operations and files may contain anything. The template escapes text in HTML;
    this function escapes data in scripts.

    Args:
        report: Data of the report.
        plotly_src: URL of the script `plotly_js()`; None embeds it, so that the page is
            self-contained.
        href: Returns the URL of the page that shows a run; None if it is shown in this page.
        profile_href: Returns the URL of a capture's trace in TensorBoard's Profile tab; None if
            unknown.
    """
    ids = run_ids(report.runs)
    sections = [
        _section(name, run, _run_charts(run))
        if run.has_time_series
        else Section(name, run, (), (), (), brief=True)
        for name, run in zip(ids, report.runs, strict=True)
        if run.has_time_series or href(run) is None
    ]
    if report.captures or not report.runs:
        sections.append(_section("captures", None, _capture_charts(report.captures)))
    beside = _section("runs", None, _beside(report.runs)) if len(report.runs) > 1 else None
    script = None
    if report.script is not None:
        script = _section("script", None, iter([("time", script_chart(report.script))]))
    figures = {
        shown.id: shown.chart.figure
        for section in (*sections, *filter(None, (beside, script)))
        for shown in section.shown
        if shown.chart.figure is not None
    }
    runs = runs_table(report.runs, href) if beside else None
    text: str = _template().render(
        report=report,
        sections=sections,
        beside=beside,
        script=script,
        script_finding=report.script and ManyShortCalls().judge_script(report.script),
        runs=runs,
        runs_data=_in_script(runs.data) if runs else None,
        words=words,
        state_note=state_note,
        evidence=evidence_sentences,
        chart_links=chart_links,
        captures_of=captures_of,
        profile_href=profile_href,
        advice_of=advice_of,
        saved_parts=saved_parts,
        correction=correction,
        css="\n".join(map(_packaged, _STYLES)),
        javascript=drawing_js(),
        figures=_in_script(_as_json(figures)),
        plotly_js=plotly_js() if plotly_src is None else None,
        plotly_src=plotly_src,
    )
    return text


def _run_charts(run: RunReport) -> Iterator[Keyed]:
    began_s = run.began_s or 0.0
    epochs = tuple(event for event in run.events if event.kind == "epoch")
    time = TimeAxis(began_s, max((run.ended_s or began_s) - began_s, 0.0), epochs)
    yield "wall-time", wall_time_chart(run)
    yield "timeline", timeline_chart(run, time)
    if (workers := workers_chart(run)) is not None:
        yield "workers", workers
    yield "step-times", step_distribution_chart(run, time)
    yield "input", input_chart(run, time)
    yield "stages", stages_chart(run)
    yield "busy", utilization_chart(run, time)
    yield "disk", disk_chart(run, time)
    yield "device-memory", device_memory_chart(run, time)
    yield "memory-causes", memory_causes(run)
    yield "host-memory", host_memory_chart(run, time)
    yield "placement", placement_chart(run)
    profiler = run.summary.captures
    missed = profiler.missed if profiler else ()
    yield from _capture_charts(run.captures, missed, stage_names(run))


def _capture_charts(
    captures: Sequence[CaptureReport],
    missed: Sequence[MissedCapture] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Keyed]:
    yield "captures", captures_chart(captures, missed, names)
    if captures:
        yield "each-step", each_step_chart(captures)
        yield "capture-memory", capture_memory_chart(captures)


def _beside(runs: Sequence[RunReport]) -> Iterator[Keyed]:
    yield "step-times", step_times_chart(runs)
    yield "stalls", stalls_chart(runs)
    yield "stages", stages_of_runs_chart(runs)


def _section(name: str, run: RunReport | None, charts: Iterator[Keyed]) -> Section:
    all_charts = tuple(charts)
    return Section(
        name,
        run,
        tuple(Shown(f"{name}-{key}", each) for key, each in all_charts if isinstance(each, Chart)),
        tuple(each for _, each in all_charts if isinstance(each, Flat)),
        tuple(each for _, each in all_charts if isinstance(each, Unknown)),
    )


def _as_json(figures: dict[str, str]) -> str:
    """Joins figures, which are JSON already, to one JSON object by chart id."""
    return "{" + ",".join(f"{json.dumps(name)}:{each}" for name, each in figures.items()) + "}"


def _in_script(text: str) -> str:
    """Escapes JSON for a script element: no name in it can end the script."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.DictLoader(
            {"page": _packaged("report.html.j2"), "runs": _packaged("runs_table.html.j2")}
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page")


def _packaged(name: str) -> str:
    from importlib.resources import files

    return (files(_FOLDER) / name).read_text(encoding="utf-8")
