"""The verdict on a run as a short panel."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import Ending, RunSummary
from keras_gpukit.reports import phrases, run_words
from keras_gpukit.reports.evidence import (
    capitalized,
    checks,
    evidence_sentences,
    in_one_line,
    saved,
)
from keras_gpukit.reports.layers import captured_step, near_the_limits
from keras_gpukit.reports.terminal import is_notebook, panel, plain, print_anywhere, show_as

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_TITLES: dict[Ending | None, str] = {
    "completed": "keras-gpukit",
    "interrupted": "keras-gpukit, run interrupted",
    None: "keras-gpukit, how the run ended is unknown",
}
_INDENT = 2
_REASONS = 2
_OTHERS = 2
_LEAST_SAVING = 0.05
"""Least share of the run that a remark next to the verdict would save; our choice."""


def print_summary(summary: RunSummary, console: Console | None = None, **options: Any) -> None:
    """Prints the verdict on a run as a panel, to standard output by default; see `render`."""
    print_anywhere(render(summary, **options), console)


def render(
    summary: RunSummary,
    log_dir: Path | None = None,
    *,
    details: bool = False,
    title: str | None = None,
    name: str | None = None,
    again: str | None = None,
) -> RenderableType:
    """Returns the panel: the verdict, why, what to do next, and below them the run's figures.

    The other findings are one line: users change one thing at a time, and the next run has its own
    verdict. With `details`, each has its figures and all advice. The title says how the run ended,
    and which of several it was, if its name is given. `again` is the command that runs the script
    with a profile.
    """
    lines: list[RenderableType] = [_verdict(summary, again)]
    correction = phrases.correction(summary)
    if details:
        figures = ", ".join(phrases.headline(summary)) or "Nothing was measured."
        shown = (figures, phrases.time_spent(summary), summary.verdict.context, correction)
        lines += ["", *(plain(text) for text in shown if text), *_details(summary)]
    else:
        # Of a script without a run, the verdict says everything.
        nothing = "Nothing was measured." if summary.script is None else ""
        figures = phrases.in_short(summary) or nothing
        lines += _dim(_others(summary), figures, summary.verdict.context, correction)
    captured = phrases.captured(summary, reasons=details)
    step = None if summary.profile is None else captured_step(summary.profile)
    measured = (near_the_limits(summary), step, phrases.compared(summary), captured)
    lines += _dim(*measured)
    if log_dir is not None:
        command = f"keras-gpukit report {shlex.quote(str(log_dir))}"
        if is_notebook():  # it opens no file, but shows the page in its output
            command = f"keras_gpukit.load_report({str(log_dir)!r})"
        where = ", in a cell" if is_notebook() else ""
        lines += _dim(f"Report with charts{where}: {command}")
    ended = _TITLES[summary.ending] if summary.killed_in is None else "keras-gpukit, run killed"
    return panel(lines, ", ".join(filter(None, (title or ended, name))))


def _dim(*texts: str | None) -> list[RenderableType]:
    return [plain(text, style="dim") for text in texts if text]


def _verdict(summary: RunSummary, again: str | None) -> RenderableType:
    """Returns the three lines that a person reads first."""
    worst = run_words.worst(summary)
    if worst is None:
        more = run_words.see_more(summary, again)
        rows = [("Verdict", run_words.all_well(summary)), ("Next", more)]
        style = "green" if run_words.is_judged(summary) and more is None else ""
    else:
        why = evidence_sentences(worst)
        shown = why[:_REASONS] + (why[_REASONS:][-1:] if worst.defined else ())
        rows = [("Verdict", worst.title), ("Why", " ".join(shown))]
        rows.append(("Next", worst.advice[0] if worst.advice else None))
        saves = capitalized(saved(worst.saving)) if worst.saving else None
        rows.append(("", saves))
        style = _STYLES[worst.severity]
    table = Table.grid(padding=(0, 1))
    for name, words in rows:
        if words:
            # Plain text throughout: names from a model must not be parsed as markup.
            text = plain(words, style=style)
            if name == "Verdict" and worst is not None:
                text.append(f" ({worst.code})", style="dim")
            table.add_row(plain(name, style="bold"), text)
        style = ""
    return table


def _others(summary: RunSummary) -> str | None:
    worst = run_words.worst(summary)
    titles = [
        finding.title
        for finding in summary.findings
        if finding is not worst and not (finding.severity == "info" and _saves_little(finding))
    ]
    left_out = len(titles) - _OTHERS
    shown = [*titles[:_OTHERS], *([f"{left_out} more in the report"] if left_out > 0 else [])]
    return f"Also: {'; '.join(shown)}" if shown else None


def _saves_little(finding: Finding) -> bool:
    saving = finding.saving
    return saving is not None and saving.expected_s < _LEAST_SAVING * saving.of_s


def _details(summary: RunSummary) -> Iterator[RenderableType]:
    """Yields every finding with its figures and advice, then how many checks don't apply."""
    for finding in summary.findings:
        heading = plain(f"{finding.severity}: {finding.title}", style=_STYLES[finding.severity])
        heading.append(f" ({finding.code})", style="dim")
        yield from ("", heading)
        for line in (in_one_line(finding), *(f"- {advice}" for advice in finding.advice)):
            if line:
                yield Padding(plain(line), (0, 0, 0, _INDENT))
    for counted in _dim(checks(summary.verdict)):
        yield from ("", counted)


show_as(RunSummary, render)
