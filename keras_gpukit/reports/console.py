"""The verdict as one short panel, and printing to a terminal of any encoding."""

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
    """Prints the panel.

    Args:
        summary: The run, judged.
        console: Where to print; standard output by default, without colours if that is not
            a terminal.
        log_dir: Where the run was written; None if nowhere.
    """
    print_anywhere(render(summary, log_dir), console)


def render(summary: RunSummary, log_dir: Path | None = None) -> RenderableType:
    """The panel: the run's figures, then the findings, worst first, then where there is more.

    The worst finding has all of its advice, the others only the first line, and "info" findings
    no figures: users change one thing at a time, and the next run has its own verdict.
    """
    lines: list[RenderableType] = [
        plain(", ".join(phrases.headline(summary)) or "Nothing was measured.")
    ]
    spent = phrases.time_spent(summary)
    lines += [plain(spent, style="dim")] if spent else []
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
    """Prints to a console; one that lacks the characters of units gets them in ASCII.

    Args:
        renderable: What to print.
        console: Standard output by default, without colours if that is not a terminal.
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
