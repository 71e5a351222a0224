"""Captured profiles in the reports: the verdict first, then the step, then its layers."""

from dataclasses import replace

import pytest
from helpers.pages import Page, are_in_order, figure_of, rendered
from helpers.recorded_profiles import write_profile
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, write_lines
from helpers.screens import panel

from keras_gpukit.records import (
    CaptureRecord,
    CaptureReport,
    DeviceProfile,
    KernelProfile,
    LayerProfile,
    ProfileRecord,
    Report,
)
from keras_gpukit.reports.text import markdown
from keras_gpukit.rules.verdict import of_profile
from keras_gpukit.saved_runs.log_folder import load_report

EIGEN = "void Eigen::internal::EigenMetaKernel<scalar_product_op>"
BATCH_NORM = LayerProfile(
    "functional/bn_1",
    "layer",
    time_s=0.006,
    backward_s=0.004,
    kinds_s={"elementwise": 0.0045, "reduction": 0.0015},
    kernels=41.0,
    tensor_core_fraction=0.0,
    largest=(KernelProfile(EIGEN, "elementwise", 0.036, 160, 0.75, False, "functional/bn_1/mul"),),
)
PROFILE = ProfileRecord(
    steps=8,
    step_time_s=0.01,
    parts_s={"device compute": 0.009, "idle": 0.001},
    kinds_s={"elementwise": 0.0055, "reduction": 0.0015, "matmul": 0.002},
    stall_fraction=0.0,
    devices=(DeviceProfile("GPU:0", 0.9, 400, tensor_core_fraction=0.2),),
    kernels=(KernelProfile(EIGEN, "elementwise", 0.036, 160, 0.5, False),),
    layers=(
        LayerProfile("functional/dense", "layer", 0.002, 0.001, {"matmul": 0.002}, 5.0, 1.0),
        BATCH_NORM,
        LayerProfile("optimizer", "optimizer", 0.0008, 0.0, {"elementwise": 0.0008}, 6.0, 0.0),
        LayerProfile("other operations", "other", 0.0002, 0.0, {"elementwise": 0.0002}, 1.0, 0.0),
    ),
)


UNJUDGED = "This profile could not be judged:"


def page_of(profile: ProfileRecord) -> Page:
    capture = CaptureReport("train/vm", profile=profile)
    return rendered(Report("logs", 0.0, "1", captures=(capture,)))


def test_each_layer_has_a_bar_of_its_forward_and_backward_pass():
    figure = figure_of(page_of(PROFILE), "Time by layer")
    names = figure["layout"]["yaxis"]["ticktext"]
    assert names == ["bn_1", "dense", "optimizer", "other operations"]
    assert {bar["name"]: bar["x"] for bar in figure["data"]} == {
        "forward": [2.0, 1.0, 0.0, 0.0],
        "backward": [4.0, 1.0, 0.0, 0.0],
        "optimizer": [0.0, 0.0, 0.8, 0.0],
        "of no layer": [0.0, 0.0, 0.0, 0.2],
    }


def test_kinds_are_in_plain_words_and_kernels_keep_their_own_names_in_the_numbers():
    page = page_of(PROFILE)
    text = page.words[page.words.index("A step computes for 9 ms on GPU:0") :]
    seen, numbers = text.split("The numbers: Time by layer", 1)
    assert "elementwise 61 %, matrix product 22 %, reduction 17 %. 20 % of it in Tensor" in seen
    assert "bn_1" in seen
    assert EIGEN not in seen
    assert EIGEN in numbers


def test_of_many_layers_the_largest_have_bars_and_all_are_in_the_numbers():
    layers = [replace(BATCH_NORM, path=f"m/bn_{n}", time_s=0.01 - n / 1e4) for n in range(30)]
    page = page_of(replace(PROFILE, layers=tuple(layers)))
    names = figure_of(page, "Time by layer")["layout"]["yaxis"]["ticktext"]
    assert names == [f"bn_{n}" for n in range(12)]
    assert "18 smaller layers, 56 % of it together, are in the numbers." in page.words
    assert all(f"bn_{n}" in page.text for n in range(30))
    assert "batch normalization ×30100 %elementwise 75 %0 %" in page.words
    words = page_of(replace(PROFILE, layers=())).words
    assert "Time by layer (nothing was computed in the steps of the profile)" in words


def test_a_profile_of_another_tool_is_judged_and_its_charts_follow():
    assert are_in_order(
        page_of(replace(PROFILE, stall_fraction=0.4)).words,
        "40 % of the steps' time is spent waiting for data",
        "Where a captured step's time went One profile.",
        "Time by layer A step computes for",
    )


def test_where_the_steps_compute_badly_their_charts_come_before_those_of_the_run(tmp_path):
    path = write_profile(tmp_path, "convolutional")
    record = CaptureRecord("one", "steps", "step 20", 20, 2, BEGAN_S, 0.1, 0.0, path)
    healthy = replace(SUMMARY, input=replace(SUMMARY.input, wait_s=0.0, stall_fraction=0.0))
    lines = run_lines(20, summary=replace(healthy, operations=None, memory=None))
    write_lines(tmp_path, [*lines, (BEGAN_S + 30, 20, "capture", record)])
    assert are_in_order(
        rendered(load_report(tmp_path)).words,
        "critical 66 % of the GPU time is batch normalization",
        "Where a captured step's time went One profile.",
        "Time by layer A step computes for",
        "Where the whole run's time went 64 s in total",
    )


@pytest.mark.parametrize(
    ("profile", "verdict"),
    [
        (PROFILE, "Nothing was found that slows the captured steps down."),
        (replace(PROFILE, steps=1), f"{UNJUDGED} the profile has fewer than 2 complete steps."),
        (ProfileRecord(stall_unknown_because="No step."), f"{UNJUDGED} No step."),
    ],
)
def test_without_a_finding_it_says_what_was_judged(profile, verdict):
    quick = {"kinds_s": {"matmul": 0.009}, "layers": ()} if profile.steps else {}
    assert verdict in page_of(replace(profile, **quick)).words


def test_the_panel_has_a_line_on_the_captured_step():
    text = panel(of_profile(PROFILE), width=200, title="[red]mine")
    assert "[red]mine" in text
    assert (
        "A captured step of 10 ms: device compute 90 %, idle 10 %. By kind of layer: bn_1 67 %, "
        "dense 22 %, optimizer 8.9 %"
    ) in text
    # The text for TensorBoard has a table of the layers.
    text = markdown(of_profile(PROFILE))
    assert "### Time by kind of layer\n\n| kind of layer | share | mostly | Tensor Cores |" in text
    assert "\n| bn_1 | 67 % |" in text
    assert "Time by kind of layer" not in markdown(of_profile(replace(PROFILE, layers=())))


@pytest.mark.parametrize("watched", [True, False])
def test_a_profile_that_the_run_did_not_read_counts_in_its_report(tmp_path, watched):
    """A `Profiler` captures next to a `Monitor`, or alone; the report reads what it captured."""
    path = write_profile(tmp_path, "transformer")
    record = CaptureRecord("one", "steps", "step 20", 20, 2, BEGAN_S, 0.1, 0.0, path)
    lines = run_lines(20) if watched else run_lines(0, summary=None)[:1]
    write_lines(tmp_path, [*lines, (BEGAN_S + 30, 20, "capture", record)])
    (run,) = load_report(tmp_path).runs
    assert run.summary.profile.layers
    assert run.summary.environment.gpus
    found = [each.title for each in run.summary.findings]
    assert any(each.startswith("24 % of the GPU time is the bias gradient") for each in found)
    assert load_report(tmp_path).captures == ()
