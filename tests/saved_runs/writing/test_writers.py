"""What is written of a run: read back, cut short, and on disks that take no more."""

import csv
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from pathlib import Path

import pytest
from helpers.processes import wait_for
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from keras_gpukit.records import SCHEMA, Hang, HostSample, PlacementRecord, StepWindow
from keras_gpukit.saved_runs import writing
from keras_gpukit.saved_runs.folding.tags import tags_of
from keras_gpukit.saved_runs.writing import Record, Writer
from keras_gpukit.saved_runs.writing.run_log import WRITERS, EventFile, JsonLines, RunLog


@pytest.fixture(autouse=True)
def _quick_flushes(monkeypatch):
    monkeypatch.setattr(writing, "FLUSH_EVERY_S", 0.01)


def event_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("events.out.tfevents.*"))


def loaded(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Event files


def test_tensorboard_reads_scalars_at_their_steps_and_times_and_texts(tmp_path):
    file = EventFile(tmp_path)
    file.write_records([Record(12.0, 64, "steps", StepWindow("fit", 10.5, 64, 4, 0.005, 0.002))])
    validation = Record(12.0, 9, "steps", StepWindow("evaluate", 12.0, 9, 4, 0.005))
    window = Record(12.0, 128, "steps", StepWindow("fit", 11.5, 128, 4, 0.006))
    text = Record(1.0, 3, "placement", PlacementRecord(unknown_because="of µs"))
    file.write_records([validation, window, text])
    file.close()
    found = loaded(tmp_path)
    assert [(e.wall_time, e.step, e.value) for e in found.Scalars("step/time_ms")] == [
        (10.5, 64, 1.25),
        (11.5, 128, 1.5),
    ]
    assert [e.value for e in found.Scalars("input/wait_ms")] == [0.5]
    assert found.SummaryMetadata("placement").plugin_data.plugin_name == "text"
    (event,) = found.Tensors("placement")
    assert "unknown: of µs" in event.tensor_proto.string_val[0].decode()
    (path,) = event_files(tmp_path)
    assert next(iter(EventFileLoader(str(path)).Load())).file_version == "brain.Event:2"
    for _ in range(3):
        EventFile(tmp_path).close()
    assert len(event_files(tmp_path)) == 1 + 3  # those of one second share no name


# JSON lines


def test_runs_follow_one_another_each_led_by_the_schema(tmp_path):
    for cpu_percent in (10.0, None):
        log = RunLog(tmp_path)
        log.write_record("host", HostSample(cpu_percent, memory_bytes=7), step=9)
        log.close()
    written = lines(tmp_path / "gpukit" / "run.jsonl")
    assert [line["kind"] for line in written] == ["run", "host", "run", "host"]
    assert written[0]["record"]["schema"] == SCHEMA
    assert [written[i]["record"]["cpu_percent"] for i in (1, 3)] == [10.0, None]
    assert [line["step"] for line in written] == [None, 9, None, 9]
    times_s = [line["time_s"] for line in written]
    assert times_s == sorted(times_s)
    assert abs(times_s[0] - time.time()) < 60


def test_a_line_torn_by_a_crash_spoils_no_line_of_the_next_run(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"kind": "run", "record": {}}\n{"kind": "ho')
    file = JsonLines(path)
    file.write_records([(1.0, None, "run", {"schema": SCHEMA})])
    file.close()
    whole, torn, after = path.read_text().splitlines()
    assert json.loads(whole)["kind"] == "run"
    assert torn == '{"kind": "ho'
    assert json.loads(after)["record"] == {"schema": SCHEMA}


# The log


def test_what_is_written_can_be_read_while_the_run_goes_on(tmp_path):
    log = RunLog(tmp_path)
    log.write_record("host", HostSample(1.0), 1)
    wait_for(lambda: event_files(log.folder) and loaded(log.folder).Tags()["scalars"])
    log.close()


def test_a_closed_log_stays_closed_and_keeps_nothing(tmp_path):
    """A full disk early in a long run must not fill the memory as well."""
    log = RunLog(tmp_path)
    log.write_record("host", HostSample())
    log.close()
    before = (log.folder / "run.jsonl").read_bytes()
    log.close()
    sample = HostSample(1.0)
    log.write_record("host", sample, 1)
    kept = weakref.ref(sample)
    del sample
    assert kept() is None
    log.close()
    assert (log.folder / "run.jsonl").read_bytes() == before
    assert loaded(log.folder).Tags()["scalars"] == []


def test_writing_leaves_no_thread_and_no_open_file_and_is_charged_to_the_cost_of_watching(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        log = RunLog(tmp_path)
        log.write_record("host", HostSample(1.0), 1)
        log.close()
    assert "gpukit-writer" not in {thread.name for thread in threading.enumerate()}
    assert not [path for path in open_files() if str(tmp_path) in path]
    log = RunLog(tmp_path)
    log.write_record("hang", Hang(1.0, 1, "x" * 100_000, "idle"))
    log.close()
    assert log.cpu_s > 0


def open_files() -> list[str]:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    return [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.exists()]


# A writer of one's own


class CSVFile(Writer):
    """A third writer: each figure in a row of a table."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = (folder / f"{name}.csv").open("w", newline="")
        self._rows = csv.writer(self._file)

    def write_records(self, records):
        for _, step, kind, record in records:
            self._rows.writerows((step, *tag) for tag in tags_of(kind, record).items())

    def close(self):
        self._file.close()


class Broken(Writer):
    closed = 0

    def __init__(self, folder: Path, name: str) -> None: ...

    def write_records(self, records):
        raise ConnectionError("the server is gone")

    def close(self):
        Broken.closed += 1


def test_a_third_writer_is_a_class_and_its_name(tmp_path):
    log = RunLog(tmp_path, writers=(*WRITERS, CSVFile))
    log.write_record("host", HostSample(1.5), 1)
    log.write_record("host", HostSample(), 2)  # what is unknown is left out
    log.write_record("host", HostSample(2.5), 3)
    log.close()
    table = (log.folder / "run.csv").read_text().split()
    assert table == ["1,host/cpu_percent,1.5", "3,host/cpu_percent,2.5"]
    shown = loaded(log.folder)
    assert shown.Tags()["scalars"] == ["host/cpu_percent"]
    assert [event.value for event in shown.Scalars("host/cpu_percent")] == [1.5, 2.5]
    written = [line["kind"] for line in lines(log.folder / "run.jsonl")]
    assert written == ["run", "host", "host", "host"]


def test_a_writer_that_fails_is_reported_once_and_stops_no_other(tmp_path, caplog):
    def refuses(folder, name):
        raise PermissionError("no account")

    log = RunLog(tmp_path, writers=(refuses, Broken, *WRITERS))
    wait_for(lambda: len(caplog.records) == 2)
    log.write_record("host", HostSample(10.0))
    log.close()
    assert [line["kind"] for line in lines(log.folder / "run.jsonl")] == ["run", "host"]
    assert [reason in caplog.text for reason in ("no account", "the server is gone")] == [True] * 2
    assert len(caplog.records) == 2
    assert Broken.closed == 1


# Disks that take no more


@pytest.mark.heavy
@pytest.mark.parametrize(
    "overflow",
    [
        'run_log.tags_of = lambda *_: {"a": flood}; log.write_record("host", HostSample(2.0), 2)',
        'log.write_record("hang", flood)',
    ],
)
def test_a_full_disk_is_said_once_and_leaves_whole_files(tmp_path, overflow):
    """Files may not outgrow a limit in a process of its own; its disk, so to speak, is full."""
    code = f"""
        import resource, signal, sys, time
        from pathlib import Path
        from keras_gpukit.saved_runs import writing
        from keras_gpukit.saved_runs.writing import run_log
        from keras_gpukit.records import HostSample

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        writing.FLUSH_EVERY_S = 0.01
        flood = "x" * 100_000
        log = run_log.RunLog(Path(sys.argv[1]))
        log.write_record("host", HostSample(1.0), 1)
        while not any(b"host/cpu_percent" in p.read_bytes() for p in log.folder.glob("events*")):
            time.sleep(0.01)
        {overflow}
        log.close()
        log.write_record("host", HostSample(2.0))
        log.close()
        print("alive")
    """
    done = run_python(code, tmp_path)
    assert done.stdout == "alive\n"
    assert done.stderr.count("Writing to") == 1
    assert "File too large" in done.stderr
    folder = tmp_path / "gpukit"
    assert [line["kind"] for line in lines(folder / "run.jsonl")][:2] == ["run", "host"]
    (path,) = event_files(folder)
    events = list(EventFileLoader(str(path)).Load())
    assert [event.step for event in events if event.summary.value] == [1]
    assert path.stat().st_size < 50_000


def test_taking_a_failed_write_back_spares_what_others_appended(tmp_path):
    code = """
        import resource, signal, sys
        from pathlib import Path
        from keras_gpukit.saved_runs.writing.run_log import JsonLines

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
        path = Path(sys.argv[1]) / "run.jsonl"
        mine, theirs = JsonLines(path), JsonLines(path)
        mine.write_records([(1.0, None, "mine", 1)])
        theirs.write_records([(1.0, None, "theirs", 2)])
        try:
            mine.write_records([(1.0, None, "mine", "x" * 2_000)])
        except OSError:
            print("full")
    """
    assert run_python(code, tmp_path).stdout == "full\n"
    assert [line["kind"] for line in lines(tmp_path / "run.jsonl")] == ["mine", "theirs"]


def test_a_disk_that_hangs_does_not_hold_the_run_up(tmp_path, monkeypatch, caplog):
    """Opening a pipe without a reader blocks, as a lost network disk does."""
    monkeypatch.setattr(writing, "CLOSE_WITHIN_S", 0.05)
    (tmp_path / "gpukit").mkdir()
    pipe = tmp_path / "gpukit" / "run.jsonl"
    os.mkfifo(pipe)
    log = RunLog(tmp_path)
    log.close()
    (warning,) = caplog.records
    assert "not done after" in warning.message
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # the disk is back: the thread ends
    monkeypatch.setattr(writing, "CLOSE_WITHIN_S", 30)
    log.close()
    assert b'"schema"' in os.read(reader, 1_000)
    os.close(reader)


# Ways out of a process


@pytest.mark.heavy
def test_a_forked_process_writes_nothing_to_its_parents_log(tmp_path):
    """Python data loaders fork workers out of a run that is being watched.

    A log that is never closed does not keep the process from ending, and none loads TensorFlow.
    """
    code = """
        import os, sys
        from pathlib import Path
        from keras_gpukit.records import HostSample
        from keras_gpukit.saved_runs.writing.run_log import RunLog
        log = RunLog(Path(sys.argv[1]))
        log.write_record("host", HostSample())
        child = os.fork()
        if not child:
            log.write_record("host", HostSample())
            log.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        log.close()
        assert "tensorflow" not in sys.modules
        RunLog(Path(sys.argv[1]) / "never closed").write_record("host", HostSample(1.0), 1)
    """
    run_python(code, tmp_path)
    written = lines(tmp_path / "gpukit" / "run.jsonl")
    assert [line["kind"] for line in written] == ["run", "host"]


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, with the folder as its argument."""
    command = [sys.executable, "-c", textwrap.dedent(code), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
