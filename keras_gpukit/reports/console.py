"""The verdict as a short panel, and printing to a terminal with any encoding."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel

from keras_gpukit.records.displayed import show_by
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import Ending, RunSummary
from keras_gpukit.reports import phrases
from keras_gpukit.reports.notebook import as_html
from keras_gpukit.reports.printable import plain

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_TITLES: dict[Ending | None, str] = {
    "completed": "keras_gpukit",
    "interrupted": "keras_gpukit, run interrupted",
    None: "keras_gpukit, how the run ended is unknown",
}
_INDENT = 2
_ASCII = str.maketrans({"µ": "u", "×": "x"})


def print_summary(
    summary: RunSummary, console: Console | None = None, log_dir: Path | None = None
) -> None:
    """Prints the verdict on a run as a panel.

    Args:
        summary: Summary of the run, with its verdict.
        console: Console to print to; standard output by default, without colours if that is not
            a terminal.
        log_dir: Log directory of the run; None if it was not written to disk.
    """
    print_anywhere(render(summary, log_dir), console)


def render(summary: RunSummary, log_dir: Path | None = None) -> RenderableType:
    """Returns the panel: the run's figures, the findings (worst first), and where to read more.

    The worst finding is shown with all of its advice, the others with the first line only. "info"
    findings have no figures. Users change one thing at a time; the next run has its own verdict.
    """
    lines: list[RenderableType] = [
        plain(", ".join(phrases.headline(summary)) or "Nothing was measured.")
    ]
    spent, correction = phrases.time_spent(summary), phrases.correction(summary)
    lines += [plain(each, style="dim") for each in (spent, correction) if each]
    verdict = phrases.conclusion(summary)
    if verdict:
        lines += ["", plain(verdict, style="green")]
    for position, finding in enumerate(summary.findings):
        advice = finding.advice if position == 0 else finding.advice[:1]
        lines += ["", *_tell(finding, advice)]
    report = f"Report with charts: keras-gpukit report {shlex.quote(str(log_dir))}"
    more = [
        *filter(None, [phrases.compared(summary), phrases.captured(summary)]),
        *([report] if log_dir is not None else []),
    ]
    lines += ["", *(plain(each, style="dim") for each in more)] if more else []
    return Panel(Group(*lines), title=_TITLES[summary.ending], title_align="left", expand=False)


def _tell(finding: Finding, advice: tuple[str, ...]) -> list[RenderableType]:
    # Plain text throughout: names from a model must not be parsed as markup.
    heading = plain(f"{finding.severity}: {finding.title}", style=_STYLES[finding.severity])
    heading.append(f" ({finding.code})", style="dim")
    figures = phrases.evidence(finding) if finding.severity != "info" else ""
    details = [figures, *(f"- {line}" for line in advice)]
    return [heading, *(Padding(plain(line), (0, 0, 0, _INDENT)) for line in details if line)]


def print_anywhere(renderable: RenderableType, console: Console | None = None) -> None:
    """Prints to a console, with ASCII replacements if its encoding lacks "µ" or "×".

    Args:
        renderable: The object to print.
        console: Console to print to; standard output by default, without colours if that is not
            a terminal.
    """
    console = console or Console()
    try:
        "µ×".encode(console.encoding)
    except UnicodeEncodeError:
        with console.capture() as capture:
            console.print(renderable)
        console.file.write(capture.get().translate(_ASCII))
    else:
        console.print(renderable)


show_by(RunSummary, lambda record: as_html(render(record)))
