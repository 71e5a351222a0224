"""The verdict as a short panel, and printing to a terminal with any encoding."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from keras_gpukit.errors import one_line
from keras_gpukit.records.displayed import show_by
from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.run import Ending, RunSummary
from keras_gpukit.reports import phrases
from keras_gpukit.reports.evidence import evidence_sentences
from keras_gpukit.reports.notebook import as_html
from keras_gpukit.reports.printable import plain

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_TITLES: dict[Ending | None, str] = {
    "completed": "keras_gpukit",
    "interrupted": "keras_gpukit, run interrupted",
    None: "keras_gpukit, how the run ended is unknown",
}
_INDENT = 2
_REASONS = 2
_OTHERS = 2
_ASCII = str.maketrans({"µ": "u", "×": "x"})


def print_summary(
    summary: RunSummary,
    console: Console | None = None,
    log_dir: Path | None = None,
    *,
    details: bool = False,
) -> None:
    """Prints the verdict on a run as a panel.

    Args:
        summary: Summary of the run, with its verdict.
        console: Console to print to; standard output by default, without colours if that is not
            a terminal.
        log_dir: Log directory of the run; None if it was not written to disk.
        details: Whether to list every finding with its figures and all of its advice.
    """
    print_anywhere(render(summary, log_dir, details=details), console)


def render(
    summary: RunSummary, log_dir: Path | None = None, *, details: bool = False
) -> RenderableType:
    """Returns the panel: the verdict, why, what to do next, and below them the run's figures.

    In short, the other findings are one line. Users change one thing at a time; the next run has
    its own verdict.
    """
    lines: list[RenderableType] = [_verdict(summary)]
    if details:
        lines += ["", *_figures(summary), *_findings(summary), *_not_judged(summary)]
    else:
        figures = phrases.in_short(summary) or "Nothing was measured."
        told = (_others(summary), figures, phrases.correction(summary))
        lines += [plain(each, style="dim") for each in told if each]
    report = f"Report with charts: keras-gpukit report {shlex.quote(str(log_dir))}"
    more = (
        phrases.compared(summary),
        phrases.captured(summary, reasons=details),
        report if log_dir is not None else None,
    )
    lines += [plain(each, style="dim") for each in more if each]
    title = _TITLES[summary.ending] if summary.killed_in is None else "keras_gpukit, run killed"
    return Panel(Group(*lines), title=title, title_align="left", expand=False)


def _verdict(summary: RunSummary) -> RenderableType:
    """Returns the three lines that a person reads first."""
    worst = phrases.worst(summary)
    if worst is None:
        rows = [("Verdict", phrases.all_well(summary)), ("Why", phrases.checks(summary.verdict))]
        rows.append(("Next", phrases.train_longer(summary)))
        style = "green" if phrases.is_judged(summary) else ""
    else:
        why = " ".join(evidence_sentences(_without_second_share(worst))[:_REASONS])
        rows = [("Verdict", worst.title), ("Why", why)]
        rows.append(("Next", worst.advice[0] if worst.advice else None))
        rows.append(("", _gain(worst.saving) if worst.saving else None))
        style = _STYLES[worst.severity]
    table = Table.grid(padding=(0, 1))
    for name, told in rows:
        if told:
            # Plain text throughout: names from a model must not be parsed as markup.
            text = plain(told, style=style)
            if name == "Verdict" and worst is not None:
                text.append(f" ({worst.code})", style="dim")
            table.add_row(plain(name, style="bold"), text)
        style = ""
    return table


def _without_second_share(finding: Finding) -> Finding:
    """Leaves out the stall, a share of the steps' time, where the title has a share of the run."""
    if "%" not in finding.title:
        return finding
    told = takewhile(lambda figure: figure.key != "input_stall", finding.evidence)
    return replace(finding, evidence=tuple(told))


def _gain(saving: Saving) -> str:
    time, faster, _ = phrases.saved_parts(saving)
    return f"Fixing it saves {', '.join(filter(None, (time, faster)))}."


def _others(summary: RunSummary) -> str | None:
    worst = phrases.worst(summary)
    titles = [each.title for each in summary.findings if each is not worst]
    left_out = len(titles) - _OTHERS
    told = [*titles[:_OTHERS], *([f"{left_out} more"] if left_out > 0 else [])]
    return f"Also: {'; '.join(told)}" if told else None


def _figures(summary: RunSummary) -> list[RenderableType]:
    told = (
        ", ".join(phrases.headline(summary)) or "Nothing was measured.",
        phrases.time_spent(summary),
        phrases.correction(summary),
    )
    return [plain(each) for each in told if each]


def _findings(summary: RunSummary) -> list[RenderableType]:
    return [line for finding in summary.findings for line in ("", *_tell(finding))]


def _tell(finding: Finding) -> list[RenderableType]:
    heading = plain(f"{finding.severity}: {finding.title}", style=_STYLES[finding.severity])
    heading.append(f" ({finding.code})", style="dim")
    details = [phrases.evidence(finding), *(f"- {line}" for line in finding.advice)]
    return [heading, *(Padding(plain(line), (0, 0, 0, _INDENT)) for line in details if line)]


def _not_judged(summary: RunSummary) -> list[RenderableType]:
    reasons = summary.verdict.not_applicable.items()
    told = [f"not judged: {code}: {one_line(reason)}" for code, reason in reasons]
    return ["", *(plain(each, style="dim") for each in told)] if told else []


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
