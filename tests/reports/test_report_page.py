"""The HTML report: what stands in it, in which order, and that nothing gets out of its place.

What it looks like in a browser is in test_browser.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.pages import HOSTILE, Page, figure_of
from helpers.recorded_runs import (
    BEGAN_S,
    DECODE,
    PLACEMENT,
    STEPS,
    SUMMARY,
    run_lines,
    with_validation,
    write_lines,
)

from keras_gpukit.records import (
    Band,
    CaptureRecord,
    CaptureReport,
    DeviceMemory,
    DeviceProfile,
    Environment,
    Figure,
    Finding,
    KernelProfile,
    MemoryRecord,
    MissedCapture,
    OperationProfile,
    PipelineRecord,
    ProfileRecord,
    ProfilerRecord,
    Report,
    RunEvent,
    RunReport,
    RunSummary,
    Series,
    StageProfile,
    TimeBreakdown,
    TimeSeries,
    Verdict,
)
from keras_gpukit.reports.html import plotly_js, render
from keras_gpukit.reports.html.captures import captures_chart
from keras_gpukit.reports.html.chart import COLORS
from keras_gpukit.reports.html.page import run_charts
from keras_gpukit.rules import RULES, judge
from keras_gpukit.saved_runs import load_report
from keras_gpukit.saved_runs.folding.downsampling import MOST_POINTS


def page_of(folder: Path, lines, **options) -> Page:
    write_lines(folder, lines)
    return Page(render(load_report(folder), plotly_src="plotly.js", **options))


def changed(lines, kind: str, **changes) -> list:
    """Lines with other values in the records of a kind."""
    return [(*line[:3], replace(line[3], **changes)) if line[2] == kind else line for line in lines]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Page:
    return page_of(tmp_path_factory.mktemp("logs"), run_lines())


# What it shows


def test_the_verdict_comes_first_with_what_to_do_and_the_saving(page):
    words = page.words
    places = [
        words.index(part)
        for part in (
            "critical 38 % of the time is spent waiting for data: the bottleneck is decode (tr",
            "1.5× to 1.8× faster (saves 21.6 to 27.6 of 64 s), basis: wait.",
            "What to do",
            "ds.cache() right after decode",
            "A batch takes 16 ms to make, 2 in parallel; the model needs 15 ms for it.",
            "So it waits 40 % of each step.",
            "Where the whole run's time went",
            "A step took",
            "Also found",
            "Operations fell back to the CPU",
            "2 AsString operations are affected.",
        )
    ]
    assert places == sorted(places)


def test_the_evidence_is_shown_in_sentences():
    figures = (
        Figure("spent", 9.0, "s", "Plotter", "{of} takes {value}"),
        Figure("waited", 6.0, "s", sentence=", {value} of it waiting for input"),
        Figure("stall", 40.0, "%", sentence="Steps wait for {value} of their time"),
    )
    found = Finding("x", "X", "warning", figures, ())
    summary = RunSummary(Environment({}), verdict=Verdict((found,), (), {}))
    page = render(
        Report("logs", 0.0, "0.1.0", (RunReport("a", "completed", summary=summary),)),
        plotly_src="plotly.js",
    )
    assert "Plotter takes 9 s, 6 s of it waiting for input." in Page(page).words
    assert "Steps wait for 40 % of their time." in Page(page).words


def test_rules_name_charts_of_a_run():
    run = RunReport("a", "completed", summary=RunSummary(Environment({})))
    assert {key for key, *_ in run_charts(run)} >= {key for rule in RULES for key in rule.charts}


def test_every_chart_has_words_and_a_table(page):
    figures = page.all("figure")
    assert len(figures) == 7
    assert len(page.all("figcaption")) == len(figures)
    assert len(page.all("table")) >= len(figures)
    plots = [attrs for _, attrs in page.all("div") if attrs.get("role") == "img"]
    assert {attrs["id"] for attrs in plots} == set(page.figures)
    assert all(len(attrs["aria-label"] or "") > 20 for attrs in plots)


def test_headings_and_landmarks_are_in_order(page):
    levels = [int(tag[1]) for tag, _ in page.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("main")) == 1
    assert page.all("html")[0][1]["lang"] == "en"
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids


def named(figure: dict, name: str) -> list[dict]:
    """What is drawn under a name: an area, and what the cursor says of it."""
    return [trace for trace in figure["data"] if trace.get("name") == name]


def between(trace: dict, begin: float, end: float) -> set[float | None]:
    """The values that are drawn between two places on the time axis."""
    return {y for x, y in zip(trace["x"], trace["y"], strict=True) if x and begin < x < end}


def test_the_timeline_splits_steps_by_cause(page):
    figure = figure_of(page, "Timeline")
    step, wait = named(figure, "waiting for input")
    work, _ = named(figure, "computing")
    # The later area covers the earlier one, so that what shows of it is the wait.
    assert (step["fill"], work["fill"]) == ("tozeroy", "tozeroy")
    assert max(step["y"]) == pytest.approx(125)
    assert max(work["y"]) == pytest.approx(75)
    assert (wait["y"][0], wait["y"][6]) == pytest.approx((10, 50))
    assert wait["hovertemplate"].endswith("ms")


def test_nothing_is_drawn_where_no_steps_ran(tmp_path):
    page = page_of(tmp_path, with_validation(run_lines()))
    figure = figure_of(page, "Timeline")
    step = named(figure, "waiting for input")[0]
    assert between(step, 30.01, 49.99) <= {0}
    assert {0} < between(step, 20, 30.01)
    validation = named(figure, "validation step")[0]
    assert max(between(validation, 38.1, 40.1)) == pytest.approx(25)
    assert between(figure_of(page, "Wait for input over the run")["data"][1], 30.01, 49.99) <= {0}


def test_events_stand_in_lanes_on_the_same_axis(tmp_path):
    page = page_of(tmp_path, with_validation(run_lines()))
    figure = figure_of(page, "Timeline")
    assert figure["layout"]["yaxis2"]["ticktext"] == [
        "epochs",
        "first step",
        "validation",
        "checkpoints",
    ]
    bars = {bar["y"][0]: bar for bar in figure["data"] if bar["type"] == "bar"}
    assert (bars[0]["base"], bars[0]["text"]) == ([0, 46], ["1", "2"])
    assert (bars[2]["base"], bars[2]["x"]) == ([38], [4])
    assert "checkpoint, 2 s" in json.dumps(named(figure, "checkpoints")[0]["text"])
    assert "checkpoint, 2 s" in page.words


def test_an_event_that_outlasts_its_run_has_as_many_points_as_one_that_does_not(tmp_path):
    lines = run_lines()
    event = RunEvent("validation", BEGAN_S, 1e6, STEPS)  # the clock was set back in the meantime
    lines.insert(-1, (BEGAN_S + 60.5, STEPS, "event", event))
    figure = figure_of(page_of(tmp_path, lines), "Timeline")
    (points,) = (each for each in figure["data"] if "validation" in str(each.get("text", "")))
    assert len(points["x"]) == 51


def test_the_cursor_says_step_and_epoch_in_every_chart_over_time(tmp_path):
    page = page_of(tmp_path, with_validation(run_lines()))
    over_time = [attrs["id"] for _, attrs in page.all("div") if attrs.get("data-time")]
    assert len(over_time) == 4
    for name in over_time:
        first = page.figures[name]["data"][0]
        assert first["hovertemplate"].startswith("step %{customdata[0]:,}, epoch")
        assert first["customdata"][0] == [STEPS, "1"]
        assert first["customdata"][-1] == [60 * STEPS, "2"]


def test_throttling_and_captures_are_events_too():
    throttled = Band((0.0, 1.0, 1.0, 0.0), (0.0,) * 4, (1.0,) * 4, (1.0,) * 4)
    times = Band((0.1,) * 4, (0.1,) * 4, (0.1,) * 4, (10.0,) * 4)
    unknown = Band((None,) * 4, (None,) * 4, (None,) * 4, (0.0,) * 4)
    at_s = tuple(BEGAN_S + second for second in range(1, 5))
    names = ("wait_s", "stall_fraction", "examples_per_s", "buffered_batches")
    steps = {"step_time_s": times, **dict.fromkeys(names, unknown)}
    gpu = dict.fromkeys(("utilization_percent", "memory_used_bytes", "memory_total_bytes"), unknown)
    capture = CaptureRecord("one", "steps", "step 20 of the run", 20, 5, BEGAN_S + 2, 0.5, 0.0)
    run = RunReport(
        "logs",
        "completed",
        began_s=BEGAN_S,
        ended_s=BEGAN_S + 4,
        steps=TimeSeries(at_s, (10, 20, 30, 40), 4, 1, steps),
        gpus={"0": TimeSeries(at_s, (10, 20, 30, 40), 4, 1, {**gpu, "throttled": throttled})},
        captures=(CaptureReport("one", capture),),
    )
    figure = figure_of(Page(render(Report("logs", 0.0, "1", (run,)))), "Timeline")
    assert figure["layout"]["yaxis2"]["ticktext"] == ["captures", "GPU 0 throttled"]
    bars = {bar["y"][0]: bar for bar in figure["data"] if bar["type"] == "bar"}
    assert (bars[0]["base"], bars[0]["x"]) == ([2], [0.5])
    assert (bars[1]["base"], bars[1]["x"]) == ([1], [2])


def test_a_lasting_change_of_step_time_is_a_line_and_an_event(tmp_path):
    steps = tuple(range(100, 4100, 100))
    times_ms = (20.0, 21.0) * 10 + (50.0, 51.0) * 10
    seconds = tuple(1.5 * number for number in range(1, 41))
    series = Series("step/time_ms", steps, seconds, times_ms, (100.0,) * 40)
    figure = figure_of(
        page_of(tmp_path, run_lines(summary=replace(SUMMARY, series=(series,)))), "Timeline"
    )
    (line,) = figure["layout"]["shapes"]
    assert line["x0"] == line["x1"] == 30
    assert line["label"]["text"] == "2.5× slower"
    assert figure["layout"]["yaxis2"]["ticktext"] == ["changes"]
    assert named(figure, "changes")[0]["text"] == ["step time: 20.5 ms before, 50.5 ms after"]


def test_time_in_callbacks_between_steps_is_not_drawn_as_computing(tmp_path):
    lines = changed(run_lines(30), "steps", between_s=0.2)
    figure = figure_of(page_of(tmp_path, lines), "Timeline")
    # Of steps of 25 ms, 10 ms are waits.
    assert named(figure, "callbacks between steps")[1]["y"][:6] == pytest.approx([5.0] * 6)
    assert named(figure, "computing")[1]["y"][:6] == pytest.approx([10.0] * 6)


def test_stall_and_buffer_are_drawn(page):
    figure = figure_of(page, "Wait for input over the run")
    assert named(figure, "input stall")[1]["y"] == pytest.approx([40.0] * 60)
    assert named(figure, "batches buffered")[1]["y"][:4] == [1, 0, 1, 0]


def test_memory_is_scaled_to_its_use_with_the_limit_in_words(page):
    lines = {
        line.get("name"): line["y"] for line in figure_of(page, "Memory of the devices")["data"]
    }
    assert max(max(values) for values in lines.values()) == 20
    assert (lines["GPU:0 peak so far"][0], lines["GPU:0 peak so far"][-1]) == (4, 5)
    assert "GPU:0 held at most 5 GiB of 70 GiB" in page.words
    assert "GPU 1, all processes held at most 20 GiB of 80 GiB" in page.words
    names = {line.get("name") for line in figure_of(page, "How busy GPUs and host were")["data"]}
    assert names == {None, "GPU 0", "GPU 1", "all cores", "this process"}


def test_level_charts_are_left_out_and_said_in_one_line(page):
    assert (
        "Nothing to draw: Memory of the host (hardly "
        "changed: this process held at most 1,024 MiB of 128 GiB)."
    ) in page.words


def test_steps_of_microseconds_are_drawn_in_them(tmp_path):
    lines = changed(run_lines(), "steps", steps=4000)
    figure = figure_of(page_of(tmp_path, lines), "Timeline")
    assert figure["layout"]["yaxis"]["title"]["text"] == "µs per step"
    assert named(figure, "waiting for input")[1]["y"][0] == pytest.approx(100)


def test_a_stop_of_the_process_interrupts_every_line(tmp_path):
    lines = [line for line in run_lines() if not 20 < line[0] - BEGAN_S < 40]
    busy = figure_of(page_of(tmp_path, lines), "How busy GPUs and host were")
    for line in busy["data"][1:]:
        assert None in line["y"]
        assert between(line, 20.5, 39.5) == set()


def test_a_finding_leads_to_its_charts_and_captures(page):
    links = [attrs["href"] for _, attrs in page.all("a")]
    for key in ("stages", "input", "timeline", "placement"):
        assert any(re.fullmatch(rf"#run-\w+-{key}-title", link or "") for link in links)
    ids = {attrs.get("id") for _, attrs in page.tags}
    assert {link.removeprefix("#") for link in links} <= ids
    capture = CaptureRecord(
        "2026_step_34", "stall", "stalls rose", 34, 9, BEGAN_S, 1.0, 0.0, path="a/b"
    )
    run = RunReport(
        "logs", "completed", summary=SUMMARY, captures=(CaptureReport("34", capture, PROFILE),)
    )
    linked = Page(render(Report("logs", 0.0, "1", (run,))))
    links = [attrs["href"] for _, attrs in linked.all("a")]
    assert any(re.fullmatch(r"#run-\w+-captures-title", link or "") for link in links)
    assert "Captured: step 34, in TensorBoard's Profile tab 2026_step_34" in linked.words
    linked = Page(
        render(
            Report("logs", 0.0, "1", (run,)),
            profile_href=lambda run, capture: f"/#profile-{capture.first_step}",
        )
    )
    assert "/#profile-34" in {attrs["href"] for _, attrs in linked.all("a")}


def test_a_stage_has_one_name_in_pipeline_and_profile():
    stages = (StageProfile("map", "ParallelMapV2", 0.01, 0.9, 0.01),)
    capture = CaptureReport("34", None, replace(PROFILE, stages=stages))
    run = RunReport("logs", "completed", summary=SUMMARY, captures=(capture,))
    words = Page(render(Report("logs", 0.0, "1", (run,)))).words
    assert "MapDataset" not in words
    assert "decodeParallelMapV210 ms" in words


def test_code_in_advice_can_be_copied(page):
    codes = page.text_of("code", "copied")
    assert "ds.cache()" in codes
    assert "tf.io.decode_jpeg(image, ratio=2)" in codes


@pytest.mark.parametrize(("unknown_s", "drawn"), [(1e-14, 8), (0.5, 9)])
def test_a_run_whose_time_went_to_everything_there_is_is_drawn(tmp_path, unknown_s, drawn):
    parts = TimeBreakdown(8.0 + unknown_s, *(1.0,) * 7, tracing_s=1.0)
    summary = replace(SUMMARY, input=replace(SUMMARY.input, breakdown=parts))
    page = page_of(tmp_path, run_lines(summary=summary))
    assert len(figure_of(page, "Where the whole run's time went")["data"]) == drawn


def test_the_whole_time_the_stages_and_the_placement_are_drawn(page):
    parts = {
        bar["name"]: bar["x"] for bar in figure_of(page, "Where the whole run's time went")["data"]
    }
    assert parts["compute"] == [36.0]
    assert parts["input"] == [24.0]
    assert sum(value for (value,) in parts.values()) == pytest.approx(64.0)
    keeps_up, blamed = figure_of(page, "Stages of the input pipeline")["data"]
    assert (blamed["name"], blamed["x"], keeps_up["x"]) == ("bottleneck", [16.0], [2.0])
    assert (blamed["text"], keeps_up["text"]) == (["16 ms, 2 parallel"], ["2 ms, 4 parallel"])
    assert "A step takes 15 ms, apart from its wait for input." in page.words
    on_gpu, on_cpu = figure_of(page, "Where operations ran")["data"]
    assert (on_gpu["name"], on_gpu["x"]) == ("GPU:0", [190, 20, 0])
    assert (on_cpu["name"], on_cpu["x"]) == ("CPU:0", [0, 0, 2])
    assert "TensorFlow has none." in page.text
    assert "3.5 MiB in all." in page.words
    assert "And 900 operations in 80 more rows." in page.words
    assert "model/log/Cast float32[64, 14336]: 3.5 MiB" in page.words
    assert "layer, operation, device" in {
        attrs.get("placeholder") for _, attrs in page.all("input")
    }


def test_what_is_not_known_says_why_instead_of_an_empty_chart(tmp_path):
    page = page_of(tmp_path, run_lines(1, summary=None))
    assert "Timeline (the run has fewer than two windows" in page.words
    assert "Where the whole run's time went (the run ended before it was recorded)" in page.words
    assert "Where a captured step's time went (nothing was captured" in page.words
    assert all(figure["data"] for figure in page.figures.values())


def test_a_run_of_which_nothing_is_known_is_still_a_page(tmp_path):
    page = page_of(tmp_path, run_lines(0, summary=None)[:1])
    assert "Not judged: the run has no figures to judge by." in page.words
    assert "The run wrote no summary: its process was killed" in page.words


def test_windows_of_short_epochs_are_not_called_seconds(tmp_path):
    words = page_of(tmp_path, changed(run_lines(30), "steps", duration_s=0.1)).words
    assert "In the fastest window of 100 ms a step took 2.5 ms" in words


def test_extremes_of_a_long_run_are_drawn(tmp_path):
    page = page_of(tmp_path, run_lines(MOST_POINTS + 1))
    figure = figure_of(page, "Timeline")
    (slowest,), (fastest,) = named(figure, "slowest window"), named(figure, "fastest window")
    assert max(value or 0 for value in slowest["y"]) == pytest.approx(125)
    assert min(value for value in fastest["y"] if value is not None) == pytest.approx(25)
    mean = named(figure, "waiting for input")[0]
    assert len(mean["x"]) <= MOST_POINTS
    assert max(mean["y"]) < 125


def test_the_set_up_is_told(page):
    for words in ("NVIDIA H100, 80 GiB", "TensorFloat-32 allowed", "3.15.1", "steps_per_execution"):
        assert words in page.words


def test_a_healthy_run_is_told_so(tmp_path):
    healthy = replace(SUMMARY, input=replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0))
    healthy = replace(healthy, operations=None, memory=None, profile=ProfileRecord())
    page = page_of(tmp_path, run_lines(summary=replace(healthy, verdict=judge(healthy))))
    assert "good Nothing was found that slows this run down. " in page.words


def test_faults_are_told_on_the_page(tmp_path):
    path = write_lines(tmp_path, run_lines(5))
    path.write_bytes(path.read_bytes() + b"\x00\n")
    words = Page(render(load_report(tmp_path), plotly_src="plotly.js")).words
    assert "1 line could not be read; the first is line 30" in words


# Several runs


def test_runs_stand_run_comparison(tmp_path):
    write_lines(tmp_path / "one", run_lines(20))
    page = page_of(tmp_path, run_lines(30, began_s=BEGAN_S + 1000))
    assert "2 runs compared" in page.words
    lines = figure_of(page, "Step times of the runs")["data"]
    # A value at the end of each window, and at the begin of the first.
    assert [len(line["y"]) - line["y"].count(None) for line in lines] == [31, 21]
    assert lines[0]["marker"]["symbol"] != lines[1]["marker"]["symbol"]
    links = {attrs.get("href") for _, attrs in page.all("a")}
    shown = {f"#{attrs['id']}" for _, attrs in page.all("section")}
    assert {"#main", *shown} <= links
    assert len(shown) == 3


def test_of_two_runs_the_page_first_says_which_is_faster(tmp_path):
    write_lines(tmp_path / "one", run_lines(20))
    quick = replace(SUMMARY.throughput, step_time_s=0.005, examples_per_s=6400.0)
    fast = replace(SUMMARY, throughput=quick)
    write_lines(tmp_path / "two", run_lines(20, summary=fast, began_s=BEGAN_S + 1000))
    words = Page(render(load_report(tmp_path), plotly_src="plotly.js")).words
    first = words.index("two is 5× faster than one: step time 25 ms → 5 ms")
    assert first < words.index("Tick two")


def test_of_many_runs_only_the_newest_have_charts(tmp_path):
    for number in range(6):
        write_lines(tmp_path / str(number), run_lines(3, began_s=BEGAN_S + 100 * number))
    page = page_of(tmp_path, run_lines(3, began_s=BEGAN_S + 900))
    assert "7 runs compared" in page.words
    assert "The newest 4 are shown in full below." in page.words
    places = [attrs["class"] for _, attrs in page.all("section") if attrs.get("class")]
    assert places == ["run"] * 4 + ["run brief"] * 3


# Captures

PROFILE = ProfileRecord(
    host="vm",
    steps=2,
    step_time_s=0.02,
    parts_s={"input wait": 0.012, "device compute": 0.006, "idle": 0.002},
    kinds_s={"matmul": 0.004, "elementwise": 0.002},
    stall_fraction=0.6,
    operations=(OperationProfile("dense/MatMul", "MatMul", "matmul", 0.008, 4, 0.7),),
    kernels=(KernelProfile("sgemm_128x64", "matmul", 0.008, 4, 0.7, True),),
    stages=(StageProfile("decode", "ParallelMapV2", 0.01, 0.9, 0.01),),
    problems=("Events were dropped.",),
)


def test_captures_that_were_not_started_are_shown_with_the_reason():
    missed = MissedCapture("stall", "stalls rose", 812, "one of the kind ended shortly before")
    summary = replace(SUMMARY, captures=ProfilerRecord(missed=(missed,)))
    for captures in ((), (CaptureReport("one/vm", profile=PROFILE),)):
        run = RunReport("logs", "completed", summary=summary, captures=captures)
        page = Page(render(Report("logs", 0.0, "1", (run,))))
        assert missed.because in page.words
    assert "812" in page.words


def test_captures_are_drawn_and_told():
    captures = (
        CaptureReport("20_steps/vm", profile=PROFILE),
        CaptureReport("torn/vm", unread_because="The file is empty."),
    )
    run = RunReport("logs", "completed", captures=captures)
    page = Page(render(Report("logs", 0.0, "1", (run,)), plotly_src="plotly.js"))
    bars = {
        bar["name"]: bar["x"]
        for bar in figure_of(page, "Where a captured step's time went")["data"]
    }
    assert bars == {"device compute": [6.0], "input wait": [12.0], "idle": [2.0]}
    for words in (
        "60 % of its time was input stall",
        "not read: The file is empty.",
        "Events were dropped.",
        "sgemm_128x64",
        "dense/MatMul",
    ):
        assert words in page.words


def captured(**changes) -> tuple[CaptureReport]:
    return (CaptureReport("one/vm", profile=replace(PROFILE, **changes)),)


def test_all_columns_of_a_capture_are_per_step():
    tables = dict(captures_chart(captured()).more)
    for what in ("operations", "kernels"):
        table = tables[f"Newest capture: longest {what}"]
        assert table.columns[2:] == ("time per step", "count per step", "share")
        assert table.rows[0][2:] == ("4 ms", "2", "70 %")
    assert tables["Newest capture: computation by kind"].columns == ("kind", "time per step")


@pytest.mark.parametrize("devices", [(), (DeviceProfile("GPU:0", 0.5, 9),)])
def test_where_the_rest_of_the_profile_tabs_host_compute_is_without_a_gpu(devices):
    parts_s = {"host compute": 0.0117, "idle": 0.0023, "between steps": 0.0001}
    words = captures_chart(captured(parts_s=parts_s, devices=devices)).caption
    assert "host compute 11.7 ms" in words
    more = "Profile tab counts it as host compute too, 14 ms together"
    assert (more in words) == (not devices)


def test_profiles_without_a_run_are_told_too():
    report = Report("logs", 0.0, "1", captures=(CaptureReport("one/vm", profile=PROFILE),))
    page = Page(render(report, plotly_src="plotly.js"))
    assert "No run's record lists it" in page.words
    assert "not by a Profiler" in page.words


# Whatever stands in the records


def hostile_report() -> Report:
    stage = replace(DECODE, name=HOSTILE, location=HOSTILE)
    summary = RunSummary(
        Environment({HOSTILE: HOSTILE}, precision=HOSTILE),
        input=replace(SUMMARY.input, pipeline=PipelineRecord((stage,), stage)),
        operations=replace(
            PLACEMENT,
            operations={HOSTILE: {HOSTILE: 3}},
            fallbacks=tuple(
                replace(each, operation=HOSTILE, reason=HOSTILE, names=(HOSTILE,))
                for each in PLACEMENT.fallbacks
            ),
        ),
        memory=MemoryRecord((DeviceMemory(HOSTILE, 1, 2, 3),)),
        verdict=Verdict(
            (Finding(HOSTILE, HOSTILE, "critical", (), (HOSTILE,)),), (HOSTILE,), {HOSTILE: HOSTILE}
        ),
    )
    profile = replace(
        PROFILE,
        operations=(replace(PROFILE.operations[0], name=HOSTILE),),
        problems=(HOSTILE,),
    )
    captures = (CaptureReport(HOSTILE, profile=profile, unread_because=HOSTILE),)
    run = RunReport(HOSTILE, "completed", summary=summary, captures=captures, notes=(HOSTILE,))
    return Report(HOSTILE, 0.0, "1", (run, run), captures, (HOSTILE,))


def test_names_stay_text_wherever_they_stand():
    html = render(hostile_report(), plotly_src="plotly.js")
    page = Page(html)
    assert page.all("img") == []
    assert len(page.all("script")) == 4
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]
    assert not [attrs for _, attrs in page.all("a") if not (attrs["href"] or "").startswith("#")]
    assert "49" not in re.sub(r"\d{3,}", "", page.words).split()
    assert page.text.count(HOSTILE) > 10
    # Plotly takes some markup in the names it draws.
    assert "<" not in page.scripts[0]
    drawn = json.dumps(page.figures)
    assert "&lt;img" in drawn
    assert not [tag for tag in ("<img", "<a", "</script") if tag in drawn]


# How it looks


def luminance(color: str) -> float:
    digits = color.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_every_word_stands_out_from_what_is_behind_it_on_screen_and_on_paper(page):
    palettes = [
        dict(re.findall(r"--(\w+): (#\w+)", block))
        for block in re.findall(r":root[^{]*\{([^}]*)\}", page.style)
        if "--ink" in block
    ]
    assert len(palettes) >= 3  # light, dark and print
    words = ("ink", "soft", "accent", "critical", "warning", "info", "good")
    for palette in palettes:
        for behind in ("page", "card"):
            for word in words:
                assert contrast(palette[word], palette[behind]) >= 4.5, (word, behind, palette)
    # Words stand on bars, too.
    assert all(contrast("#0d1214", color) >= 4.5 for color in COLORS.values())


def test_the_page_asks_for_nothing_but_what_it_was_told(page):
    for _, attrs in page.tags:
        for name in ("src", "href"):
            target = attrs.get(name) or ""
            assert target.startswith(("#", "data:")) or target in ("", "plotly.js")
    (policy,) = (
        attrs["content"]
        for _, attrs in page.all("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy


@pytest.mark.heavy
def test_the_file_holds_plotly_once_and_stays_small(tmp_path):
    lines = run_lines(MOST_POINTS)
    for name in "abcd":
        write_lines(tmp_path / name, lines)
    html = render(load_report(tmp_path))
    assert html.count("plotly.js v") == 1
    assert "</script" not in plotly_js()
    assert len(html.encode()) < 10e6
