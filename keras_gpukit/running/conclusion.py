"""What is said when the process of a script ends: the verdict, and where the report is."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keras_gpukit.running.run_folder import RunFolder
from keras_gpukit.running.watched_fits import WatchedFits

if TYPE_CHECKING:
    from keras_gpukit.records.report import Report, RunReport

_VERDICTS_LISTED = 5
REPORT = "report.html"


class Conclusion:
    """Prints the verdict on standard error, and writes the report next to the records.

    Args:
        fits: What was watched.
        folder: Where the report is written.
        opens: Whether the report is opened in a browser.
    """

    def __init__(self, fits: WatchedFits, folder: RunFolder, *, opens: bool) -> None:
        self._fits = fits
        self._folder = folder
        self._opens = opens
        self._began_s = time.time()
        self._process = os.getpid()

    def tell(self) -> None:
        """Called when the process ends; changes neither its exit code nor its standard output."""
        if os.getpid() != self._process:
            return  # a fork of the script, which ends before the script does
        with contextlib.suppress(Exception):
            sys.stdout.flush()  # what the script printed comes first, where both are one terminal
        try:
            self._tell()
        except KeyboardInterrupt:
            pass
        except Exception as error:
            _say(f"the report could not be made ({type(error).__name__}: {error}).")

    def _tell(self) -> None:
        if not self._fits.count and not self._fits.own_log_dirs:
            self._tell_that_there_is_nothing()
            return
        report = self._report()
        if not report.runs:
            _say("nothing was recorded; a warning above says why.")
            return
        _print_verdicts(report.runs)
        path = self._folder.path() / REPORT
        _write(report, path)
        print(f"Report: {_shown(path)}", file=sys.stderr)
        print(f"TensorBoard: tensorboard --logdir {_shown(path.parent)}", file=sys.stderr)
        if self._opens:
            _open_in_browser(path)

    def _tell_that_there_is_nothing(self) -> None:
        keras = sys.modules.get("keras")
        if keras is not None and keras.backend.backend() != "tensorflow":
            name = keras.backend.backend()
            _say(f"Keras runs on {name}; only fits on the TensorFlow backend can be monitored.")
        elif keras is None and "tf_keras" in sys.modules:
            _say("this script uses tf_keras (Keras 2); only fits of Keras 3 can be monitored.")
        elif keras is not None and not self._fits.has_own:
            _say("the script called no fit(), so nothing was monitored.")

    def _report(self) -> Report:
        """The runs of this process, also those that the script's own callbacks recorded."""
        from keras_gpukit.saved_runs import load_report

        log_dirs = [*([self._folder.path()] if self._fits.count else []), *self._own_log_dirs()]
        reports = []
        for log_dir in log_dirs:
            with contextlib.suppress(OSError):
                reports.append(load_report(log_dir))
        runs = [
            run for each in reports for run in each.runs if (run.began_s or 0.0) >= self._began_s
        ]
        runs.sort(key=lambda run: run.began_s or 0.0, reverse=True)
        notes = tuple(note for each in reports for note in each.notes)
        return replace(reports[0], runs=tuple(runs), notes=notes) if reports else _empty()

    def _own_log_dirs(self) -> list[Path]:
        return sorted(self._fits.own_log_dirs)


def _print_verdicts(runs: tuple[RunReport, ...]) -> None:
    """The whole verdict on the longest run, and a line for each other verdict."""
    from rich.console import Console

    from keras_gpukit.records.capture import ProfilerRecord
    from keras_gpukit.reports.console import print_summary
    from keras_gpukit.reports.html.words import verdict_line

    longest = max(runs, key=lambda run: (run.ended_s or 0.0) - (run.began_s or 0.0))
    if len(runs) > 1:
        print(f"{len(runs)} fits were monitored; the longest is {longest.name}:", file=sys.stderr)
    captures = tuple(each.capture for each in longest.captures if each.capture is not None)
    summary = replace(longest.summary, captures=ProfilerRecord(captures))
    print_summary(summary, Console(stderr=True))
    names = defaultdict(list)
    for run in runs:
        if run is not longest:
            names[verdict_line(run)].append(run.name)
    for verdict, those in list(names.items())[:_VERDICTS_LISTED]:
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        print(f"{those[-1]}{more}: {verdict}", file=sys.stderr)
    if len(names) > _VERDICTS_LISTED:
        print(f"and {len(names) - _VERDICTS_LISTED} other verdicts", file=sys.stderr)


def _write(report: Report, path: Path) -> None:
    from keras_gpukit.reports.html import render
    from keras_gpukit.writers.whole_files import replace_file

    replace_file(path, render(report).encode("utf-8"))


def _open_in_browser(path: Path) -> None:
    """Opens a page; what the browser's command prints goes to standard error."""
    import webbrowser

    output = os.dup(1)
    os.dup2(2, 1)
    try:
        webbrowser.open(path.absolute().as_uri())
    finally:
        os.dup2(output, 1)
        os.close(output)


def _shown(path: Path) -> str:
    """A path as one would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def _empty() -> Report:
    from keras_gpukit.records.report import Report
    from keras_gpukit.version import __version__

    return Report(log_dir="", made_s=time.time(), version=__version__)


def _say(message: str) -> None:
    print(f"keras-gpukit run: {message}", file=sys.stderr)
