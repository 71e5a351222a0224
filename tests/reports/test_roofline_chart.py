"""The roofline in the report, and the same sentence in the panel and in TensorBoard."""

from __future__ import annotations

from dataclasses import replace

from helpers.recorded_runs import SUMMARY
from rich.console import Console

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.flops import StepFlops
from keras_gpukit.records.report import Report, RunReport
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.html import render
from keras_gpukit.reports.html.chart import Chart, Omitted
from keras_gpukit.reports.html.roofline_chart import roofline_chart
from keras_gpukit.reports.roofline import near_the_limits
from keras_gpukit.reports.text import markdown

FLOPS = StepFlops({"bfloat16": 10**12}, 5 * 10**9, ("Relu", "Sum"))
GPUS = (GPUInfo(0, "NVIDIA A100-SXM4-40GB", compute_capability=(8, 0)),)


def run(flops=FLOPS, **settings):
    environment = replace(SUMMARY.environment, gpus=GPUS, **settings)
    return RunReport(
        "logs", "completed", "fit", 1.0, 9.0, replace(SUMMARY, environment=environment, flops=flops)
    )


def test_the_run_is_a_point_below_the_lines_of_its_gpu():
    chart = roofline_chart(run())
    assert isinstance(chart, Chart)
    line, point = chart.figure["data"]
    assert (line["name"], line["y"][1:]) == ("at most, bfloat16", [312, 312])
    assert line["x"][1] == 1000 * 312 / 1555
    assert (point["mode"], point["x"], point["y"]) == ("markers", [200.0], [40.0])
    assert ("share of the peak", "13 %") in chart.table.rows
    assert dict(chart.more)["Operations whose arithmetic is not counted"].rows == (
        ("Relu",),
        ("Sum",),
    )
    assert "NVIDIA's data sheet" in chart.caption


def test_without_bytes_the_run_is_a_line():
    chart = roofline_chart(run(jit_compile=True))
    assert chart.figure["data"][1]["mode"] == "lines"
    assert chart.figure["data"][1]["y"] == [40.0, 40.0]
    assert "How many bytes the step moves is unknown" in chart.caption


def test_what_is_unknown_says_why():
    chart = roofline_chart(run(StepFlops(unknown_because="eager steps have no graph")))
    assert isinstance(chart, Omitted)
    assert "eager steps have no graph" in chart.because
    assert roofline_chart(run(None)) is None


def test_panel_text_and_page_have_the_sentence():
    report = run()
    sentence = near_the_limits(report.summary)
    assert sentence.startswith("40 TFLOP/s, 13 % of the GPU's 312 in bfloat16")
    console = Console(width=300, record=True)
    print_summary(report.summary, console)
    assert sentence in console.export_text()
    assert sentence in markdown(report.summary)
    page = render(Report("logs", 10.0, "0.1.0", (report,)), plotly_src="plotly.js")
    assert "40 TFLOP/s, 13 % of the GPU&#39;s 312 in bfloat16" in page
