"""Renders a report as one HTML page: assembles it from its charts and tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from keras_gpukit.records import show_by
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.profile import CaptureRecord, ProfileRecord
from keras_gpukit.records.report import CaptureReport, Report, RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import evidence, phrases, run_words, units
from keras_gpukit.reports.html.bar_charts import placement_chart, stages_chart, workers_chart
from keras_gpukit.reports.html.chart import Chart, Omitted
from keras_gpukit.reports.html.computation import (
    captures_chart,
    layers_chart,
    roofline_table,
    stage_names,
)
from keras_gpukit.reports.html.over_time import TimeAxis
from keras_gpukit.reports.html.run_charts import (
    device_memory_chart,
    host_memory_chart,
    input_chart,
    script_chart,
    utilization_chart,
    wall_time_chart,
)
from keras_gpukit.reports.html.runs_table import run_id, run_ids, runs_table, step_times_chart
from keras_gpukit.reports.html.timeline import timeline_chart
from keras_gpukit.rules import RULES
from keras_gpukit.rules.comparing.pairs import setup
from keras_gpukit.rules.verdict import of_profile

__all__ = ["drawing_js", "plotly_js", "render", "run_id"]

_STYLES = ("report.css", "charts.css", "runs_table.css", "printing.css")
_SCRIPTS = (
    *("report.js", "linked_charts.js", "page_tools.js"),
    *("runs_table.js", "table_filter.js", "refresh.js"),
)
_COMPUTE = ("captures", "layers")
_TIME = ("wall-time", "timeline")
_CHARTS = {rule.code: rule.charts for rule in RULES}
_IN_CAPTURES = {rule.code for rule in RULES if rule.in_captures}
Keyed = tuple[str, str, Chart | Omitted | None]
"""A chart with its key, such as "timeline", which ends its id in the page, and its title."""


class Shown(NamedTuple):
    """A chart with its id in the page, and its title."""

    id: str
    title: str
    chart: Chart


@dataclass
class Section:
    """The charts of one run, of the script, of captures without a run, or of several runs.

    Attributes:
        summary: Summary of the run or, without one, of the steps of a profile.
        brief: Whether the run has no charts because it is one of many. A brief section is hidden
            until a link to it is followed.
        shown: Charts that are drawn, by key.
        omitted: Titles of charts that are left out, each with the reason.
    """

    id: str
    name: str = ""
    run: RunReport | None = None
    summary: RunSummary | None = None
    brief: bool = False
    shown: dict[str, Shown] = field(default_factory=dict)
    omitted: list[tuple[str, Omitted]] = field(default_factory=list)

    def add_charts(self, charts: Iterable[Keyed]) -> Section:
        """Adds charts and those that are left out; None is neither."""
        for key, title, chart in charts:
            if isinstance(chart, Chart):
                self.shown[key] = Shown(f"{self.id}-{key}", title, chart)
            elif chart is not None:
                self.omitted.append((title, chart))
        return self

    @property
    def first(self) -> list[Shown]:
        """The charts that follow the verdict directly: where the time went.

        That of captured steps comes before that of the run if the verdict is on what they compute.
        """
        worst = run_words.worst(self.summary) if self.summary else None
        of_steps = worst is None or _COMPUTE[0] in _CHARTS.get(worst.code, ())
        keys = (*_COMPUTE, *_TIME) if of_steps or _TIME[0] not in self.shown else _TIME
        return [self.shown[key] for key in keys if key in self.shown]

    @property
    def others(self) -> list[Shown]:
        """Those of the other charts that a finding refers to; all, if there is no verdict."""
        others = [chart for chart in self.shown.values() if chart not in self.first]
        if self.summary is None:
            return others
        referred = [self.charts_of(finding) for finding in self.summary.findings]
        return [chart for chart in others if any(chart in charts for charts in referred)]

    @property
    def more(self) -> list[Shown]:
        """Charts that say nothing about the verdict."""
        known = [*self.first, *self.others]
        return [chart for chart in self.shown.values() if chart not in known]

    def charts_of(self, finding: Finding) -> list[Shown]:
        """Returns the charts that show a finding, the most relevant first."""
        return [self.shown[key] for key in _CHARTS.get(finding.code, ()) if key in self.shown]

    def captures_of(self, finding: Finding) -> list[CaptureRecord]:
        """Returns up to two captures that show a finding, preferably of steps that became slower.

        Empty without a run, and for findings that are not about single steps.
        """
        if self.run is None or finding.code not in _IN_CAPTURES:
            return []
        taken = (report.capture for report in self.run.captures)
        written = [capture for capture in taken if capture and capture.path]
        slower = [capture for capture in written if capture.trigger == "step time"]
        return (slower or written)[-2:]


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
    sections = [
        Section(id, run.name, run, run.summary, brief=not run.has_time_series).add_charts(
            charts_of_run(run) if run.has_time_series else ()
        )
        for id, run in zip(run_ids(report.runs), report.runs, strict=True)
        if run.has_time_series or href(run) is None
    ]
    if report.captures or not report.runs:
        sections.append(_captures_section(report))
    beside = runs = script = None
    if len(report.runs) > 1:
        times = [("step-times", "Step times of the runs", step_times_chart(report.runs))]
        beside, runs = Section("runs").add_charts(times), runs_table(report.runs, href)
    if report.script is not None:
        title = "Where the whole script's time went"
        script = Section("script").add_charts([("time", title, script_chart(report.script))])
    figures = {
        shown.id: shown.chart.figure
        for section in (*sections, *filter(None, (beside, script)))
        for shown in section.shown.values()
        if shown.chart.figure is not None
    }
    text: str = _template().render(
        report=report,
        sections=sections,
        beside=beside,
        script=script,
        runs=runs,
        runs_data=_in_script(runs.data) if runs else None,
        evidence=evidence,
        phrases=phrases,
        run_words=run_words,
        setup=setup,
        units=units,
        profile_href=profile_href,
        css="\n".join(map(_packaged, _STYLES)),
        javascript=drawing_js(),
        figures=_in_script(figures),
        plotly_js=plotly_js() if plotly_src is None else None,
        plotly_src=plotly_src,
    )
    return text


def _captures_section(report: Report) -> Section:
    """Returns the section of the profiles that belong to no run, judged by the newest."""
    newest = report.newest_profile
    profile = newest.profile if newest else None
    name = newest.name if newest else "Other profiles"
    section = Section("captures", name, summary=of_profile(profile) if profile else None)
    return section.add_charts(_capture_charts(report.captures, profile))


def charts_of_run(run: RunReport) -> list[Keyed]:
    """Returns the charts of a run, with the names by which rules refer to them."""
    time = TimeAxis.of(run)
    profiler = run.summary.captures
    missed = profiler.missed if profiler else ()
    return [
        ("wall-time", "Where the whole run's time went", wall_time_chart(run)),
        ("timeline", "Timeline", timeline_chart(run, time)),
        ("workers", "The workers next to each other", workers_chart(run)),
        ("input", "Wait for input over the run", input_chart(run, time)),
        ("stages", "Stages of the input pipeline", stages_chart(run)),
        ("roofline", "How near the GPU is to its limits", roofline_table(run)),
        ("busy", "How busy GPUs and host were", utilization_chart(run, time)),
        ("device-memory", "Memory of the devices", device_memory_chart(run, time)),
        ("host-memory", "Memory of the host", host_memory_chart(run, time)),
        ("placement", "Where operations ran", placement_chart(run)),
        *_capture_charts(run.captures, run.summary.profile, missed, stage_names(run)),
    ]


def _capture_charts(
    captures: Sequence[CaptureReport], profile: ProfileRecord | None, *of_run: Any
) -> list[Keyed]:
    return [
        ("captures", "Where a captured step's time went", captures_chart(captures, *of_run)),
        ("layers", "Time by layer", layers_chart(profile)),
    ]


def _in_script(data: Any) -> str:
    """Returns data as JSON for a script element: no name in it can end the script."""
    import msgspec

    text = msgspec.json.encode(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _packaged(name: str) -> str:
    from importlib.resources import files

    return (files(__name__) / name).read_text(encoding="utf-8")


def _in_frame(page: str) -> str:
    """Returns a page as a frame within a notebook's output, whose scripts reach only the page."""
    # Without a base, links within the page would lead to the notebook's own address.
    page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
    return (
        f'<iframe srcdoc="{escape(page)}" title="Report" sandbox="allow-scripts" '
        f'style="border:0;width:100%;height:720px"></iframe>'
    )


show_by(
    Report,
    lambda record: _in_frame(render(record)),
    lambda record: "\n".join(run_words.verdict_lines(record)),
)
