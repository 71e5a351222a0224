"""The panel and the markdown, from synthetic runs."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.screens import panel
from rich.console import Console

from keras_gpukit import records
from keras_gpukit.reports import units
from keras_gpukit.reports.console import print_summary
from keras_gpukit.reports.evidence import checks, saved
from keras_gpukit.reports.phrases import headline
from keras_gpukit.reports.text import markdown, placement_markdown
from keras_gpukit.rules import judge

GIB = 2**30


def judged(summary: records.RunSummary) -> records.RunSummary:
    return replace(summary, verdict=judge(summary))


HEALTHY = judged(
    records.RunSummary(
        records.Environment({}),
        throughput=records.ThroughputRecord("fit", 1200, 1180, 0.0241, 1327.0),
        input=records.InputRecord("fit", "pipeline model", "exact", 1180, 0.0002, 0.012, 1.6),
        overhead_s=3e-6,
        ending="completed",
    )
)


def healthy(**changes) -> records.RunSummary:
    return judged(replace(HEALTHY, **changes))


def waits(confidence: str, fraction: float | None, **more) -> str:
    """What the headline says of the input of such a run."""
    record = records.InputRecord("fit", confidence=confidence, stall_fraction=fraction, **more)
    return headline(replace(HEALTHY, input=record))


PLACEMENT = records.PlacementRecord(
    {"GPU:0": {"MatMul": 190}, "CPU:0": {"AsString": 2}},
    (records.Fallback("AsString", 2, "no kernel", "TensorFlow has none.", ("model/[bold]a|b",)),),
    transfers=4,
)
HOT = {"hardware thermal slowdown": 0.5}
SHARED = {"memory_others_max_bytes": 20 * GIB, "memory_total_bytes": 80 * GIB}
TROUBLED = healthy(
    environment=records.Environment(
        {},
        gpus=(records.GPUInfo(0, compute_capability=(8, 0)),),
        precision="float32",
        steps_per_execution=1,
        tf32=True,
    ),
    input=records.InputRecord("fit", "pipeline model", "exact", 1180, 0.0189, 0.784, 0.1),
    memory=records.MemoryRecord((records.DeviceMemory("GPU:0", GIB, 3 * GIB, 70 * GIB),)),
    operations=PLACEMENT,
    utilization=records.UtilizationRecord(
        *(60, (records.GPUUtilization(0, 21.0, throttle_fractions=HOT, **SHARED),)),
        records.HostUtilization(97.0, 91.0),
    ),
)


def words_of(printed: str) -> str:
    return " ".join(printed.replace("│", " ").split())


@pytest.mark.parametrize(
    "summary", [HEALTHY, TROUBLED, records.RunSummary(records.Environment({}))]
)
def test_the_panel_fits_80_columns_and_14_lines_without_colours(summary):
    text = panel(summary)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert len(text.splitlines()) <= 14
    assert "\x1b" not in text


def test_the_panel_says_what_it_is_why_and_what_to_do_next():
    text = words_of(panel(TROUBLED))
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
    details = panel(TROUBLED, details=True)
    text = words_of(details)
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
    # Each advice on input fits a line.
    advice = [line for line in details.splitlines() if "│   - " in line]
    assert [line[6:-1].strip() for line in advice[:7]] == list(TROUBLED.findings[0].advice)


@pytest.mark.parametrize("ended_by", ["KeyboardInterrupt in step 5", None])
def test_of_an_interrupted_run_it_is_not_said_that_nothing_was_found(ended_by):
    text = panel(healthy(ending="interrupted", ended_by=ended_by, ended_kind="stopped"))
    assert "The run was interrupted." in text
    assert "Nothing was found" not in text


def test_a_healthy_run_is_told_so_and_the_exception_that_ended_a_run_comes_first():
    error = {"ending": "interrupted", "ended_by": "ValueError in step 1"}
    text = words_of(panel(judged(replace(TROUBLED, **error))))
    assert "Verdict ValueError in step 1 ended the run (ended-by-error)" in text
    assert "Nothing was found" not in panel(healthy(ended_by=error["ended_by"]))
    # On a machine without a GPU there is a remark.
    assert "Verdict Nothing was found that slows this run down." in words_of(panel(HEALTHY))
    assert "Also: TensorFlow had no GPU" in panel(HEALTHY)
    assert "Nothing was found that slows this run down." in markdown(HEALTHY)


def test_what_was_not_judged_is_not_called_healthy():
    text = words_of(panel(healthy(input=None)))
    assert "Nothing was found" not in text
    assert "Verdict This run could not be judged: needs the input wait of at least 10 steps" in text
    assert "don't apply" not in text
    text = words_of(panel(healthy(input=replace(HEALTHY.input, measured_steps=3))))
    assert "Verdict Too short to judge: the wait of 3 of the 10" in text
    assert "Next Train for 10 s and 100 steps or more." in text


def test_a_run_of_two_seconds_on_two_logical_gpus_says_that_it_was_too_short():
    parts = records.TimeBreakdown(2.15, 0.0, 0.11, 0.26, 0.47, 0.84, 0.0, 0.47)
    known = {"measured_steps": 18, "wait_s": 0.0, "stall_fraction": 0.0}
    waits = records.InputRecord("fit", "batch arrival", "sampled", **known)
    h100 = records.GPUInfo(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0), logical=(0, 1))
    run = records.RunSummary(
        records.Environment({}, gpus=(h100,), steps_per_execution=1, replicas=2),
        records.ThroughputRecord("fit", 24, 18, 0.00442, 14_469.0, 2.15),
        replace(waits, breakdown=parts),
    )
    text = words_of(panel(judged(run)))
    short = "No problem seen in 2.15 s: 0 % waiting. Train longer to be sure."
    assert f"Verdict {short}" in text
    assert "Next Train for 10 s and 100 steps or more." in text
    assert "2.15 s in total: first step 0.84 s, epoch starts 0.47 s" in text
    assert short in markdown(judged(run))
    fits = records.ScriptRecord(40.0, 9.0, 2.0, (records.Calls("fit", "train.py:9", 14, 29.0),))
    text = words_of(panel(judged(replace(run, script=fits))))
    assert "Next Let one fit train for 10 s and 100 steps or more." in text
    longer = replace(parts, wall_s=7.0, compute_s=6.0)  # no profile shows what it computed
    text = words_of(panel(judged(replace(run, input=replace(run.input, breakdown=longer)))))
    assert "Verdict No problem seen in 7 s: 0 % waiting. Train longer to be sure." in text
    unread = replace(run.input, measured_steps=0, wait_s=None, stall_fraction=None)
    not_read = "tf.data's model of the pipeline could not be read"
    unread = replace(unread, unknown_because=not_read + "\nRoot Member(assigned_device" * 30)
    text = words_of(panel(judged(replace(run, input=unread))))
    assert f"Verdict This run could not be judged: {not_read}." in text
    assert "assigned_device" not in text


def test_checks_that_do_not_apply_are_counted_by_their_reason():
    too_short = {"slow-callbacks": "it took less than 5 s", "tiny-steps": "9 of the 100 steps"}
    reasons = {code: f"the run was too short: {because}" for code, because in too_short.items()}
    reasons |= {"no-gpu": "no GPU", "straggler": "one worker"}
    reasons |= {"python-in-step": "needs a profile of the steps"}
    reasons |= {"batch-copy": "needs a profile of a GPU's steps"}
    reasons |= {"input-bound": "tf.data's model cannot be read\n" * 30}
    assert checks(records.Verdict((), ("cpu-fallback",), reasons, too_short, ("straggler",))) == (
        "7 checks don't apply: the run was too short (2), no profile (2), no GPU (1), one worker "
        "(1), tf.data's model cannot be read (1)"
    )
    assert checks(records.Verdict(passed=("cpu-fallback",))) is None


@pytest.mark.parametrize(
    ("low_s", "high_s", "result"),
    [
        (0.04, 0.27, "saves 0.04 to 0.27 of 9 s"),
        (0.04, 0.57, "up to 1.1× faster (saves 0.04 to 0.57 of 9 s)"),
        (0.0, 4.5, "up to 2× faster (saves up to 4.5 of 9 s)"),
        (0.004, 4.5, "up to 2× faster (saves up to 4.5 of 9 s)"),
        (3.0, 4.5, "1.5× to 2× faster (saves 3 to 4.5 of 9 s)"),
        (5.0, 6.0, "2.2× to 3× faster (saves about 5.5 of 9 s)"),
        (3.0, None, "at least 1.5× faster (saves at least 3 of 9 s)"),
    ],
)
def test_no_saving_is_called_1_times_faster(low_s, high_s, result):
    assert saved(records.Saving(low_s, high_s, 9.0, "x")) == result


@pytest.mark.parametrize(
    ("confidence", "least", "most", "result"),
    [
        ("upper bound", 0.4, None, "input at most 40 % of the steps' time"),
        ("sampled", 0.6, 0.7, "input 60 % to 70 % of the steps' time"),
        ("sampled", 0.6, 0.61, "input about 60 % of the steps' time"),
        ("sampled", 0.0, 0.2, "input 0 % to 20 % of the steps' time"),
    ],
)
def test_how_sure_a_stall_is_and_its_range_are_told(confidence, least, most, result):
    assert result in waits(confidence, least, most_stall_fraction=most)


def test_an_interrupted_run_and_another_phase_are_named():
    predicted = records.ThroughputRecord("predict", 20, 20, 1.5, None)
    text = panel(replace(HEALTHY, throughput=predicted, ending="interrupted"))
    assert "run interrupted" in text
    assert "predict: 20 steps, 1.5 s per step" in text
    # How a run ended is not guessed.
    assert "how the run ended is unknown" in panel(replace(HEALTHY, ending=None))
    assert "ended" not in panel(HEALTHY)


def test_the_panel_prints_where_only_ascii_can_be_and_names_cannot_command_it(capsys):
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as file:
        print_summary(TROUBLED, Console(file=file, width=80))
        assert b"is spent waiting for data" in raw.getvalue()
    finding = replace(TROUBLED.findings[0], title="Steps wait for \x1b[2Jdecode\u202e\udcff")
    text = panel(replace(TROUBLED, verdict=replace(TROUBLED.verdict, findings=(finding,))))
    assert "Steps wait for \\x1b[2Jdecode\\u202e\\udcff" in text
    assert "\x1b" not in text
    print_summary(HEALTHY)  # to standard output
    assert "keras-gpukit" in capsys.readouterr().out


def test_markdown_tells_everything():
    text = markdown(TROUBLED)
    for finding in TROUBLED.findings:
        assert f"(`{finding.code}`)" in text
        assert all(f"- {line}" in text for line in finding.advice)
    assert "the wait for input explains it (" in text


ASTRAY = records.PlacedOperations(
    "AsString", "log", "CPU:0", 2, "GPU:0", False, "no kernel", "TensorFlow has none."
)
FUSED = records.PlacedOperations("MatMul", "dense", "GPU:0", 190, compiled=True)
UNEXPECTED = records.PlacedOperations("Sum", None, "CPU:0", 1, expected=False)
COPIED = records.CopiedTensor("log/Cast", "log", "float32", (64, 12288), 3 << 20)
COPIES = records.DeviceCopies("CPU:0", "GPU:0", 5, 3 << 20, 1, 2, 1, largest=(COPIED,))
UNSIZED = replace(COPIES, size_bytes=None, in_loops=0, host_only=0, largest=())
PARTS = (records.CompiledPart("StatefulPartitionedCall", "GPU:0", 190),) * 5
MANY_ROWS = tuple(
    records.PlacedOperations("Sum", f"layer_{index}", "GPU:0", 2) for index in range(50)
)
MANY_TYPES = {f"Op{count}": count for count in range(1, 33)}


@pytest.mark.parametrize(
    "case",
    [
        (
            PLACEMENT,
            "190 operations on GPU:0, 2 operations on CPU:0",
            "| AsString | 2 | TensorFlow has none. | model/[bold]a\\|b |",
            "| MatMul | 190 |",
        ),
        (records.PlacementRecord(unknown_because="no graph"), "unknown: no graph."),
        (
            replace(PLACEMENT, rows=(ASTRAY, FUSED, UNEXPECTED)),
            "| AsString | log | 2 | GPU:0 | CPU:0 | TensorFlow has none. |",
            "| MatMul | dense | 190 |  | GPU:0, XLA |  |",
            "| Sum |  | 1 |  | CPU:0 | unknown |",
        ),
        (
            replace(PLACEMENT, copies=(COPIES,)),
            "| CPU:0 | GPU:0 | 5 | 3 MiB, and 1 of unknown size; 2 in loops, counted once; "
            "1 stay in host memory | log/Cast float32[64, 12288]: 3 MiB |",
        ),
        (replace(PLACEMENT, copies=(UNSIZED,)), "| CPU:0 | GPU:0 | 5 | unknown |  |"),
        (
            replace(PLACEMENT, rows=(FUSED,), compiled_parts=PARTS, not_compilable=("AsString",)),
            "XLA compiles 190 operations into one part on GPU:0;",
            "and 2 smaller parts",
            "no device of their own",
            "before compilation",
            "XLA has no kernel for these, which stay outside: AsString.",
        ),
        (
            replace(PLACEMENT, rows=MANY_ROWS, rows_left_out=7, operations_left_out=9),
            *("layer_39", "And 29 operations in 17 more rows."),
        ),
        (records.PlacementRecord({"CPU:0": MANY_TYPES}), "| Op32 | 32 |", "And 2 rarer types."),
    ],
)
def test_placement_markdown_tells_devices_reasons_and_what_it_leaves_out(case):
    record, *words = case
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
        (units.measured(records.Figure("peak", 2 * GIB, "B")), "2 GiB"),
        (units.measured(records.Figure("operations", 1234)), "1,234"),
        (units.measured(records.Figure("wait", 0.00316, "s")), "3.16 ms"),
    ],
)
def test_units(text, expected):
    assert text == expected


DECODE = records.StageRecord("decode", "map", "decoding", "train.py:12", 0.001, 0.016, 2, 0.1, 0.97)
WATCHED = healthy(
    input=replace(
        TROUBLED.input,
        confidence="sampled",
        distribution=records.WaitDistribution(0.018, 0.025, 0.31, 0.9, 25.0),
        breakdown=records.TimeBreakdown(200.0, 120.0, 60.0, 4.0, 16.0, 0.1, 0.0, 0.0),
        pipeline_start=records.PipelineStartRecord(8, 1.5),
        pipeline=records.PipelineRecord((DECODE, replace(DECODE, name="read", share=0.0)), DECODE),
    )
)


def test_a_range_is_a_share_of_the_run_where_that_is_known():
    # Steps are half of the run.
    parts = records.TimeBreakdown(10.0, 1.0, 4.0, 0.0, 1.0, 4.0, 0.0, 0.0)
    found = waits("sampled", 0.2, most_stall_fraction=0.6, breakdown=parts)
    assert "input 10 % to 30 % of the run" in found
    assert "input about 60 % of the run" in headline(WATCHED)


def test_the_stage_that_holds_the_run_up_stands_out():
    text = markdown(WATCHED)
    assert "the bottleneck is decode (train.py:12)" in text
    assert "| decode | train.py:12 | decoding | 16 ms |  | 2 | 0.1 | bottleneck |" in text
    assert "| read | train.py:12 |" in text
    assert "| a stall every | 25 steps |" in text
    balanced = replace(WATCHED.input.pipeline, bottleneck=None, balanced_because="it keeps up")
    text = markdown(replace(WATCHED, input=replace(WATCHED.input, pipeline=balanced)))
    assert "No single stage is the bottleneck: it keeps up." in text


CAPTURE = records.CaptureRecord("run", "file", "asked for", 20, 10, 0.0, 1.0, 0.001, path="run/a")
TABS = "see TensorBoard's tabs Profile and GPU Kit"


def test_the_panel_ends_with_the_captures_and_how_to_open_the_report():
    steps = (20, 1431, 5000, 6000, 7000)
    captures = records.ProfilerRecord(tuple(replace(CAPTURE, first_step=step) for step in steps))
    text = panel(replace(TROUBLED, captures=captures), width=120, log_dir=Path("my logs"))
    *_, told, last, _ = [line.strip("│ ") for line in text.splitlines()]
    assert last == "Report with charts: keras-gpukit report 'my logs'"
    said = "5 profiles captured, at step 20, step 1,431, step 5,000, 2 more"
    assert told == f"{said}: {TABS}"


def test_captures_and_where_the_time_went_are_told():
    failed = replace(CAPTURE, path=None, failed_because="the disk is full")
    result = markdown(replace(HEALTHY, captures=records.ProfilerRecord((CAPTURE, failed))))
    assert f"1 profile captured, at step 20 (asked for): {TABS}" in result
    assert "A capture failed: the disk is full" in result
    assert "captured" not in markdown(replace(HEALTHY, captures=records.ProfilerRecord()))
    # The largest part comes first, and none that is nothing.
    text = panel(WATCHED)
    assert "3.33 min in total: input 2 min, compute 1 min, epoch starts 0.267 min" in words_of(text)
    assert "validation" not in text
    assert "in all" not in panel(HEALTHY)
