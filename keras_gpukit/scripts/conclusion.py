"""Conclusion at the end of a script's process: prints the verdict, and where the report is."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from keras_gpukit.monitoring.sampling import STACKS
from keras_gpukit.scripts.custom_loop import TO_SEE_MORE, OwnLoops
from keras_gpukit.scripts.main_module import failures
from keras_gpukit.scripts.run_folder import RunFolder
from keras_gpukit.scripts.watched_fits import WatchedFits

if TYPE_CHECKING:
    from keras_gpukit.records.report import Report, RunReport
    from keras_gpukit.records.run import RunSummary
    from keras_gpukit.records.script import ScriptError, ScriptRecord
    from keras_gpukit.scripts.started_processes import StartedProcesses

_MOST_EACH = 5
"""Number of fits up to which each one gets a line."""
REPORT = "report.html"


@dataclass(eq=False)
class Conclusion:
    """Prints the verdict on standard error, and writes the report next to the records.

    Args:
        loops: The script's own loops over datasets, reported if it calls no `fit`; by default none.
        imports_s: Returns the seconds in which TensorFlow and Keras were imported; None if this
            process runs no script itself.
        chief_reports: Whether the job's chief reports on this worker, too.
        started: The Python processes that the script starts; None if they are not counted.
        follows: Whether they are monitored, too.
        again: Command that runs the script with a profile; None if it is unknown.
    """

    fits: WatchedFits
    folder: RunFolder
    opens: bool
    command: str = "run"
    details: bool = False
    loops: OwnLoops = field(default_factory=OwnLoops)
    imports_s: Callable[[], float] | None = None
    chief_reports: bool = False
    started: StartedProcesses | None = None
    follows: bool = False
    again: str | None = None

    def __post_init__(self) -> None:
        self._began_s = time.time()
        self._process = os.getpid()
        self._started_in = os.getcwd()
        # The script may replace sys.stderr, even by its standard output. It is None if closed.
        self._error_output = sys.stderr or io.StringIO()

    def report(self) -> None:
        """Prints the conclusion at exit; changes neither the exit code nor standard output."""
        if os.getpid() != self._process:
            return  # a fork of the script, which ends before the script does
        with contextlib.suppress(Exception):
            sys.stdout.flush()  # the script's output comes first if both share a terminal
        with contextlib.suppress(Exception, KeyboardInterrupt):  # the stream may be closed
            try:
                self._report()
            except Exception as error:
                self._say(f"the report could not be made ({type(error).__name__}: {error}).")

    def _report(self) -> None:
        if self.chief_reports and self.folder.is_made:
            recorded = self._shown(self.folder.path())
            self._say(f"recorded in {recorded}; the chief reports on all workers.")
            return
        script = self._script()
        if self.follows and script is not None and not script.calls:
            script = None  # it waits for the processes that train, which is no finding
        own_loop = self._record_loop()
        if self.follows:
            self.folder.remove_if_empty()
        log_dirs = sorted(self.fits.own_log_dirs)
        if self.folder.is_made:
            log_dirs.insert(0, self.folder.path())
        if not log_dirs:
            self._report_that_nothing_was_seen()
            self._report_started()
            if script is not None and (script.calls or "tensorflow" in sys.modules):
                self._print_script(script)
            return
        report = _read(log_dirs, self._began_s)
        if script is not None:
            _write_script(script, self.folder.path())
        if report is None:
            self._say("nothing was recorded; a warning above says why.")
            return
        if script is not None:
            from keras_gpukit.reports.phrases import account
            from keras_gpukit.saved_runs.log_folder import within_script

            runs = tuple(within_script(script, report.runs))
            report = replace(report, script=script, runs=runs)
        path = self.folder.path() / REPORT
        try:
            _write(report, path)  # first, since printing may fail
        finally:
            self._print_verdicts(report)
        if own_loop is not None:
            from keras_gpukit.rules.whole_run.whole_script import PROFILE, TRACE

            self._print(TO_SEE_MORE.format(place=own_loop, profile=PROFILE, trace=TRACE))
        self._print(f"Report: {self._shown(path)}")
        for log_dir in log_dirs:
            self._print(f"TensorBoard: tensorboard --logdir {self._shown(log_dir)}")
        self._report_started()
        if script is not None:
            self._print(f"{account(script)}.")
        if self.opens:
            _open_in_browser(path)

    def record_own_loop(self) -> None:
        """Records what is only known at exit; another process reports it."""
        if os.getpid() == self._process:
            with contextlib.suppress(Exception, KeyboardInterrupt):
                self._record_loop()

    def _report_started(self) -> None:
        """Says which line started other Python processes, if any did."""
        if self.started and (sentence := self.started.sentence(follows=self.follows)):
            self._print(sentence)

    def _record_loop(self) -> str | None:
        """Records the longest loop of the script's own; returns its place, None without one."""
        if self.fits.count or self.fits.has_own:
            return None
        summary = self.loops.summary()
        if summary is None:
            return None
        from keras_gpukit.monitoring.run_output import RunOutput

        output = RunOutput(self.folder.named("own-loop"))
        output.start(None)
        output.write_record("environment", summary.environment, 0)
        output.write_record("summary", summary, summary.steps)
        output.close()
        return self.loops.place

    def _report_that_nothing_was_seen(self) -> None:
        keras = sys.modules.get("keras")
        if keras is not None and keras.backend.backend() != "tensorflow":
            name = keras.backend.backend()
            self._say(f"Keras runs on {name}; only the TensorFlow backend can be monitored.")
        elif keras is None and "tf_keras" in sys.modules:
            self._say("this script uses tf_keras (Keras 2); only Keras 3 can be monitored.")
        elif keras is not None and not self.fits.has_own and not failures:
            self._say("the script called no fit(), so nothing was monitored.")
        elif keras is None and not failures:
            self._say("this script loaded no Keras, so nothing was monitored.")

    def _script(self) -> ScriptRecord | None:
        """Returns where the time of this process went until now; None if it ran no script."""
        if self.imports_s is None:
            return None
        import psutil

        calls = self.fits.calls
        record = calls.script_record(psutil.Process().create_time(), self.imports_s())
        STACKS.release()
        # Next to a `fit`, a loop over a dataset is one of the script's lines.
        own = self.loops.eager.span_s if self.fits.count else self.loops.span_s
        first_s = calls.first_began_s
        begins = [at_s for at_s in (first_s, own[0] if own else None) if at_s is not None]
        begin_s = min(begins, default=time.perf_counter())
        lines = functools.partial(
            STACKS.sampler.times,
            parts=("script",),
            thread=threading.main_thread().ident,
            outside_calls=True,
        )
        return replace(
            record,
            ended_by=self._ended_by(),
            before=lines(until_s=begin_s).lines,
            rest=lines(own[1] if own else begin_s).lines,
            profiles=self.fits.profiles.profile_records(),
            eager_step=self.loops.eager.longest_step(STACKS.sampler),
            retraced=self.loops.retraced(),
        )

    def _ended_by(self) -> ScriptError | None:
        ended, failed = next(iter(failures), None), self.fits.calls.failed
        if ended is None or failed is None or failed.place != ended.line:
            return ended
        return replace(
            ended,
            method=failed.method,
            batches_done=failed.batches_done,
            batches=failed.batches,
        )

    def _print_script(self, script: ScriptRecord) -> None:
        """Prints the verdict on a script without a monitored fit, if there is any."""
        from keras_gpukit.reports.phrases import account
        from keras_gpukit.rules.verdict import of_script

        summary = of_script(script)
        if summary.findings:
            self._print_panel(summary)
        if script.calls or summary.findings:
            self._print(f"{account(script)}.")

    def _print_panel(self, summary: RunSummary, name: str | None = None) -> None:
        from keras_gpukit.reports.console import print_summary
        from keras_gpukit.reports.terminal import PipedConsole

        console = PipedConsole(file=self._error_output)
        print_summary(summary, console, details=self.details, name=name, again=self.again)

    def _print_verdicts(self, report: Report) -> None:
        """Prints the verdict on the script's calls and the longest run, then lines on others."""
        from keras_gpukit.records.profile import ProfilerRecord
        from keras_gpukit.reports.run_words import verdict_lines, worst
        from keras_gpukit.rules.whole_run.starting_again import ManyShortCalls
        from keras_gpukit.saved_runs.log_folder import fits_of, main_run

        fits = fits_of(report.runs)
        longest, which = main_run(report.runs)
        if len(fits) > 1:
            count = max(self.fits.count, len(fits))
            called = report.script.fits if report.script else 0
            of_all = f" of {called}" if called > count else ""
            self._print(f"{count}{of_all} fits were monitored; the {which} is {longest.name}:")
        captures = tuple(entry.capture for entry in longest.captures if entry.capture is not None)
        summary = longest.summary
        known = summary.captures or ProfilerRecord()  # with the reason for none
        name = longest.name if len(fits) > 1 else None
        self._print_panel(replace(summary, captures=replace(known, captures=captures)), name)
        is_script = any(finding.code == ManyShortCalls.code for finding in summary.findings)
        is_many = is_script or len(fits) > _MOST_EACH
        titles = {finding.title for finding in summary.findings}

        def is_news(run: RunReport) -> bool:
            """Returns whether it adds to the panel; of many fits, remarks on each do not."""
            finding = worst(run.summary)
            if finding is None or finding.severity == "info":
                return not is_many
            return not is_many or finding.title not in titles

        others = tuple(run for run in report.runs if run is not longest and is_news(run))
        for line in verdict_lines(replace(report, runs=others)):
            self._print(line)

    def _say(self, message: str) -> None:
        self._print(f"keras-gpukit {self.command}: {message}")

    def _print(self, line: str) -> None:
        from keras_gpukit.reports.units import printable

        print(printable(line), file=self._error_output)

    def _shown(self, path: Path) -> str:
        """Returns a path relative to the folder where the script started, if it is inside.

        The script may have changed the current folder since.
        """
        relative = os.path.relpath(path, self._started_in)
        return str(path) if relative.startswith(os.pardir) else relative


def _read(log_dirs: list[Path], since_s: float) -> Report | None:
    """Returns the runs since a time, newest first; None if there are no runs."""
    from keras_gpukit.saved_runs.log_folder import load_report

    reports = []
    for log_dir in log_dirs:
        with contextlib.suppress(OSError):  # a callback of the script has written nothing
            reports.append(load_report(log_dir))
    runs = [run for report in reports for run in report.runs if (run.began_s or 0.0) >= since_s]
    if not runs:
        return None
    runs.sort(key=lambda run: run.began_s or 0.0, reverse=True)
    notes = tuple(note for report in reports for note in report.notes)
    return replace(reports[0], runs=tuple(runs), notes=notes)


def _write_script(script: ScriptRecord, folder: Path) -> None:
    import msgspec

    from keras_gpukit.records.names import FOLDER, SCRIPT_FILE
    from keras_gpukit.whole_files import replace_file

    (folder / FOLDER).mkdir(exist_ok=True)
    replace_file(folder / FOLDER / SCRIPT_FILE, msgspec.json.encode(script))


def _write(report: Report, path: Path) -> None:
    from keras_gpukit.reports.html import render
    from keras_gpukit.whole_files import replace_file

    replace_file(path, render(report).encode("utf-8"))


def _open_in_browser(path: Path) -> None:
    """Opens a page in a browser; the output of the browser's command goes to standard error."""
    import webbrowser

    output = os.dup(1)
    os.dup2(2, 1)
    try:
        webbrowser.open(path.absolute().as_uri())
    finally:
        os.dup2(output, 1)
        os.close(output)
