"""Reads the runs and profiles of a log folder, and again whenever records have grown."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import msgspec

from keras_gpukit.records.codec import checked_record
from keras_gpukit.records.names import (
    FOLDER,
    MOST_FOLDERS,
    PROFILE_SUFFIX,
    RUN_FILE,
    RUN_FILE_OF_ANY,
    SCRIPT_FILE,
    find_profiles,
    find_run_files,
    readable,
)
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.report import CaptureReport, Report, RunReport
from keras_gpukit.records.script import ScriptRecord
from keras_gpukit.rules.verdict import ENDED_BY, judge_run, of_profile
from keras_gpukit.saved_runs.run_file import (
    MOST_DETAILED,
    MOST_LISTED,
    RunFile,
    without_time_series,
)
from keras_gpukit.saved_runs.worker_figures import with_comparisons
from keras_gpukit.version import __version__

MOST_FILES = 500
MOST_READ = 12
"""Number of newest profiles that are read; ten steps take some tenths of a second to read."""


def captures_under(root: Path) -> dict[Path, CaptureReport]:
    """Returns the captures under a folder by file, the oldest first.

    Only the newest `MOST_READ` are read; the others have `unread_because`.
    """
    files = sorted(map(_stamped, find_profiles(root)), key=lambda file: file[2])
    older = {
        path: CaptureReport(_name(path), unread_because=f"only the newest {MOST_READ} are")
        for path, _, _ in files[:-MOST_READ]
    }
    return older | {file[0]: _read(*file) for file in files[-MOST_READ:]}


@functools.lru_cache(maxsize=4 * MOST_READ)
def _read(path: Path, size: int, changed_ns: int) -> CaptureReport:
    """Reads a profile; again once its size or time has changed."""
    from keras_gpukit.profiling import read_profile

    try:
        return CaptureReport(_name(path), profile=read_profile(path))
    except Exception as error:  # the file may hold anything, and other profiles are still readable
        return CaptureReport(_name(path), unread_because=str(error) or type(error).__name__)


def _stamped(path: Path) -> tuple[Path, int, int]:
    try:
        status = path.stat()
    except OSError:  # the file was deleted in the meantime
        return path, 0, 0
    return path, status.st_size, status.st_mtime_ns


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(PROFILE_SUFFIX)}"


class LogFolder:
    """Reads the runs under a folder. Each further report reads only what was added since.

    The newest `MOST_DETAILED` runs are read in full. Older runs have only their summary. The folder
    is that of a run, or contains several of them at any depth.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._files: dict[Path, RunFile] = {}
        self._in_full: set[Path] = set()
        self._lock = threading.Lock()

    def report(self) -> Report:
        """Returns the current state of all runs, as `load_report` does. Thread-safe."""
        with self._lock:
            return self._report(time.time())

    def _report(self, now_s: float) -> Report:
        if not self.path.is_dir():
            if not self.path.exists():
                raise FileNotFoundError(f"There is no folder {str(self.path)!r}.")
            raise NotADirectoryError(f"{self.path} is a file; give the folder that was `log_dir`.")
        files, everywhere = find_run_files(self.path)
        captures = captures_under(self.path)
        if not files and not captures:
            raise FileNotFoundError(
                f"No run was found under {self.path}: there is neither {FOLDER}/{RUN_FILE} nor a "
                f"profile. Give the folder that was `log_dir` of a callback, such as "
                f'keras_gpukit.Monitor("logs"), or one above it.'
            )
        notes = []
        if not everywhere:
            notes.append(f"Only the first {MOST_FOLDERS:,} folders were looked into.")
        if len(files) > MOST_FILES:
            notes.append(f"Only the newest {MOST_FILES} of {len(files):,} records are shown.")
            files = sorted(files, key=lambda path: _stamped(path)[2])[-MOST_FILES:]
        runs = self._runs(files, captures, now_s, notes)
        script = _script(self.path / FOLDER / SCRIPT_FILE)
        runs = self._within_scripts(runs) if script is None else within_script(script, runs)
        if len(runs) > MOST_LISTED:
            notes.append(f"Only the newest {MOST_LISTED} runs are shown.")
        return Report(
            log_dir=readable(self.path),
            made_s=now_s,
            version=__version__,
            runs=tuple(
                run if position < MOST_DETAILED else without_time_series(run, position)
                for position, run in enumerate(runs[:MOST_LISTED])
            ),
            captures=tuple(
                replace(report, verdict=of_profile(report.profile).verdict)
                if report.profile
                else report
                for report in captures.values()
            ),
            notes=tuple(notes),
            script=script,
        )

    def _within_scripts(self, runs: list[RunReport]) -> list[RunReport]:
        """Judges the newest runs by their scripts, whose folders are below this one."""
        folders = [PurePosixPath(run.folder) for run in runs]
        above = {path for folder in folders[:MOST_DETAILED] for path in (folder, *folder.parents)}
        for root in above - {PurePosixPath()}:
            script = _script(self.path / root / FOLDER / SCRIPT_FILE)
            if script is not None:
                ours = [n for n, folder in enumerate(folders) if folder.is_relative_to(root)]
                judged = within_script(script, [runs[place] for place in ours])
                for place, run in zip(ours, judged, strict=True):
                    runs[place] = run
        return runs

    def _runs(
        self,
        files: list[Path],
        captures: dict[Path, CaptureReport],
        now_s: float,
        notes: list[str],
    ) -> list[RunReport]:
        """Reads runs and returns them, the newest first.

        Removes the profiles of these runs from `captures`. Adds read errors to `notes`.
        """
        self._files = {
            path: self._files.get(path)
            or RunFile(path, _run_name(self.path, path), readable(_folder_of(self.path, path)))
            for path in files
        }
        found: dict[Path, tuple[RunReport, ...]] = {}

        def read_runs(path: Path) -> None:
            try:
                found[path] = self._files[path].runs(now_s, in_full=path in self._in_full)
            except OSError as error:
                notes.append(f"{_run_name(self.path, path)} could not be read: {error}.")

        if len(files) <= MOST_DETAILED:
            self._in_full = set(files)
        for path in files:
            read_runs(path)
        newest = _newest_first(found)[:MOST_DETAILED]
        before, self._in_full = self._in_full, {path for path, _ in newest}
        for path in (before ^ self._in_full) & found.keys():
            read_runs(path)
        newest_runs = [
            (path.parent, _with_profiles(run, path.parent.parent, captures))
            for path, run in _newest_first(found)
        ]
        by_folder: dict[Path, list[RunReport]] = {}
        for folder, run in newest_runs:
            by_folder.setdefault(folder, []).append(run)
        compared = {folder: iter(with_comparisons(of)) for folder, of in by_folder.items()}
        return [next(compared[folder]) for folder, _ in newest_runs]


def fits_of(runs: Sequence[RunReport]) -> Sequence[RunReport]:
    """Returns the runs without those of workers that have a chief."""
    return [run for run in runs if run.is_chief] or runs


def main_run(runs: Sequence[RunReport]) -> tuple[RunReport, str]:
    """Returns which of a script's runs, the newest first, stands for it, and that in words."""
    fits = fits_of(runs)
    if any(finding.code in ENDED_BY for finding in fits[0].summary.findings):
        return fits[0], "last"
    # A process that was killed and restarted has left an unfinished run.
    ended = [run for run in fits if run.state != "unfinished"] or fits
    longest = max(ended, key=lambda run: (run.ended_s or 0.0) - (run.began_s or 0.0))
    return longest, "longest" if len(ended) == len(fits) else "longest that ended"


def within_script(script: ScriptRecord, runs: Sequence[RunReport]) -> list[RunReport]:
    """Judges the runs of a script again, by what is known of all of it.

    Findings on the script itself are in the verdict on its main run only.
    """
    if not runs:
        return []
    main, _ = main_run(runs)
    newest = fits_of(runs)[0].summary.memory
    judged = []
    for run in runs:
        summary = run.summary
        if run is main:
            # The newest fit has the readings of memory after all fits of the process.
            if summary.memory is not None and newest is not None:
                summary = replace(summary, memory=replace(summary.memory, fits=newest.fits))
            summary = judge_run(replace(summary, script=script))
        else:
            summary = judge_run(summary, within=script)
        judged.append(replace(run, summary=summary))
    return judged


def load_report(path: str | os.PathLike[str]) -> Report:
    """Reads the runs under a log folder; runs in progress are included.

    A notebook cell that ends with the report shows its page, which needs no network, in the output.
    `print` shows the newest verdicts.

    Args:
        path: The `log_dir` of a run, or a folder above several.

    Returns:
        A `Report`, with the newest run first in `runs`.

    Raises:
        FileNotFoundError: If the folder does not exist, or contains no run and no profile.
        NotADirectoryError: If the path is a file.
    """
    import keras_gpukit.reports.html  # noqa: F401  how notebooks show it

    return LogFolder(path).report()


def _script(path: Path) -> ScriptRecord | None:
    with contextlib.suppress(OSError, ValueError):  # also of damaged JSON
        if path.is_symlink() or path.parent.is_symlink():
            return None  # of another folder
        return checked_record(msgspec.Raw(path.read_bytes()), ScriptRecord)
    return None


def _with_profiles(run: RunReport, log_dir: Path, profiles: dict[Path, CaptureReport]) -> RunReport:
    """Adds profiles to the captures of a run, and removes them from `profiles`.

    The verdict is then also on a profile that the run itself did not read.
    """
    captures = []
    for report in run.captures:
        path = report.capture.path if report.capture else None
        # Read only profiles found under the folder: the path in the record may be anything.
        profile = profiles.pop(log_dir / path, None) if path else None
        captures.append(replace(profile, capture=report.capture) if profile else report)
    summary, usual = run.summary, _of_usual_steps(captures)
    seen = summary.profile
    if usual is not None and (seen is None or (usual.layers and not seen.layers)):
        summary = judge_run(replace(summary, profile=usual))
    return replace(run, summary=summary, captures=tuple(captures))


def _of_usual_steps(captures: list[CaptureReport]) -> ProfileRecord | None:
    """Returns the newest profile with steps, if possible not of steps that became slower."""
    read = [
        report for report in captures if report.capture and report.profile and report.profile.steps
    ]
    usual = [report for report in read if report.capture and report.capture.trigger != "step time"]
    return next((report.profile for report in reversed(usual or read)), None)


def _run_name(root: Path, file: Path) -> str:
    """Returns the name of a record's runs: their log folder, relative to the root.

    The name also has the worker and the process, if the name of the record file has them.
    """
    log_dir = file.parent.parent
    name = _folder_of(root, file) or log_dir.resolve().name or str(log_dir)
    named = RUN_FILE_OF_ANY.fullmatch(file.name)
    worker, process = named.group("worker", "process") if named else (None, None)
    if worker is not None:
        name += ", evaluator" if worker == "evaluator" else f", worker {worker}"
    if process is not None:
        name += f", process {process}"
    return readable(name)


def _folder_of(root: Path, file: Path) -> str:
    """Returns a record's log folder relative to the root; "" if they are the same."""
    log_dir = file.parent.parent
    below = log_dir.relative_to(root) if log_dir.is_relative_to(root) else Path()
    return below.as_posix() if below.parts else ""


def _newest_first(found: dict[Path, tuple[RunReport, ...]]) -> list[tuple[Path, RunReport]]:
    runs = [(path, run) for path, of_file in found.items() for run in of_file]
    return sorted(runs, key=lambda run: run[1].began_s or 0.0, reverse=True)
