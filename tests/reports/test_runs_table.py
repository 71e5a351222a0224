"""The table of many runs: names, columns, links, and what two runs differ in."""

from dataclasses import replace

import pytest
from helpers.recorded_runs import BEGAN_S, DECODE, ENVIRONMENT, READ, SUMMARY

from keras_gpukit.records import (
    MOST_COMPARED,
    PipelineRecord,
    Report,
    RunReport,
    StageRecord,
    ThroughputRecord,
)
from keras_gpukit.reports.comparison import headline
from keras_gpukit.reports.html import render
from keras_gpukit.reports.html.runs_table import common_prefix, run_id, run_ids, runs_table
from keras_gpukit.rules.comparing.compare import compare_runs
from keras_gpukit.rules.comparing.pairs import settings_of


def run(name: str, *, began_s: float = BEGAN_S, summary=SUMMARY, **environment) -> RunReport:
    if environment:
        summary = replace(summary, environment=replace(ENVIRONMENT, **environment))
    return RunReport(
        name, "completed", "fit", began_s, began_s + 60, summary, has_time_series=False
    )


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["logs"], ""),
        (["logs", "logs #2"], ""),
        (["a/one", "b/two"], ""),
        (["sweep/adam", "sweep/sgd"], "sweep/"),
        (["x/sweep/lr-1", "x/sweep/lr-2"], "x/sweep/"),
        (["resnet50-imagenet-a", "resnet50-imagenet-b"], "resnet50-imagenet-"),
        (["a/resnet50_baseline_1", "a/resnet50_baseline_12"], "a/resnet50_baseline_"),
        (["same", "same"], ""),
    ],
)
def test_what_all_names_begin_with_is_said_once(names, prefix):
    assert common_prefix(names) == prefix
    table = runs_table([run(name) for name in names])
    assert [row.name for row in table.rows] == [name[len(prefix) :] for name in names]
    assert [row.full_name for row in table.rows] == names


def test_a_run_keeps_its_link_while_others_come_and_wherever_it_is_seen_from():
    old, new = run("sweep/a"), run("sweep/b", began_s=BEGAN_S + 5)
    assert runs_table([old]).rows[0].id == runs_table([new, old]).rows[1].id
    assert run_id(old) == run_id(run("a"))
    assert len({run_id(old), run_id(new), run_id(run("sweep/a #2"))}) == 3
    assert len(set(run_ids([old, old, old]))) == 3


def test_settings_that_differ_get_a_column_and_the_fastest_run_is_marked():
    made = [{"precision": f"mixed_{number % 2}", "cpu_count": number + 1} for number in range(6)]
    runs = [run(str(number), **settings) for number, settings in enumerate(made)]
    slow = replace(runs[0].summary, throughput=replace(SUMMARY.throughput, examples_per_s=1.0))
    table = runs_table([replace(runs[0], summary=slow), *runs[1:]])
    assert {"precision", "cores"} <= set(table.columns)
    assert "jit_compile" not in table.columns
    at = table.columns.index("precision")
    assert [row.cells[at].text for row in table.rows[:2]] == ["mixed_0", "mixed_1"]
    at = table.columns.index("examples/s")
    assert [row.cells[at].badge is not None for row in table.rows][:2] == [False, True]


def test_figures_that_no_run_has_get_no_column_and_others_are_sorted_as_numbers():
    table = runs_table([run("a"), run("b", summary=replace(SUMMARY, memory=None))])
    at = table.columns.index("peak memory")
    assert [row.cells[at].value for row in table.rows] == [5 * 2**30, None]
    assert [row.cells[at].text for row in table.rows] == ["5 GiB", "unknown"]
    at = table.columns.index("input")
    assert table.rows[0].cells[at].value == table.rows[0].cells[at].part == 0.375
    bare = replace(SUMMARY, memory=None, utilization=None)
    table = runs_table([run("a", summary=bare), run("b", summary=bare)])
    assert not {"peak memory", "GPU busy"} & set(table.columns)


def test_each_pair_of_the_newest_runs_is_compared_the_older_one_first():
    slow = replace(SUMMARY, throughput=ThroughputRecord("fit", 2400, 2398, 0.025, 2560.0, 64.0))
    cache = StageRecord("cache", "cache", "caching")
    pipeline = PipelineRecord((replace(DECODE, name="decode_fast"), cache, READ))
    slow = replace(slow, input=replace(SUMMARY.input, pipeline=pipeline))
    newer, older = run("sweep/b", began_s=BEGAN_S + 9, summary=slow), run("sweep/a")
    data = runs_table([newer, older]).data
    [(pair, compared)] = data["pairs"].items()
    assert pair == f"{run_id(older)} {run_id(newer)}"
    result = compare_runs([replace(older, name="a")], [replace(newer, name="b")])
    assert compared["headline"] == headline(result)
    tables = dict(compared["tables"])
    assert tables["Settings that differ"].rows == (("examples per step", "32", "64"),)
    stages = tables["Input pipeline, from training to the sources"]
    assert stages.columns == ("stage", "a", "b", "differs")
    bottleneck = "16 ms, 2 parallel, train.py:12, bottleneck"
    renamed = ("decode → decode_fast", bottleneck, bottleneck.rpartition(",")[0], "")
    assert renamed in stages.rows
    assert ("cache", "", "unknown", "only in b") in stages.rows


def test_pairs_of_older_runs_are_left_to_the_command():
    runs = [run(str(number), began_s=BEGAN_S - number) for number in range(MOST_COMPARED + 5)]
    data = runs_table(runs).data
    assert len(data["pairs"]) == MOST_COMPARED * (MOST_COMPARED - 1) // 2
    assert "keras-gpukit compare" in data["others"]


def test_settings_are_named_the_most_changed_first():
    result = settings_of(run("a"))
    assert result["examples per step"] == "32"
    assert result["precision"] == "float32"
    assert result["GPU 1"] == "NVIDIA H100, 80 GiB"
    assert list(result).index("precision") < list(result).index("python")


def page_of(*runs: RunReport, **options) -> str:
    return render(Report("logs", 0.0, "1", runs), plotly_src="plotly.js", **options)


def test_each_of_two_hundred_runs_is_reached_by_a_link_in_a_small_page():
    runs = [run(f"sweep/{number}", began_s=BEGAN_S + number) for number in range(200)]
    page = page_of(*runs)
    for each in runs:
        assert f'href="#{run_id(each)}"' in page
        assert f'<section id="{run_id(each)}"' in page
    assert len(page) < 2_500_000
    # A run that has a page of its own is linked to that.
    a, b = run("a"), run("b", began_s=BEGAN_S + 1)
    page = page_of(a, b, href=lambda each: "elsewhere?a&b" if each.name == "a" else None)
    assert 'href="elsewhere?a&amp;b"' in page
    assert f'<section id="{run_id(a)}"' not in page
    assert f'<section id="{run_id(b)}"' in page
