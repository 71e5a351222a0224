"""The HTML report: what stands in it, in which order, and that nothing gets out of its place.

What it looks like in a browser is in test_browser.py.
"""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from helpers.hostile import HOSTILE, filled
from helpers.pages import Page, are_in_order, figure_of, rendered
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
from helpers.summaries import series_of_points

from keras_gpukit import records
from keras_gpukit.reports.html import charts_of_run, plotly_js, render
from keras_gpukit.reports.html.chart import COLORS
from keras_gpukit.reports.html.computation import captures_chart
from keras_gpukit.rules import RULES, judge
from keras_gpukit.saved_runs.folding.downsampling import MOST_POINTS
from keras_gpukit.saved_runs.log_folder import load_report


def page_of(folder: Path, lines=None, **options) -> Page:
    if lines is not None:
        write_lines(folder, lines)
    return rendered(load_report(folder), **options)


def run_of(summary=None, *captures: records.CaptureReport) -> records.RunReport:
    known = summary or records.RunSummary(records.Environment({}))
    return records.RunReport("logs", "completed", summary=known, captures=captures)


def changed(lines, kind: str, **changes) -> list:
    """Lines with other values in the records of a kind."""
    return [(*line[:3], replace(line[3], **changes)) if line[2] == kind else line for line in lines]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Page:
    return page_of(tmp_path_factory.mktemp("logs"), run_lines())


# What it shows


def test_the_verdict_comes_first_with_what_to_do_and_the_saving(page):
    assert are_in_order(
        page.words,
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
    # Code in advice can be copied.
    codes = page.text_of("code", "copied")
    assert {"ds.cache()", "tf.io.decode_jpeg(image, ratio=2)"} <= set(codes)
    for words in ("NVIDIA H100, 80 GiB", "TensorFloat-32 allowed", "3.15.1", "steps_per_execution"):
        assert words in page.words  # the set-up
    assert (
        "Nothing to draw: Memory of the host (hardly "
        "changed: this process held at most 1,024 MiB of 128 GiB)."
    ) in page.words


def test_the_evidence_is_shown_in_sentences_and_rules_name_charts_of_a_run():
    figures = (
        records.Figure("spent", 9.0, "s", "Plotter", "{of} takes {value}"),
        records.Figure("waited", 6.0, "s", sentence=", {value} of it waiting for input"),
        records.Figure("stall", 40.0, "%", sentence="Steps wait for {value} of their time"),
    )
    found = records.Finding("x", "X", "warning", figures, ())
    verdict = records.Verdict((found,), (), {})
    run = run_of(records.RunSummary(records.Environment({}), verdict=verdict))
    words = rendered(run).words
    assert "Plotter takes 9 s, 6 s of it waiting for input." in words
    assert "Steps wait for 40 % of their time." in words
    assert {key for key, *_ in charts_of_run(run)} >= {key for rule in RULES for key in rule.charts}


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
    assert (max(step["y"]), max(work["y"])) == pytest.approx((125, 75))
    assert (wait["y"][0], wait["y"][6]) == pytest.approx((10, 50))
    assert wait["hovertemplate"].endswith("ms")
    stall = figure_of(page, "Wait for input over the run")
    assert named(stall, "input stall")[1]["y"] == pytest.approx([40.0] * 60)
    assert named(stall, "batches buffered")[1]["y"][:4] == [1, 0, 1, 0]


@pytest.fixture(scope="module")
def validated(tmp_path_factory) -> Page:
    """The page of two epochs with a validation and a save between them."""
    return page_of(tmp_path_factory.mktemp("validated"), with_validation(run_lines()))


def test_nothing_is_drawn_where_no_steps_ran(validated):
    figure = figure_of(validated, "Timeline")
    step = named(figure, "waiting for input")[0]
    assert between(step, 30.01, 49.99) <= {0}
    assert {0} < between(step, 20, 30.01)
    validation = named(figure, "validation step")[0]
    assert max(between(validation, 38.1, 40.1)) == pytest.approx(25)
    stall = figure_of(validated, "Wait for input over the run")["data"][1]
    assert between(stall, 30.01, 49.99) <= {0}


def bars_of(figure: dict) -> dict[int, dict]:
    """The events in lanes over a timeline, by lane."""
    return {bar["y"][0]: bar for bar in figure["data"] if bar["type"] == "bar"}


def test_events_stand_in_lanes_on_the_same_axis(validated):
    figure = figure_of(validated, "Timeline")
    lanes = ["epochs", "first step", "validation", "checkpoints"]
    assert figure["layout"]["yaxis2"]["ticktext"] == lanes
    bars = bars_of(figure)
    assert (bars[0]["base"], bars[0]["text"]) == ([0, 46], ["1", "2"])
    assert (bars[2]["base"], bars[2]["x"]) == ([38], [4])
    assert "checkpoint, 2 s" in json.dumps(named(figure, "checkpoints")[0]["text"])
    assert "checkpoint, 2 s" in validated.words
    # The cursor says step and epoch in every chart over time.
    over_time = [attrs["id"] for _, attrs in validated.all("div") if attrs.get("data-time")]
    assert len(over_time) == 4
    for name in over_time:
        first = validated.figures[name]["data"][0]
        assert first["hovertemplate"].startswith("step %{customdata[0]:,}, epoch")
        assert first["customdata"][0] == [STEPS, "1"]
        assert first["customdata"][-1] == [60 * STEPS, "2"]


def test_throttling_and_captures_are_events_too():
    def band(mean, *rest):
        return records.Band(*((each,) * 4 for each in (mean, *rest)))

    throttled = records.Band((0.0, 1.0, 1.0, 0.0), (0.0,) * 4, (1.0,) * 4, (1.0,) * 4)
    times, unknown = band(0.1, 0.1, 0.1, 10.0), band(None, None, None, 0.0)
    at_s = tuple(BEGAN_S + second for second in range(1, 5))
    names = ("wait_s", "stall_fraction", "examples_per_s", "buffered_batches")
    used = ("utilization_percent", "memory_used_bytes", "memory_total_bytes")

    def series(**figures):
        return records.TimeSeries(at_s, (10, 20, 30, 40), 4, 1, figures)

    capture = records.CaptureRecord("one", "steps", "step 20", 20, 5, BEGAN_S + 2, 0.5, 0.0)
    run = replace(
        run_of(None, records.CaptureReport("one", capture)),
        began_s=BEGAN_S,
        ended_s=BEGAN_S + 4,
        steps=series(step_time_s=times, **dict.fromkeys(names, unknown)),
        gpus={"0": series(**dict.fromkeys(used, unknown), throttled=throttled)},
    )
    figure = figure_of(rendered(run), "Timeline")
    assert figure["layout"]["yaxis2"]["ticktext"] == ["captures", "GPU 0 throttled"]
    bars = bars_of(figure)
    assert (bars[0]["base"], bars[0]["x"]) == ([2], [0.5])
    assert (bars[1]["base"], bars[1]["x"]) == ([1], [2])


def test_a_lasting_change_of_step_time_is_a_line_and_an_event(tmp_path):
    times_ms = (20.0, 21.0) * 10 + (50.0, 51.0) * 10
    series = series_of_points("step/time_ms", times_ms, point_s=1.5, steps=100)
    lines = run_lines(summary=replace(SUMMARY, series=(series,)))
    figure = figure_of(page_of(tmp_path / "change", lines), "Timeline")
    (line,) = figure["layout"]["shapes"]
    assert line["x0"] == line["x1"] == 30
    assert line["label"]["text"] == "2.5× slower"
    assert figure["layout"]["yaxis2"]["ticktext"] == ["changes"]
    assert named(figure, "changes")[0]["text"] == ["step time: 20.5 ms before, 50.5 ms after"]
    # An event that outlasts its run, as the clock was set back meanwhile, has no more points.
    lines = run_lines()
    event = records.RunEvent("validation", BEGAN_S, 1e6, STEPS)
    lines.insert(-1, (BEGAN_S + 60.5, STEPS, "event", event))
    figure = figure_of(page_of(tmp_path / "event", lines), "Timeline")
    (points,) = (each for each in figure["data"] if "validation" in str(each.get("text", "")))
    assert len(points["x"]) == 51


def test_time_in_callbacks_between_steps_is_not_drawn_as_computing(tmp_path):
    lines = changed(run_lines(30), "steps", between_s=0.2)
    figure = figure_of(page_of(tmp_path, lines), "Timeline")
    # Of steps of 25 ms, 10 ms are waits.
    assert named(figure, "callbacks between steps")[1]["y"][:6] == pytest.approx([5.0] * 6)
    assert named(figure, "computing")[1]["y"][:6] == pytest.approx([10.0] * 6)


def test_memory_is_scaled_to_its_use_with_the_limit_in_words(page):
    data = figure_of(page, "Memory of the devices")["data"]
    lines = {line.get("name"): line["y"] for line in data}
    assert max(max(values) for values in lines.values()) == 20
    assert (lines["GPU:0 peak so far"][0], lines["GPU:0 peak so far"][-1]) == (4, 5)
    assert "GPU:0 held at most 5 GiB of 70 GiB" in page.words
    assert "GPU 1, all processes held at most 20 GiB of 80 GiB" in page.words
    names = {line.get("name") for line in figure_of(page, "How busy GPUs and host were")["data"]}
    assert names == {None, "GPU 0", "GPU 1", "all cores", "this process"}


def test_a_stop_of_the_process_interrupts_every_line(tmp_path):
    lines = [line for line in run_lines() if not 20 < line[0] - BEGAN_S < 40]
    busy = figure_of(page_of(tmp_path, lines), "How busy GPUs and host were")
    for line in busy["data"][1:]:
        assert None in line["y"]
        assert between(line, 20.5, 39.5) == set()


def links_of(page: Page) -> set[str]:
    return {attrs["href"] or "" for _, attrs in page.all("a")}


def test_a_finding_leads_to_its_charts_and_captures(page):
    links = links_of(page)
    for key in ("stages", "input", "timeline", "placement"):
        assert any(re.fullmatch(rf"#run-\w+-{key}-title", link) for link in links)
    ids = {attrs.get("id") for _, attrs in page.tags}
    assert {link.removeprefix("#") for link in links} <= ids
    of_stall = (34, 9, BEGAN_S, 1.0, 0.0, "a/b")
    capture = records.CaptureRecord("2026_step_34", "stall", "stalls rose", *of_stall)
    run = run_of(SUMMARY, records.CaptureReport("34", capture, PROFILE))
    linked = rendered(run)
    assert any(re.fullmatch(r"#run-\w+-captures-title", link) for link in links_of(linked))
    assert "Captured: step 34, in TensorBoard's Profile tab 2026_step_34" in linked.words
    linked = rendered(run, profile_href=lambda run, capture: f"/#profile-{capture.first_step}")
    assert "/#profile-34" in links_of(linked)
    # A stage has one name in pipeline and profile.
    stages = (records.StageProfile("map", "ParallelMapV2", 0.01, 0.9, 0.01),)
    words = rendered(run_of(SUMMARY, captured(stages=stages))).words
    assert "MapDataset" not in words
    assert "decodeParallelMapV210 ms" in words


@pytest.mark.parametrize(("unknown_s", "drawn"), [(1e-14, 8), (0.5, 9)])
def test_a_run_whose_time_went_to_everything_there_is_is_drawn(tmp_path, unknown_s, drawn):
    parts = records.TimeBreakdown(8.0 + unknown_s, *(1.0,) * 7, tracing_s=1.0)
    summary = replace(SUMMARY, input=replace(SUMMARY.input, breakdown=parts))
    page = page_of(tmp_path, run_lines(summary=summary))
    assert len(figure_of(page, "Where the whole run's time went")["data"]) == drawn


def test_the_whole_time_the_stages_and_the_placement_are_drawn(page):
    bars = {bar["name"]: bar for bar in figure_of(page, "Where the whole run's time went")["data"]}
    assert (bars["compute"]["x"], bars["input"]["x"]) == ([36.0], [24.0])
    assert bars["input"]["marker"]["pattern"]["shape"] == "/"  # whether its name is in it or not
    assert sum(bar["x"][0] for bar in bars.values()) == pytest.approx(64.0)
    keeps_up, blamed = figure_of(page, "Stages of the input pipeline")["data"]
    assert (blamed["name"], blamed["x"], keeps_up["x"]) == ("bottleneck", [16.0], [2.0])
    assert (blamed["text"], keeps_up["text"]) == (["16 ms, 2 parallel"], ["2 ms, 4 parallel"])
    on_gpu, on_cpu = figure_of(page, "Where operations ran")["data"]
    assert (on_gpu["name"], on_gpu["x"]) == ("GPU:0", [190, 20, 0])
    assert (on_cpu["name"], on_cpu["x"]) == ("CPU:0", [0, 0, 2])
    for words in (
        "A step takes 15 ms, apart from its wait for input.",
        "TensorFlow has none.",
        "3.5 MiB in all.",
        "And 900 operations in 80 more rows.",
        "model/log/Cast float32[64, 14336]: 3.5 MiB",
    ):
        assert words in page.words
    placeholders = {attrs.get("placeholder") for _, attrs in page.all("input")}
    assert "layer, operation, device" in placeholders


def test_what_is_not_known_says_why_instead_of_an_empty_chart(tmp_path):
    page = page_of(tmp_path / "short", run_lines(1, summary=None))
    assert "Timeline (the run has fewer than two windows" in page.words
    assert "Where the whole run's time went (the run ended before it was recorded)" in page.words
    assert "Where a captured step's time went (nothing was captured" in page.words
    assert all(figure["data"] for figure in page.figures.values())
    # Also a run of which nothing is known has a page.
    page = page_of(tmp_path / "none", run_lines(0, summary=None)[:1])
    assert "Not judged: the run has no figures to judge by." in page.words
    assert "The run wrote no summary: its process was killed" in page.words


def test_short_windows_and_steps_have_their_units(tmp_path):
    words = page_of(tmp_path / "ms", changed(run_lines(30), "steps", duration_s=0.1)).words
    assert "In the fastest window of 100 ms a step took 2.5 ms" in words
    lines = changed(run_lines(), "steps", steps=4000)
    figure = figure_of(page_of(tmp_path / "us", lines), "Timeline")
    assert figure["layout"]["yaxis"]["title"]["text"] == "µs per step"
    assert named(figure, "waiting for input")[1]["y"][0] == pytest.approx(100)


def test_extremes_of_a_long_run_are_drawn(tmp_path):
    page = page_of(tmp_path, run_lines(MOST_POINTS + 1))
    figure = figure_of(page, "Timeline")
    (slowest,), (fastest,) = named(figure, "slowest window"), named(figure, "fastest window")
    assert max(value or 0 for value in slowest["y"]) == pytest.approx(125)
    assert min(value for value in fastest["y"] if value is not None) == pytest.approx(25)
    mean = named(figure, "waiting for input")[0]
    assert len(mean["x"]) <= MOST_POINTS
    assert max(mean["y"]) < 125


def test_a_healthy_run_and_faults_of_its_record_are_told(tmp_path):
    known = replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0)
    nothing = {"operations": None, "memory": None, "profile": records.ProfileRecord()}
    healthy = replace(SUMMARY, input=known, **nothing)
    lines = run_lines(5, summary=replace(healthy, verdict=judge(healthy)))
    path = write_lines(tmp_path, lines)
    path.write_bytes(path.read_bytes() + b"\x00\n\xff\xfe\n")
    words = page_of(tmp_path).words
    assert "good Nothing was found that slows this run down. " in words
    assert "2 lines could not be read; the first is line 30" in words


# Several runs


def test_runs_stand_run_comparison(tmp_path):
    write_lines(tmp_path / "one", run_lines(20))
    page = page_of(tmp_path, run_lines(30, began_s=BEGAN_S + 1000))
    assert "2 runs compared" in page.words
    lines = figure_of(page, "Step times of the runs")["data"]
    # A value at the end of each window, and at the begin of the first.
    assert [len(line["y"]) - line["y"].count(None) for line in lines] == [31, 21]
    assert lines[0]["marker"]["symbol"] != lines[1]["marker"]["symbol"]
    shown = {f"#{attrs['id']}" for _, attrs in page.all("section")}
    assert {"#main", *shown} <= links_of(page)
    assert len(shown) == 3


def test_of_two_runs_the_page_first_says_which_is_faster(tmp_path):
    write_lines(tmp_path / "one", run_lines(20))
    quick = replace(SUMMARY.throughput, step_time_s=0.005, examples_per_s=6400.0)
    fast = replace(SUMMARY, throughput=quick)
    write_lines(tmp_path / "two", run_lines(20, summary=fast, began_s=BEGAN_S + 1000))
    words = page_of(tmp_path).words
    assert are_in_order(words, "two is 5× faster than one: step time 25 ms → 5 ms", "Tick two")


def test_of_many_runs_only_the_newest_have_charts(tmp_path):
    for number in range(6):
        write_lines(tmp_path / str(number), run_lines(3, began_s=BEGAN_S + 100 * number))
    page = page_of(tmp_path, run_lines(3, began_s=BEGAN_S + 900))
    assert "7 runs compared" in page.words
    assert "The newest 4 are shown in full below." in page.words
    places = [attrs["class"] for _, attrs in page.all("section") if attrs.get("class")]
    assert places == ["run"] * 4 + ["run brief"] * 3


# Captures

PROFILE = records.ProfileRecord(
    steps=2,
    step_time_s=0.02,
    parts_s={"input wait": 0.012, "device compute": 0.006, "idle": 0.002},
    kinds_s={"matmul": 0.004, "elementwise": 0.002},
    stall_fraction=0.6,
    operations=(records.OperationProfile("dense/MatMul", "MatMul", "matmul", 0.008, 4, 0.7),),
    kernels=(records.KernelProfile("sgemm_128x64", "matmul", 0.008, 4, 0.7, True),),
    stages=(records.StageProfile("decode", "ParallelMapV2", 0.01, 0.9, 0.01),),
    problems=("Events were dropped.",),
)


def test_captures_that_were_not_started_are_shown_with_the_reason():
    missed = records.MissedCapture("stall", "stalls rose", 812, "one ended shortly before")
    summary = replace(SUMMARY, captures=records.ProfilerRecord(missed=(missed,)))
    for captures in ((), (captured(),)):
        words = rendered(run_of(summary, *captures)).words
        assert missed.because in words
    assert "812" in words


def test_captures_are_drawn_and_told():
    torn = records.CaptureReport("torn/vm", unread_because="It is empty.")
    page = rendered(run_of(None, captured(), torn))
    figure = figure_of(page, "Where a captured step's time went")
    bars = {bar["name"]: bar["x"] for bar in figure["data"]}
    assert bars == {"device compute": [6.0], "input wait": [12.0], "idle": [2.0]}
    for words in (
        "60 % of its time was input stall",
        "not read: It is empty.",
        "Events were dropped.",
    ):
        assert words in page.words


def captured(**changes) -> records.CaptureReport:
    return records.CaptureReport("one/vm", profile=replace(PROFILE, **changes))


def test_all_columns_of_a_capture_are_per_step():
    tables = dict(captures_chart((captured(),)).more)
    assert tables["Newest capture: computation by kind"].columns == ("kind", "time per step")
    # Profiles without a run are shown too.
    words = rendered(records.Report("logs", 0.0, "1", captures=(captured(),))).words
    assert "No run's record lists it" in words
    assert "not by a Profiler" in words


@pytest.mark.parametrize("devices", [(), (records.DeviceProfile("GPU:0", 0.5, 9),)])
def test_where_the_rest_of_the_profile_tabs_host_compute_is_without_a_gpu(devices):
    parts_s = {"host compute": 0.0117, "idle": 0.0023, "between steps": 0.0001}
    words = captures_chart((captured(parts_s=parts_s, devices=devices),)).caption
    assert "host compute 11.7 ms" in words
    more = "Profile tab counts it as host compute too, 14 ms together"
    assert (more in words) == (not devices)


# Whatever stands in the records


def test_names_stay_text_wherever_they_stand():
    report = filled(records.Report)
    # The names of figures over time are the reader's own.
    over_time = {"steps": None, "host": None, "gpus": {}, "memory": {}, "validation": None}
    run = replace(report.runs[0], **over_time)
    page = rendered(replace(report, runs=(run, run)))
    assert page.all("img") == []
    assert len(page.all("script")) == 4
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") for name in attrs)]
    assert not [link for link in links_of(page) if not link.startswith("#")]
    assert "49" not in re.sub(r"\d{3,}", "", page.words).split()
    assert page.text.count(HOSTILE) > 10
    # Plotly takes some markup in the names it draws: of stages, and of devices.
    image = "<img src=x>"  # which is not cut off
    stage = replace(DECODE, name=image, location=image)
    summary = records.RunSummary(
        records.Environment({}),
        input=replace(SUMMARY.input, pipeline=records.PipelineRecord((stage,), stage)),
        operations=replace(PLACEMENT, operations={image: {image: 3}}),
    )
    page = rendered(replace(report, runs=(records.RunReport("", "completed", summary=summary),)))
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
