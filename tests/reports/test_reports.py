"""The panel and the markdown, from synthetic runs."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from keras_gpukit.records import (
    CaptureRecord,
    CompiledPart,
    CopiedTensor,
    DeviceCopies,
    DeviceMemory,
    Environment,
    Fallback,
    Figure,
    GPUInfo,
    GPUUtilization,
    HostUtilization,
    InputRecord,
    MemoryRecord,
    PipelineRecord,
    PipelineStartRecord,
    PlacedOperations,
    PlacementRecord,
    ProfilerRecord,
    RunSummary,
    Saving,
    StageRecord,
    ThroughputRecord,
    TimeBreakdown,
    UtilizationRecord,
    Verdict,
    WaitDistribution,
)
from keras_gpukit.reports import units
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.phrases import checks, headline, saved
from keras_gpukit.reports.placement import placement_markdown
from keras_gpukit.reports.text import markdown
from keras_gpukit.rules import judge

GIB = 2**30


def judged(summary: RunSummary) -> RunSummary:
    return replace(summary, verdict=judge(summary))


HEALTHY = judged(
    RunSummary(
        Environment({}),
        throughput=ThroughputRecord("fit", 1200, 1180, 0.0241, 1327.0),
        input=InputRecord("fit", "autotune", "exact", 1180, 0.0002, 0.012, 1.6),
        overhead_s=3e-6,
        ending="completed",
    )
)
PLACEMENT = PlacementRecord(
    {"GPU:0": {"MatMul": 190}, "CPU:0": {"AsString": 2}},
    (Fallback("AsString", 2, "no kernel", "TensorFlow has none.", ("model/[bold]a|b",)),),
    transfers=4,
)
TROUBLED = judged(
    replace(
        HEALTHY,
        environment=Environment(
            {},
            gpus=(GPUInfo(0, compute_capability=(8, 0)),),
            precision="float32",
            steps_per_execution=1,
            tf32=True,
        ),
        input=InputRecord("fit", "autotune", "exact", 1180, 0.0189, 0.784, 0.1),
        memory=MemoryRecord((DeviceMemory("GPU:0", GIB, 3 * GIB, 70 * GIB),)),
        operations=PLACEMENT,
        utilization=UtilizationRecord(
            60,
            1.0,
            (
                GPUUtilization(
                    0,
                    21.0,
                    memory_others_max_bytes=20 * GIB,
                    memory_total_bytes=80 * GIB,
                    throttle_fractions={"hardware thermal slowdown": 0.5},
                ),
            ),
            HostUtilization(97.0, 91.0),
        ),
    )
)


def printed(summary: RunSummary, encoding: str = "utf-8", *, details: bool = False) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, write_through=True) as file:
        print_summary(summary, Console(file=file, width=80), details=details)
        return raw.getvalue().decode(encoding)


def words_of(panel: str) -> str:
    return " ".join(panel.replace("│", " ").split())


@pytest.mark.parametrize("summary", [HEALTHY, TROUBLED, RunSummary(Environment({}))])
def test_the_panel_fits_80_columns_and_14_lines_without_colours(summary):
    text = printed(summary)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert len(text.splitlines()) <= 14
    assert "\x1b" not in text


def test_the_panel_says_what_it_is_why_and_what_to_do_next():
    text = words_of(printed(TROUBLED))
    for words in (
        "Verdict 78 % of the steps' time is spent waiting for data (input-bound) Why A step waits "
        "18.9 ms for its batch; the model needs 5.21 ms for it. So it waits 78 % of each step. "
        "Next ds.map(f, num_parallel_calls=tf.data.AUTOTUNE): use every core 3.9× to 6.4× faster "
        "(saves about 23 of 28.4 s)",
        "Also: Operations fell back to the CPU; The host's cores are mostly busy; 2 more in the "
        "report 1,200 steps, 24.1 ms per step, 1,327 examples/s, GPU 21 % busy, GPU:0 peak 3 GiB",
    ):
        assert words in text, text
    assert "Nothing was found" not in text


def test_the_details_have_all_figures_and_findings():
    text = words_of(printed(TROUBLED, details=True))
    for words in (
        "1,200 steps, 24.1 ms per step, 1,327 examples/s, GPU 21 % busy, "
        "GPU:0 peak 3 GiB of 70 GiB, overhead 3 µs per step",
        "critical: 78 % of the steps' time is spent waiting for data (input-bound) A step waits "
        "18.9 ms for its batch; the model needs 5.21 ms for it. So it waits 78 % of each step. "
        "3.9× to 6.4× faster (saves about 23 of 28.4 s), basis: wait.",
        "- AsString in model/[bold]a|b: TensorFlow has none.",
        "the wait for input explains it (",
    ):
        assert words in text, text


def test_each_advice_on_input_fits_a_line():
    lines = printed(TROUBLED, details=True).splitlines()
    advice = [line for line in lines if "│   - " in line]
    assert [line[6:-1].strip() for line in advice[:7]] == list(TROUBLED.findings[0].advice)


def test_a_healthy_run_is_told_so():
    # On a machine without a GPU there is a remark.
    assert "Verdict Nothing was found that slows this run down." in words_of(printed(HEALTHY))
    assert "Also: TensorFlow had no GPU" in printed(HEALTHY)
    assert "Nothing was found that slows this run down." in markdown(HEALTHY)


@pytest.mark.parametrize("ended_by", ["KeyboardInterrupt in step 5", None])
def test_of_an_interrupted_run_it_is_not_said_that_nothing_was_found(ended_by):
    text = printed(
        judged(replace(HEALTHY, ending="interrupted", ended_by=ended_by, ended_kind="stopped"))
    )
    assert "The run was interrupted." in text
    assert "Nothing was found" not in text


def test_the_exception_that_ended_a_run_comes_first():
    ended = replace(TROUBLED, ending="interrupted", ended_by="ValueError in step 1")
    text = printed(judged(ended))
    assert "Verdict ValueError in step 1 ended the run (ended-by-error)" in words_of(text)
    assert "Nothing was found" not in printed(judged(replace(HEALTHY, ended_by=ended.ended_by)))


def test_what_was_not_judged_is_not_called_healthy():
    text = words_of(printed(judged(replace(HEALTHY, input=None))))
    assert "Nothing was found" not in text
    assert "Verdict This run could not be judged: needs the input wait of at least 10 steps" in text
    assert "don't apply" not in text
    short = replace(HEALTHY, input=replace(HEALTHY.input, measured_steps=3))
    text = words_of(printed(judged(short)))
    assert "Verdict Too short to judge: the wait of 3 of the 10" in text
    assert "Next Train for 10 s and 100 steps or more." in text


def test_a_run_of_two_seconds_on_two_logical_gpus_says_that_it_was_too_short():
    parts = TimeBreakdown(2.15, 0.0, 0.11, 0.26, 0.47, 0.84, 0.0, 0.47)
    waits = InputRecord("fit", "batch arrival", "sampled", 18, wait_s=0.0, stall_fraction=0.0)
    h100 = GPUInfo(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), logical=(0, 1))
    run = RunSummary(
        Environment({}, gpus=(h100,), steps_per_execution=1, replicas=2),
        ThroughputRecord("fit", 24, 18, 0.00442, 14_469.0, 2.15),
        replace(waits, breakdown=parts),
    )
    text = words_of(printed(judged(run)))
    short = "No problem seen in 2.15 s: 0 % waiting. Train longer to be sure."
    assert f"Verdict {short}" in text
    assert "Next Train for 10 s and 100 steps or more." in text
    assert "2.15 s in total: first step 0.84 s, epoch starts 0.47 s" in text
    assert short in markdown(judged(run))
    longer = replace(parts, wall_s=7.0, compute_s=6.0)  # no profile shows what it computed
    text = words_of(printed(judged(replace(run, input=replace(run.input, breakdown=longer)))))
    assert "Verdict No problem seen in 7 s: 0 % waiting. Train longer to be sure." in text
    unread = replace(run.input, measured_steps=0, wait_s=None, stall_fraction=None)
    not_read = "tf.data's model of the pipeline could not be read"
    unread = replace(unread, unknown_because=not_read + "\nRoot Member(assigned_device" * 30)
    text = words_of(printed(judged(replace(run, input=unread))))
    assert f"Verdict This run could not be judged: {not_read}." in text
    assert "assigned_device" not in text


def test_checks_that_do_not_apply_are_counted_by_their_reason():
    too_short = {"slow-callbacks": "it took less than 5 s", "tiny-steps": "9 of the 100 steps"}
    reasons = {
        "no-gpu": "no GPU",
        **{code: f"the run was too short: {because}" for code, because in too_short.items()},
        "straggler": "one worker",
        "python-in-step": "needs a profile of the steps",
        "batch-copy": "needs a profile of a GPU's steps",
        "input-bound": "tf.data's model cannot be read\n" * 30,
    }
    assert checks(Verdict((), ("cpu-fallback",), reasons, too_short, ("straggler",))) == (
        "7 checks don't apply: the run was too short (2), no profile (2), no GPU (1), one worker "
        "(1), tf.data's model cannot be read (1)"
    )
    assert checks(Verdict(passed=("cpu-fallback",))) is None


@pytest.mark.parametrize(
    ("low_s", "high_s", "result"),
    [
        (0.04, 0.27, "saves 0.04 to 0.27 of 9 s"),
        (0.04, 0.57, "up to 1.1× faster (saves 0.04 to 0.57 of 9 s)"),
        (0.0, 4.5, "up to 2× faster (saves up to 4.5 of 9 s)"),
        (3.0, 4.5, "1.5× to 2× faster (saves 3 to 4.5 of 9 s)"),
        (5.0, 6.0, "2.2× to 3× faster (saves about 5.5 of 9 s)"),
        (3.0, None, "at least 1.5× faster (saves at least 3 of 9 s)"),
    ],
)
def test_no_saving_is_called_1_times_faster(low_s, high_s, result):
    assert saved(Saving(low_s, high_s, 9.0, "x")) == result


def test_an_upper_bound_is_told_as_one():
    record = InputRecord("fit", "proxy", "upper bound", 1180, 0.01, 0.4)
    assert "input at most 40 % of the steps' time" in headline(replace(HEALTHY, input=record))


def test_an_interrupted_run_and_another_phase_are_named():
    predicted = ThroughputRecord("predict", 20, 20, 1.5, None)
    text = printed(replace(HEALTHY, throughput=predicted, ending="interrupted"))
    assert "run interrupted" in text
    assert "predict: 20 steps, 1.5 s per step" in text


def test_how_a_run_ended_is_not_guessed():
    assert "how the run ended is unknown" in printed(replace(HEALTHY, ending=None))
    assert "ended" not in printed(HEALTHY)


def test_the_panel_prints_where_only_ascii_can_be():
    assert "is spent waiting for data" in printed(TROUBLED, encoding="ascii")


def test_names_cannot_command_the_terminal():
    finding = replace(TROUBLED.findings[0], title="Steps wait for \x1b[2Jdecode\u202e\udcff")
    text = printed(replace(TROUBLED, verdict=replace(TROUBLED.verdict, findings=(finding,))))
    assert "Steps wait for \\x1b[2Jdecode\\u202e\\udcff" in text
    assert "\x1b" not in text


def test_printing_goes_to_standard_output(capsys):
    print_summary(HEALTHY)
    assert "keras-gpukit" in capsys.readouterr().out


def test_markdown_tells_everything():
    text = markdown(TROUBLED)
    for finding in TROUBLED.findings:
        assert f"(`{finding.code}`)" in text
        assert all(f"- {line}" in text for line in finding.advice)
    assert "the wait for input explains it (" in text


ASTRAY = PlacedOperations(
    "AsString", "log", "CPU:0", 2, "GPU:0", False, "no kernel", "TensorFlow has none."
)
FUSED = PlacedOperations("MatMul", "dense", "GPU:0", 190, compiled=True)
UNEXPECTED = PlacedOperations("Sum", None, "CPU:0", 1, expected=False)
COPIES = DeviceCopies(
    "CPU:0",
    "GPU:0",
    5,
    3 << 20,
    unknown=1,
    in_loops=2,
    host_only=1,
    largest=(CopiedTensor("log/Cast", "log", "float32", (64, 12288), 3 << 20),),
)
UNSIZED = replace(COPIES, size_bytes=None, in_loops=0, host_only=0, largest=())
PARTS = (CompiledPart("StatefulPartitionedCall", "GPU:0", 190),) * 5
MANY_ROWS = tuple(PlacedOperations("Sum", f"layer_{index}", "GPU:0", 2) for index in range(50))
MANY_TYPES = {f"Op{count}": count for count in range(1, 33)}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (
            PLACEMENT,
            (
                "190 operations on GPU:0, 2 operations on CPU:0",
                "| AsString | 2 | TensorFlow has none. | model/[bold]a\\|b |",
                "| MatMul | 190 |",
            ),
        ),
        (PlacementRecord(unknown_because="no graph"), ("unknown: no graph.",)),
        (
            replace(PLACEMENT, rows=(ASTRAY, FUSED, UNEXPECTED)),
            (
                "| AsString | log | 2 | GPU:0 | CPU:0 | TensorFlow has none. |",
                "| MatMul | dense | 190 |  | GPU:0, XLA |  |",
                "| Sum |  | 1 |  | CPU:0 | unknown |",
            ),
        ),
        (
            replace(PLACEMENT, copies=(COPIES,)),
            (
                "| CPU:0 | GPU:0 | 5 | 3 MiB, and 1 of unknown size; 2 in loops, counted once; "
                "1 stay in host memory | log/Cast float32[64, 12288]: 3 MiB |",
            ),
        ),
        (replace(PLACEMENT, copies=(UNSIZED,)), ("| CPU:0 | GPU:0 | 5 | unknown |  |",)),
        (
            replace(PLACEMENT, rows=(FUSED,), compiled_parts=PARTS, not_compilable=("AsString",)),
            (
                "XLA compiles 190 operations into one part on GPU:0;",
                "and 2 smaller parts",
                "no device of their own",
                "before compilation",
                "XLA has no kernel for these, which stay outside: AsString.",
            ),
        ),
        (
            replace(PLACEMENT, rows=MANY_ROWS, rows_left_out=7, operations_left_out=9),
            ("layer_39", "And 29 operations in 17 more rows."),
        ),
        (PlacementRecord({"CPU:0": MANY_TYPES}), ("| Op32 | 32 |", "And 2 rarer types.")),
    ],
)
def test_placement_markdown_tells_devices_reasons_and_what_it_leaves_out(record, words):
    text = placement_markdown(record)
    for each in words:
        assert each in text
    assert ("no device of their own" in text) == bool(record.compiled_parts)
    assert "layer_40" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.size(0), "0 B"),
        (units.size(1536), "1.5 KiB"),
        (units.size(1000 * 2**20), "1,000 MiB"),
        (units.size(80 * GIB), "80 GiB"),
        (units.size(3 * 1024**5), "3,072 TiB"),
        (units.duration(3e-6), "3 µs"),
        (units.duration(0.0241), "24.1 ms"),
        (units.duration(90), "90 s"),
        (units.duration(600), "10 min"),
        (units.duration(9000), "2.5 h"),
        (units.duration_of(107, 300), "1.78 min"),
        (units.duration_of(12, 10_800), "12 s"),
        (units.percentage(0.012), "1.2 %"),
        (units.measured(Figure("peak", 2 * GIB, "B")), "2 GiB"),
        (units.measured(Figure("operations", 1234)), "1,234"),
        (units.measured(Figure("wait", 0.00316, "s")), "3.16 ms"),
    ],
)
def test_units(text, expected):
    assert text == expected


DECODE = StageRecord("decode", "map", "decoding", "train.py:12", 0.001, 0.016, 2, None, 0.1, 0.97)
WATCHED = judged(
    replace(
        HEALTHY,
        input=replace(
            TROUBLED.input,
            confidence="sampled",
            distribution=WaitDistribution(0.018, 0.025, 0.31, 0.9, 25.0),
            breakdown=TimeBreakdown(200.0, 120.0, 60.0, 4.0, 16.0, 0.1, 0.0, 0.0),
            pipeline_start=PipelineStartRecord(8, 1.5),
            pipeline=PipelineRecord((DECODE, replace(DECODE, name="read", share=0.0)), DECODE),
        ),
    )
)


def test_a_sampled_stall_is_told_as_about():
    assert "input about 60 % of the run" in headline(WATCHED)


@pytest.mark.parametrize(
    ("least", "most", "result"),
    [
        (0.6, 0.7, "input 60 % to 70 % of the steps' time"),
        (0.6, 0.61, "input about 60 % of the steps' time"),
        (0.0, 0.2, "input 0 % to 20 % of the steps' time"),
    ],
)
def test_a_range_of_a_stall_is_told_if_it_is_wide(least, most, result):
    record = InputRecord(
        "fit", confidence="sampled", stall_fraction=least, most_stall_fraction=most
    )
    assert result in headline(replace(HEALTHY, input=record))


def test_a_range_is_a_share_of_the_run_where_that_is_known():
    # Steps are half of the run.
    parts = TimeBreakdown(10.0, 1.0, 4.0, 0.0, 1.0, 4.0, 0.0, 0.0)
    record = InputRecord(
        "fit",
        confidence="sampled",
        stall_fraction=0.2,
        most_stall_fraction=0.6,
        breakdown=parts,
    )
    assert "input 10 % to 30 % of the run" in headline(replace(HEALTHY, input=record))


def test_where_the_time_went_comes_largest_first_without_what_is_nothing():
    text = printed(WATCHED)
    assert "3.33 min in total: input 2 min, compute 1 min, epoch starts 0.267 min" in words_of(text)
    assert "validation" not in text
    assert "in all" not in printed(HEALTHY)


def test_the_stage_that_holds_the_run_up_stands_out():
    text = markdown(WATCHED)
    assert "the bottleneck is decode (train.py:12)" in text
    assert "| decode | train.py:12 | decoding | 16 ms |  | 2 | 0.1 | bottleneck |" in text
    assert "| read | train.py:12 |" in text
    assert "| a stall every | 25 steps |" in text
    balanced = replace(WATCHED.input.pipeline, bottleneck=None, balanced_because="it keeps up")
    text = markdown(replace(WATCHED, input=replace(WATCHED.input, pipeline=balanced)))
    assert "No single stage is the bottleneck: it keeps up." in text


def test_the_panel_ends_with_the_captures_and_how_to_open_the_report():
    captures = tuple(
        CaptureRecord("run", "file", "asked for", step, 10, 0.0, 1.0, 0.001, path="run/vm.pb")
        for step in (20, 1431, 5000, 6000, 7000)
    )
    summary = replace(TROUBLED, captures=ProfilerRecord(captures))
    with (console := Console(width=120)).capture() as shown:
        print_summary(summary, console, Path("my logs"))
    lines = [line.strip("│ ") for line in shown.get().splitlines()]
    assert lines[-2] == "Report with charts: keras-gpukit report 'my logs'"
    assert lines[-3] == (
        "5 profiles captured, at step 20, step 1,431, step 5,000, 2 more: see TensorBoard's tabs "
        "Profile and GPU Kit"
    )


def test_captures_are_told():
    one = CaptureRecord("run", "file", "asked for", 20, 10, 0.0, 1.0, 0.001, path="run/vm.pb")
    failed = replace(one, path=None, failed_because="the disk is full")
    result = markdown(replace(HEALTHY, captures=ProfilerRecord((one, failed))))
    where = "see TensorBoard's tabs Profile and GPU Kit"
    assert f"1 profile captured, at step 20 (asked for): {where}" in result
    assert "A capture failed: the disk is full" in result
    assert "captured" not in markdown(replace(HEALTHY, captures=ProfilerRecord()))
