"""The verdict on time outside `fit`, and on own training steps that run eagerly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keras_gpukit.records import (
    Calls,
    EagerStep,
    Environment,
    InputRecord,
    LineTime,
    RetracedFunction,
    RunSummary,
    ScriptRecord,
)
from keras_gpukit.rules import judge

FIT = Calls("fit", "train.py:45", 1, 6.0)
ADAPT = LineTime(
    *("train.py:31", "<module>", "TextVectorization.adapt", "vectorize.adapt(only_texts)", 25.0)
)
STEP = EagerStep("step", "train.py:52", True, 240, 40.0, 37.2)


def found(*before, rest=(), calls=(FIT,), wall_s=47.0, **options):
    record = ScriptRecord(wall_s, 9.0, 30.0, calls, tuple(before), tuple(rest), **options)
    findings = judge(RunSummary(Environment({}), script=record)).findings
    return [each for each in findings if each.code in ("outside-calls", "eager-step")]


def test_time_before_fit_is_named_with_its_line_and_what_to_do():
    (finding,) = found(ADAPT)
    assert finding.title == (
        "25 of 47 s passed before fit, in vectorize.adapt(only_texts) (train.py:31)"
    )
    assert "adapt(ds.batch(256))" in finding.advice[0]
    assert finding.severity == "critical"
    assert (finding.saving.low_s, finding.saving.high_s) == (0.0, 25.0)
    assert finding.saving.upper_bound


def test_time_after_the_first_call_is_outside_fit():
    (finding,) = found(rest=[replace(ADAPT, called=None, source="plot(x)")])
    assert finding.title == "25 of 47 s passed outside fit, in plot(x) (train.py:31)"
    assert finding.advice[0].startswith("if the result is the same each time, compute it once")


def test_a_function_is_named_if_no_single_line_takes_most_of_it():
    lines = [
        replace(ADAPT, function="prepare", place=f"train.py:{at}", seconds=6.0) for at in (7, 8)
    ]
    (finding,) = found(*lines, replace(lines[0], place="train.py:9", seconds=5.0))
    assert finding.title.endswith("before fit, in prepare, most of it on the line train.py:7")
    assert finding.title.startswith("17 of 47 s")
    (finding,) = found(replace(lines[0], seconds=10.0, source="clean(rows)"), lines[1])
    assert finding.title.startswith("10 of 47 s passed before fit, in clean(rows) (train.py:7)")


@pytest.mark.parametrize(
    ("source", "called", "waits_s", "advice"),
    [
        ("path = keras.utils.get_file(url)", "get_file", 20.0, "keep what was downloaded"),
        ("everything = list(ds)", "OwnedIterator.__next__", 0.0, "each element of the dataset"),
        ("everything = list(rows)", None, 0.0, "if the result is the same"),
        ("image = Image.open(path)", None, 0.0, "read files in parallel"),
        ("q.get()", "Queue.get", 20.0, "the line waits and does not compute"),
    ],
)
def test_known_lines_get_their_advice(source, called, waits_s, advice):
    (finding,) = found(replace(ADAPT, called=called, source=source, waits_s=waits_s))
    assert finding.advice[0].startswith(advice)


def test_a_line_of_plain_python_stands_for_its_function():
    line = replace(ADAPT, called=None, function="clean", source="total += value")
    (finding,) = found(line)
    assert finding.title.endswith("before fit, in clean (train.py:31)")


def test_short_or_small_times_are_no_finding():
    assert not found(replace(ADAPT, seconds=2.9), wall_s=10.0)
    assert not found(replace(ADAPT, seconds=4.6))  # under a tenth
    assert found(replace(ADAPT, seconds=4.8))[0].severity == "warning"
    assert not found(replace(ADAPT, called="Function.__call__"))  # a step of the script's own
    assert not found()


def test_seconds_of_the_script_and_of_its_run_are_compared():
    record = ScriptRecord(47.0, 9.0, 30.0, (FIT,), (ADAPT,))
    waits = InputRecord("fit", "timed", measured_steps=100, wait_s=0.03, stall_fraction=0.6)
    first, *_ = judge(RunSummary(Environment({}), input=waits, script=record)).findings
    assert first.code == "outside-calls"  # 25 of 47 s, and not 3 of 5
    little = replace(record, before=(replace(ADAPT, seconds=10.0),))
    long = replace(waits, measured_steps=1000, wait_s=0.03)
    first, *_ = judge(RunSummary(Environment({}), input=long, script=little)).findings
    assert first.code == "input-bound"


def test_an_eager_step_is_named_with_its_share():
    (finding,) = found(calls=(), eager_step=STEP)
    assert finding.title == (
        "step (train.py:52) runs eagerly: 93 % of each step are operations that Python starts one "
        "by one"
    )
    assert finding.advice[0].startswith("decorate step with @tf.function")
    assert finding.saving.high_s == 37.2
    (replicas,) = found(calls=(), eager_step=replace(STEP, in_replicas=True))
    assert replicas.title.startswith(
        "step (train.py:52) calls `strategy.run`, and runs eagerly: 93"
    )


def test_an_eager_step_without_a_function_of_its_own_needs_one():
    (finding,) = found(eager_step=replace(STEP, is_function=False, place="train.py:60"))
    assert finding.title.startswith("The step in the loop at train.py:60 runs eagerly")
    assert finding.advice[0].startswith("move the step into a function")


def test_a_step_that_is_mostly_in_a_graph_is_no_finding():
    assert not found(eager_step=replace(STEP, eager_s=3.0))


def test_a_function_that_an_own_loop_traces_again_is_named_with_its_cause():
    step = RetracedFunction("step", "train.py:52", 116, 23.2, "Python value", "weight")
    record = ScriptRecord(47.0, 9.0, 30.0, retraced=(step,))
    (finding, *_) = judge(RunSummary(Environment({}), script=record)).findings
    assert finding.title == (
        "step (train.py:52) was traced 116 times for new values of weight: 23 s of 47 s"
    )
    assert finding.severity == "critical"
    assert finding.advice[0].startswith("Pass weight to step as a tensor")
    assert finding.saving.low_s == pytest.approx(23.0)
    rarely = replace(record, retraced=(replace(step, times=2, spent_s=2.0),))
    codes = [each.code for each in judge(RunSummary(Environment({}), script=rarely)).findings]
    assert "retracing" not in codes
