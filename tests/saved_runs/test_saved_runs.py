"""Runs read back: whole ones, running ones, many, and damaged ones."""

import json
import os
import random
import time
import tracemalloc
from dataclasses import replace

import msgspec
import pytest
from helpers.hostile import filled
from helpers.recorded_runs import (
    BEGAN_S,
    GIB,
    STEPS,
    SUMMARY,
    only_run,
    run_lines,
    window,
    write_lines,
)

from keras_gpukit.records import (
    MOST_COMPARED,
    CaptureRecord,
    ProfileRecord,
    Report,
    RunHeader,
    RunSummary,
    Series,
    to_dict,
)
from keras_gpukit.reports.html import render
from keras_gpukit.rules.whole_run.shifts import shifts_of
from keras_gpukit.saved_runs.folding.downsampling import MOST_POINTS, Downsampler
from keras_gpukit.saved_runs.log_folder import LogFolder, load_report, main_run
from keras_gpukit.saved_runs.run_file import LONGEST_BYTES, MOST_DETAILED, MOST_LISTED, RunFile

INTERRUPTED = replace(SUMMARY, ending="interrupted")


def appended(path, data: bytes):
    with path.open("ab") as file:
        file.write(data)


# Whole runs


def test_windows_written_together_stand_where_they_ended(tmp_path):
    written_s = BEGAN_S + 9
    lines = [(written_s, step, "steps", window(step // STEPS)) for step in (STEPS, 2 * STEPS)]
    ended_s = [line[3].time_s for line in lines]
    assert only_run(tmp_path, [run_lines()[0], *lines]).steps.time_s == tuple(ended_s)
    assert ended_s[0] < ended_s[1] < written_s


def test_a_run_is_read_back(tmp_path):
    run = only_run(tmp_path / "logs", run_lines())
    assert (run.name, run.state, run.phase, run.notes) == ("logs", "completed", "fit", ())
    assert run.summary == SUMMARY
    assert (run.began_s, run.ended_s) == (BEGAN_S, BEGAN_S + 61)
    assert run.steps.readings == len(run.steps.time_s) == 60
    assert run.steps.step[-1] == 60 * STEPS
    times = run.steps.figures["step_time_s"]
    assert times.high[6] == times.low[6] == times.mean[6] == times.highest == 0.125
    assert times.lowest == 0.025
    assert run.steps.figures["stall_fraction"].overall == pytest.approx(0.4)
    assert run.steps.figures["examples_per_s"].lowest == pytest.approx(32 * STEPS / 5)
    assert run.host.figures["cpu_percent"].highest == 32.0
    assert list(run.gpus) == ["0", "1"]
    assert run.gpus["1"].figures["power_watts"].overall == 400.0
    assert run.gpus["1"].figures["throttled"].overall is None
    assert run.memory["GPU:0"].figures["peak_bytes"].highest == pytest.approx(5 * GIB, rel=1e-5)
    assert only_run(tmp_path / "logs" / "gpukit").name == "logs"


def test_validation_is_not_taken_for_training_even_if_it_is_seen_first(tmp_path):
    lines = run_lines(4)
    lines.insert(6, (BEGAN_S + 2, 80, "steps", window(2, slow=100.0, phase="evaluate")))
    assert only_run(tmp_path / "later", lines).steps.readings == 4
    # With one step an epoch, the first window may be one of the validation.
    lines = run_lines(4, summary=None)
    lines[0] = (BEGAN_S, None, "run", RunHeader(1, BEGAN_S, phase="fit"))
    lines.insert(3, (BEGAN_S + 0.6, 1, "steps", window(1, slow=100.0, phase="evaluate")))
    run = only_run(tmp_path / "first", lines)
    assert run.phase == "fit"
    assert (run.steps.readings, run.validation.readings) == (4, 1)


def test_where_there_is_no_run_that_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere"):
        load_report(tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"No run was found under .*neither gpukit/run\.jsonl"
    ):
        load_report(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file; give the folder"):
        load_report(tmp_path / "file")


# Long runs


def test_each_point_of_a_long_run_has_the_lowest_and_highest_in_it():
    luck = random.Random(7)
    values = [luck.random() for _ in range(100_000)]
    points = Downsampler(("value",))
    for number, value in enumerate(values, start=1):
        points.add_reading(float(number), number, (value,))
    series = points.series()
    band, size = series.figures["value"], series.readings_per_point
    intervals = [values[begin : begin + size] for begin in range(0, len(values), size)]
    assert MOST_POINTS / 2 <= len(intervals) <= MOST_POINTS
    assert (series.readings, series.time_s[-1], series.step[-1]) == (100_000, 100_000.0, 100_000)
    assert series.step[0] == size
    assert band.low == pytest.approx([min(interval) for interval in intervals], rel=1e-5)
    assert band.high == pytest.approx([max(interval) for interval in intervals], rel=1e-5)
    means = [sum(interval) / len(interval) for interval in intervals]
    assert band.mean == pytest.approx(means, rel=1e-5)
    assert band.weight == tuple(map(len, intervals))
    assert band.overall == pytest.approx(sum(values) / len(values), rel=1e-5)


def test_means_are_weighted_and_gaps_stay_gaps():
    points = Downsampler(("value",), most_points=2)
    for value, weight in ((1.0, 1.0), (4.0, 3.0), (None, 5.0), (None, 5.0)):
        points.add_reading(1.0, None, (value,), (weight,))
    band = points.series().figures["value"]
    assert band.mean == (3.25, None)
    assert (band.low, band.high, band.weight) == ((1.0, None), (4.0, None), (4.0, 0.0))
    assert points.series() == points.series()


def test_memory_does_not_grow_with_the_run():
    def peak_bytes(windows: int) -> int:
        points = Downsampler(("one", "other"))
        tracemalloc.start()
        for number in range(windows):
            points.add_reading(float(number), number, (0.5, 2.0))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak_bytes(20_000) < 2 * peak_bytes(4_000)


# Several runs


def test_runs_of_one_folder_and_of_several_come_newest_first(tmp_path):
    for number, name in enumerate(("deep/b", "a", "c", "a")):
        write_lines(tmp_path / name, run_lines(3 + number, began_s=BEGAN_S + 100 * number))
    found = [(run.name, run.steps.readings) for run in load_report(tmp_path).runs]
    assert found == [("a #2", 6), ("c", 5), ("a", 4), ("deep/b", 3)]


def test_of_several_runs_the_longest_stands_for_their_script(tmp_path):
    run = only_run(tmp_path, run_lines())
    short = replace(run, ended_s=run.began_s + 5)
    assert main_run([short, run]) == (run, "longest")
    unfinished = replace(run, state="unfinished", ended_s=run.ended_s + 100)
    assert main_run([unfinished, short]) == (short, "longest that ended")


@pytest.mark.heavy
def test_of_many_runs_the_newest_are_told_in_full(tmp_path):
    total = MOST_LISTED + 5
    for number in range(total):
        write_lines(tmp_path, run_lines(2, began_s=BEGAN_S + 100 * number))
    in_file = RunFile(tmp_path / "gpukit" / "run.jsonl", "logs").runs(time.time())
    assert sum(run.has_time_series for run in in_file) <= MOST_DETAILED + 1
    report = load_report(tmp_path)
    assert len(report.runs) == MOST_LISTED
    detailed = [run for run in report.runs if run.has_time_series]
    assert detailed == list(report.runs[:MOST_DETAILED])
    assert all(run.steps for run in detailed)
    assert report.runs[-1].steps is None
    assert report.runs[-1].summary == SUMMARY
    assert report.notes == (f"Only the newest {MOST_LISTED} runs are shown.",)


def test_links_are_not_followed_and_pipes_and_folders_not_waited_for(tmp_path):
    write_lines(tmp_path / "elsewhere", run_lines(3))
    logs = tmp_path / "logs"
    (logs / "pipe" / "gpukit").mkdir(parents=True)
    (logs / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(logs / "pipe" / "gpukit" / "run.jsonl")
    (logs / "folder" / "gpukit" / "run.jsonl").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        load_report(logs)
    write_lines(logs / "good", run_lines(3))
    report = load_report(logs)
    assert ([run.name for run in report.runs], report.notes) == (["good"], ())


# Runs that go on


def now_lines(windows: int, summary: RunSummary | None = None):
    return run_lines(windows, summary=summary, began_s=time.time() - windows)


def test_a_running_run_is_read_on(tmp_path):
    path = write_lines(tmp_path, now_lines(20))
    data, folder, seen = path.read_bytes(), LogFolder(tmp_path), []
    path.write_bytes(b"")
    for begin in range(0, len(data), len(data) // 3):  # torn within lines
        appended(path, data[begin : begin + len(data) // 3])
        (run,) = folder.report().runs
        assert (run.state, run.notes) == ("running", ())
        seen.append(run.steps.readings)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == 20


def test_a_damaged_series_costs_its_line_alone(tmp_path):
    series = Series("step/time_ms", (1, 2), (1.0, 2.0), (25.0, 25.0), (40.0, 40.0))
    path = write_lines(tmp_path, run_lines(3, summary=replace(SUMMARY, series=(series,))))
    path.write_bytes(path.read_bytes().replace(b'"mean":[25.0,25.0]', b'"mean":[25.0]'))
    run = only_run(tmp_path)
    assert "The columns of the series 'step/time_ms' differ in length." in run.notes[0]
    assert run.steps.readings == 3
    assert shifts_of(run.summary) == ()


def test_of_older_runs_the_summary_is_kept_with_series_of_steps_only_if_they_can_be_compared(
    tmp_path,
):
    steps = Series("step/time_ms", (1,), (1.0,), (25.0,), (40.0,))
    series = (replace(steps, tag="host/cpu_percent"), steps)
    for number in range(MOST_COMPARED + 1):
        lines = run_lines(1, summary=replace(SUMMARY, series=series), began_s=BEGAN_S + 99 * number)
        write_lines(tmp_path, lines)
    newest, *older, oldest = load_report(tmp_path).runs
    assert newest.summary.series == series
    assert older[-1].summary == replace(SUMMARY, series=(steps,))
    assert oldest.summary == replace(SUMMARY, series=())


@pytest.mark.parametrize(
    ("lines", "state", "ending"),
    [
        (lambda: run_lines(5, summary=None), "unfinished", None),
        (lambda: now_lines(5), "running", None),
        (lambda: run_lines(5, summary=INTERRUPTED), "interrupted", "interrupted"),
    ],
    ids=["unfinished", "running", "interrupted"],
)
def test_a_run_is_as_it_said_it_ended(tmp_path, lines, state, ending):
    run = only_run(tmp_path, lines())
    assert (run.state, run.summary.ending) == (state, ending)
    assert to_dict(load_report(tmp_path))["runs"][0]["summary"]["ending"] == ending


def test_a_file_that_was_begun_anew_is_read_anew(tmp_path):
    path = write_lines(tmp_path, run_lines(30))
    folder = LogFolder(tmp_path)
    assert folder.report().runs[0].steps.readings == 30
    for windows in (3, 40):  # a shorter one, and a longer one
        path.write_bytes(b"")
        write_lines(tmp_path, run_lines(windows, began_s=BEGAN_S + windows))
        (run,) = folder.report().runs
        assert (run.steps.readings, run.notes) == (windows, ())


# Captures


def capture(path: str | None) -> CaptureRecord:
    return CaptureRecord("one", "steps", "step 20 of the run", 20, 10, 1.0, 1.0, 0.01, path)


def test_captures_go_to_the_run_that_took_them(tmp_path):
    paths = [f"gpukit/plugins/profile/{name}/host.xplane.pb" for name in ("one", "two")]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b"this is no profile")
    lines = run_lines(3)
    for path in (paths[0], "../../../etc/passwd"):
        lines.insert(4, (BEGAN_S + 2, 20, "capture", capture(path)))
    write_lines(tmp_path, lines)
    report = load_report(tmp_path)
    (run,) = report.runs
    other, shown = run.captures
    assert (shown.name, shown.capture.reason) == ("one/host", "step 20 of the run")
    assert shown.unread_because
    assert (other.profile, other.unread_because) == (None, None)
    assert [each.name for each in report.captures] == ["two/host"]


# Damage


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"[" * 100_000, "got `array`"),
        (b'{"a":' * 100_000, ""),
        (b'{"kind":"host","time_s":NaN,"record":{}}', "malformed"),
        (b'{"kind":"host","time_s":1e400,"record":{}}', "out of range"),
        (b'{"kind":"host","time_s":1e300,"record":{}}', "when it was written"),
        (b'{"kind":"host","record":{}}', "when it was written"),
        (b'{"kind":"host","time_s":5,"record":{"cpu_percent":1e300}}', "not between -1e+18 and"),
        (b'{"kind":"memory","time_s":5,"record":{"device":"GPU:0","current_bytes":1%s,"peak_bytes":1}}'
         % (b"0" * 400), "not between -1e+18 and"),
        (b'{"kind":"steps","time_s":5,"record":{"phase":"fit","time_s":5,"step":1,"steps":0,'
         b'"duration_s":1}}', "without steps"),
        (b'{"kind":"summary","time_s":5,"record":{"environment":{"versions":{},"cpu_count":1%s}}}'
         % (b"0" * 400), "not between -1e+18 and"),
        (b'{"kind":"profile","time_s":5,"record":%s}'
         % msgspec.json.encode(replace(filled(ProfileRecord), steps=0)), "a profile without steps"),
        (b'{"kind":"steps","time_s":5,"record":{"phase":"jog"}}', "jog"),
        (b"x" * (LONGEST_BYTES + 1), "too long"),
        (b'"\\ud800"', ""),
    ],
)  # fmt: skip
def test_hostile_lines_cost_no_more_than_themselves(tmp_path, line, fault):
    path = write_lines(tmp_path, run_lines(3, summary=None))
    appended(path, line + b"\n")
    write_lines(tmp_path, run_lines(3)[-1:])
    run = only_run(tmp_path)
    assert run.summary == SUMMARY
    (note,) = run.notes
    assert note.startswith("1 line could not be read")
    assert fault in note


def test_a_newer_layout_or_a_lost_beginning_is_said(tmp_path):
    lines = [(BEGAN_S, None, "run", {"schema": 7}), *run_lines(3)[1:]]
    (note,) = only_run(tmp_path / "newer", lines).notes
    assert "layout 7" in note
    assert "Read it with that version" in note
    run = only_run(tmp_path / "lost", run_lines(10)[20:])
    assert (run.notes, run.summary) == (("It has lost its beginning.",), SUMMARY)


def damaged(data: bytes, luck: random.Random) -> bytes:
    """One kind of damage: torn, bits flipped, pieces gone, doubled, foreign or out of order."""
    kind = luck.randrange(6)
    changed = bytearray(data)
    if kind == 0:
        return bytes(changed[: luck.randrange(len(changed))])
    if kind == 1:
        for _ in range(luck.randrange(1, 200)):
            changed[luck.randrange(len(changed))] ^= 1 << luck.randrange(8)
    elif kind == 2:
        begin = luck.randrange(len(changed))
        del changed[begin : begin + luck.randrange(1, 5_000)]
    elif kind == 3:
        lines = data.splitlines(keepends=True)
        luck.shuffle(lines)
        return b"".join(lines)
    elif kind == 4:
        begin = luck.randrange(len(changed))
        changed[begin : begin + 300] = luck.randbytes(luck.randrange(3_000))
    else:
        return _with_other_values(data, luck)
    return bytes(changed)


def _with_other_values(data: bytes, luck: random.Random) -> bytes:
    """JSON throughout, with values of other types and sizes."""
    others = [None, -1, 0, 10**30, -5e17, 1e-300, "</script>", [], {}, [[1]], True, "\0", -0.0]
    lines = []
    for line in data.splitlines():
        shown = json.loads(line)
        record = shown["record"]
        for _ in range(luck.randrange(3)):
            place = luck.choice(list(record))
            if isinstance(record[place], dict) and record[place]:
                record, place = record[place], luck.choice(list(record[place]))
            record[place] = luck.choice(others)
        lines.append(json.dumps(shown).encode())
    return b"\n".join(lines) + b"\n"


@pytest.mark.heavy
def test_damaged_records_give_a_report_or_a_clear_error(tmp_path):
    """Three hundred damaged records; each twentieth as a page, too."""
    luck = random.Random(20261121)
    path = write_lines(tmp_path, run_lines(8) + run_lines(8, summary=None, began_s=BEGAN_S + 99))
    data, shown = path.read_bytes(), 0
    for number in range(300):
        path.write_bytes(damaged(data, luck))
        report = load_report(tmp_path)
        assert isinstance(report, Report)
        to_dict(report)
        shown += any(run.notes for run in report.runs)
        if number % 20 == 0:
            assert render(report, plotly_src="plotly.js").rstrip().endswith("</html>")
    assert shown > 150


# Many runs


def test_of_many_runs_the_newest_are_read_in_full_and_all_are_summed_up(tmp_path):
    for number in range(12):
        over = number % 4 != 3  # some were killed
        lines = run_lines(5 + number, summary=SUMMARY if over else None, began_s=BEGAN_S + number)
        write_lines(tmp_path / "sweep" / f"lr-{number}", lines)
    runs = load_report(tmp_path).runs
    assert [run.name for run in runs] == [f"sweep/lr-{number}" for number in range(11, -1, -1)]
    assert [run.has_time_series for run in runs] == [True] * MOST_DETAILED + [False] * 8
    assert [run.folder for run in runs] == [run.name for run in runs]
    killed = {run.name: run for run in runs}["sweep/lr-3"]
    assert killed.state == "unfinished"
    assert killed.summary.steps == 8 * STEPS
    assert killed.summary.input_stall_fraction == pytest.approx(0.4)
    assert all(run.summary == SUMMARY for run in runs if run.state == "completed")


def test_an_older_run_without_a_summary_or_a_beginning_is_summed_up(tmp_path):
    # The latest run of this record has a summary, those before it have not.
    write_lines(tmp_path / "a", run_lines(9, summary=None))
    write_lines(tmp_path / "a", run_lines(3, began_s=BEGAN_S + 100))
    write_lines(tmp_path / "b", run_lines(9)[20:])
    write_lines(tmp_path / "c", run_lines(9, summary=None)[20:])
    for number in range(MOST_DETAILED):
        write_lines(tmp_path / f"d{number}", run_lines(3, began_s=BEGAN_S + 200 + number))
    runs = {run.name: run for run in load_report(tmp_path).runs}
    assert runs["a"].summary.steps == 9 * STEPS
    assert runs["a #2"].summary == SUMMARY
    assert runs["b"].notes == runs["c"].notes == ("It has lost its beginning.",)
    assert runs["b"].began_s == runs["c"].began_s < BEGAN_S + 9
    assert runs["c"].summary.steps == 5 * STEPS


def test_a_run_is_read_in_full_once_it_is_one_of_the_newest(tmp_path):
    for number in range(MOST_DETAILED + 1):
        path = write_lines(tmp_path / f"r{number}", run_lines(3, began_s=BEGAN_S + number))
    folder = LogFolder(tmp_path)
    assert not folder.report().runs[-1].has_time_series
    path.unlink()
    assert all(run.steps.readings == 3 for run in folder.report().runs)
    write_lines(tmp_path / "new", run_lines(3, summary=None, began_s=time.time()))
    first, *_, last = folder.report().runs
    assert (first.name, first.state, last.steps) == ("new", "running", None)
    write_lines(tmp_path / "new", run_lines(3)[-1:])
    assert folder.report().runs[0].state == "completed"
