"""The workers of a cluster in the report and in the panel."""

from dataclasses import replace

import pytest
from helpers.recorded_runs import SUMMARY
from helpers.screens import panel
from helpers.workers import cluster, four, ring

from keras_gpukit.records import Report, RunReport, WorkerFigures
from keras_gpukit.reports.html import render
from keras_gpukit.reports.html.bar_charts import workers_chart
from keras_gpukit.reports.html.chart import Chart, Omitted
from keras_gpukit.rules import judge
from keras_gpukit.rules.cluster.compared_workers import step_parts

LATE = four(2, extra_s=0.020)


def run(workers):
    summary = replace(SUMMARY, workers=workers)
    return RunReport("logs", "completed", "fit", 1.0, 9.0, replace(summary, verdict=judge(summary)))


def column(chart, name):
    return [row[chart.table.columns.index(name)] for row in chart.table.rows]


def missing(because):
    return run(replace(cluster(WorkerFigures(0), expected=4), unknown_because=because))


def test_each_worker_has_a_bar_and_a_row_and_the_straggler_is_named_in_words():
    chart = workers_chart(run(LATE))
    assert isinstance(chart, Chart)
    assert column(chart, "worker") == ["worker 0", "worker 1", "worker 2, straggler", "worker 3"]
    assert column(chart, "waiting for others") == ["20 ms", "19 ms", "0 µs", "17 ms"]
    assert column(chart, "exchange") == ["7 ms"] * 4
    assert "18 steps" in chart.caption
    names = [trace["name"] for trace in chart.figure["data"]]
    assert names == ["compute", "waiting for other workers", "exchange"]
    # A slow network is marked too.
    trips, members = ring(slow=1), four(exchange_s=0.1).members
    slow = cluster(*(replace(each, round_trips=trips[each.index]) for each in members))
    assert "worker 1, straggler" in column(workers_chart(run(slow)), "worker")
    page = render(Report("logs", 10.0, "1", (run(LATE),)))
    assert "Worker 2 is a straggler" in page
    assert "worker 2 arrives 17 ms after the last of the others" in page
    assert page.count("The workers next to each other") > 2  # with links to the chart


def test_workers_that_are_missing_are_said_to_be_and_a_lonely_run_has_no_chart():
    chart = workers_chart(missing("the folder is another"))
    assert isinstance(chart, Omitted)
    assert chart.because == "the folder is another"
    assert workers_chart(run(None)) is None


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (run(LATE), "4 workers compared over 18 steps"),
        (missing("others are elsewhere"), "1 of 4 workers compared: others are elsewhere"),
    ],
)
def test_the_panel_says_how_many_workers_were_compared(run, says):
    assert says in panel(run.summary, width=120)


def test_the_parts_of_a_step_add_up():
    waits = cluster(*(replace(each, input_wait_s=0.001) for each in LATE.members))
    for parts, member in zip(step_parts(waits), LATE.members, strict=True):
        whole_s = parts.input_s + parts.compute_s + parts.waiting_s + parts.exchange_s
        assert whole_s == pytest.approx(member.compared[0].duration_s)
