"""The page as a whole."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.records.report import CaptureReport, Report, RunReport
from keras_gpukit.reports.html import words
from keras_gpukit.reports.html.capture_memory_picture import capture_memory_picture
from keras_gpukit.reports.html.capture_pictures import captures_picture, each_step_picture
from keras_gpukit.reports.html.memory_pictures import device_memory_picture, host_memory_picture
from keras_gpukit.reports.html.picture import Picture, Unknown
from keras_gpukit.reports.html.placement_picture import placement_picture
from keras_gpukit.reports.html.side_by_side import runs_table, stalls_picture, step_times_picture
from keras_gpukit.reports.html.stages_picture import stages_picture
from keras_gpukit.reports.html.step_pictures import stall_picture, step_time_picture
from keras_gpukit.reports.html.time_axis import TimeAxis
from keras_gpukit.reports.html.utilization_picture import utilization_picture
from keras_gpukit.reports.html.wall_time_picture import wall_time_picture
from keras_gpukit.reports.phrases import evidence

_FOLDER = "keras_gpukit.reports.html"
_FILES = ("report.css", "report.js")


@dataclass(frozen=True)
class Shown:
    """A chart with its place in the page."""

    id: str
    picture: Picture


@dataclass(frozen=True)
class Section:
    """The charts of one run, or of captures without a run."""

    id: str
    run: RunReport | None
    shown: tuple[Shown, ...]
    unknown: tuple[Unknown, ...]


def plotly_js() -> str:
    """Plotly's own JavaScript, which draws the charts (about 5 MB)."""
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source


def drawing_js() -> str:
    """The page's own script, the only one in it apart from Plotly."""
    return _packaged("report.js")


def render(report: Report, *, plotly_src: str | None = None) -> str:
    """Returns the report as one HTML document.

    Names of runs, operations and files may be anything: the template escapes them, and what goes
    into scripts is escaped here.

    Args:
        report: Its data.
        plotly_src: Where the page finds `plotly_js()`; None puts it into the page, which then needs
            nothing else.
    """
    sections = [
        _section(f"run-{place}", run, _run_pictures(run))
        for place, run in enumerate(report.runs, start=1)
        if run.has_time_series
    ]
    if report.captures or not report.runs:
        sections.append(_section("captures", None, _capture_pictures(report.captures)))
    beside = _section("runs", None, _beside(report.runs)) if len(report.runs) > 1 else None
    figures = {
        shown.id: shown.picture.figure
        for section in (*sections, *([beside] if beside else []))
        for shown in section.shown
        if shown.picture.figure is not None
    }
    css, javascript = (_packaged(name) for name in _FILES)
    text: str = _template().render(
        report=report,
        sections=sections,
        beside=beside,
        runs_table=runs_table(report.runs),
        words=words,
        evidence=evidence,
        css=css,
        javascript=javascript,
        figures=_in_script(figures),
        plotly_js=plotly_js() if plotly_src is None else None,
        plotly_src=plotly_src,
    )
    return text


def _run_pictures(run: RunReport) -> Iterator[Picture | Unknown]:
    began_s = run.began_s or 0.0
    time = TimeAxis(began_s, max((run.ended_s or began_s) - began_s, 0.0))
    yield wall_time_picture(run)
    yield step_time_picture(run, time)
    yield stall_picture(run, time)
    yield utilization_picture(run, time)
    yield device_memory_picture(run, time)
    yield host_memory_picture(run, time)
    yield stages_picture(run)
    yield placement_picture(run)
    yield from _capture_pictures(run.captures)


def _capture_pictures(captures: Sequence[CaptureReport]) -> Iterator[Picture | Unknown]:
    yield captures_picture(captures)
    if captures:
        yield each_step_picture(captures)
        yield capture_memory_picture(captures)


def _beside(runs: Sequence[RunReport]) -> Iterator[Picture | Unknown]:
    yield step_times_picture(runs)
    yield stalls_picture(runs)


def _section(name: str, run: RunReport | None, pictures: Iterator[Picture | Unknown]) -> Section:
    all_pictures = tuple(pictures)
    shown = [picture for picture in all_pictures if isinstance(picture, Picture)]
    return Section(
        name,
        run,
        tuple(Shown(f"{name}-{place}", picture) for place, picture in enumerate(shown, start=1)),
        tuple(picture for picture in all_pictures if isinstance(picture, Unknown)),
    )


def _in_script(figures: dict[str, str]) -> str:
    """JSON that cannot end the script it stands in, whatever names are in it."""
    text = "{" + ",".join(f"{json.dumps(name)}:{figure}" for name, figure in figures.items()) + "}"
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.DictLoader({"page": _packaged("report.html.j2")}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page")


def _packaged(name: str) -> str:
    from importlib.resources import files

    return (files(_FOLDER) / name).read_text(encoding="utf-8")
