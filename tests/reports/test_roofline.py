"""The roofline in the report, and the same sentence in the panel and in TensorBoard."""

from dataclasses import replace

from helpers.recorded_runs import SUMMARY
from helpers.screens import panel

from keras_gpukit.records import GPUInfo, Report, RunReport, StepFlops
from keras_gpukit.reports.html import render
from keras_gpukit.reports.html.chart import Chart, Omitted
from keras_gpukit.reports.html.computation import roofline_table
from keras_gpukit.reports.layers import near_the_limits
from keras_gpukit.reports.text import markdown

FLOPS = StepFlops({"bfloat16": 10**12}, 5 * 10**9, ("Relu", "Sum"))
GPUS = (GPUInfo(0, "NVIDIA A100-SXM4-40GB", compute_capability=(8, 0)),)


def run(flops=FLOPS, **settings):
    environment = replace(SUMMARY.environment, gpus=GPUS, **settings)
    return RunReport(
        "logs", "completed", "fit", 1.0, 9.0, replace(SUMMARY, environment=environment, flops=flops)
    )


def test_the_figures_of_a_run_are_a_table():
    chart = roofline_table(run())
    assert isinstance(chart, Chart)
    assert chart.figure is None
    assert {("share of the peak", "13 %"), ("FLOPs per byte", "200")} < set(chart.table.rows)
    uncounted = dict(chart.more)["Operations whose arithmetic is not counted"]
    assert uncounted.rows == (("Relu",), ("Sum",))
    assert "NVIDIA's data sheet" in chart.caption
    assert ("bytes moved", "unknown") in roofline_table(run(jit_compile=True)).table.rows
    unknown = roofline_table(run(StepFlops(unknown_because="eager steps have no graph")))
    assert isinstance(unknown, Omitted)
    assert "eager steps have no graph" in unknown.because
    assert roofline_table(run(None)) is None


def test_panel_text_and_page_have_the_sentence():
    report = run()
    sentence = near_the_limits(report.summary)
    assert sentence.startswith("40 TFLOP/s, 13 % of the GPU's 312 in bfloat16")
    assert sentence in panel(report.summary, width=300)
    assert sentence in markdown(report.summary)
    page = render(Report("logs", 10.0, "0.1.0", (report,)), plotly_src="plotly.js")
    assert "40 TFLOP/s, 13 % of the GPU&#39;s 312 in bfloat16" in page
