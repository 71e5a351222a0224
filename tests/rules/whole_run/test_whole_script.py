"""What the script itself takes time for: its own profiles, and lines outside of calls."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, codes
from helpers.findings import found as finding
from helpers.summaries import stall

from keras_gpukit import records
from keras_gpukit.records import Environment, RunSummary, ScriptProfile, ScriptRecord
from keras_gpukit.rules import judge

FIT = records.Calls("fit", "train.py:45", 1, 6.0)
ADAPT = records.LineTime(
    *("train.py:31", "<module>", "TextVectorization.adapt", "vectorize.adapt(only_texts)", 25.0)
)
STEP = records.EagerStep("step", "train.py:52", True, 240, 40.0, 37.2)


def found(*before, rest=(), calls=(FIT,), wall_s=47.0, **options):
    record = records.ScriptRecord(wall_s, 9.0, 30.0, calls, tuple(before), tuple(rest), **options)
    findings = judge(records.RunSummary(records.Environment({}), script=record)).findings
    return [each for each in findings if each.code in ("outside-calls", "eager-step")]


def test_time_before_fit_is_named_with_its_line_and_what_to_do():
    (finding,) = found(ADAPT)
    assert finding.title == (
        "25 of 47 s passed before fit, in vectorize.adapt(only_texts) (train.py:31)"
    )
    assert "adapt(ds.batch(256))" in finding.advice[0]
    assert (finding.severity, *bounds(finding)) == ("critical", 0.0, 25.0)
    assert finding.saving.upper_bound
    # After the first call, it is outside.
    (finding,) = found(rest=[replace(ADAPT, called=None, source="plot(x)")])
    assert finding.title == "25 of 47 s passed outside fit, in plot(x) (train.py:31)"
    assert finding.advice[0].startswith("if the result is the same each time, compute it once")


def test_a_function_is_named_if_no_single_line_takes_most_of_it():
    one, other, last = (
        replace(ADAPT, function="prepare", place=f"train.py:{at}", seconds=6.0) for at in (7, 8, 9)
    )
    (finding,) = found(one, other, replace(last, seconds=5.0))
    assert finding.title.endswith("before fit, in prepare, most of it on the line train.py:7")
    assert finding.title.startswith("17 of 47 s")
    (finding,) = found(replace(one, seconds=10.0, source="clean(rows)"), other)
    assert finding.title.startswith("10 of 47 s passed before fit, in clean(rows) (train.py:7)")
    # A line of plain Python stands for its function.
    line = replace(ADAPT, called=None, function="clean", source="total += value")
    assert found(line)[0].title.endswith("before fit, in clean (train.py:31)")


@pytest.mark.parametrize(
    ("source", "called", "waits_s", "advice"),
    [
        ("path = keras.utils.get_file(url)", "get_file", 20.0, "keep what was downloaded"),
        ("everything = list(ds)", "OwnedIterator.__next__", 0.0, "each element of the dataset"),
        ("everything = list(rows)", None, 0.0, "if the result is the same"),
        ("tf.ragged.constant(rows)", "constant", 0.0, "tf.RaggedTensor.from_row_lengths"),
        ("x = np.append(x, row)", "append", 0.0, "collect what is new in a list"),
        ("image = Image.open(path)", None, 0.0, "read files in parallel"),
        ("q.get()", "Queue.get", 20.0, "the line waits and does not compute"),
    ],
)
def test_known_lines_get_their_advice(source, called, waits_s, advice):
    (finding,) = found(replace(ADAPT, called=called, source=source, waits_s=waits_s))
    assert finding.advice[0].startswith(advice)


@pytest.mark.parametrize(
    ("source", "called", "named"),
    [
        (
            "clicks = tf.ragged.constant(histories_of_users, dtype=tf.int32)",
            "constant",
            "tf.ragged.constant",
        ),
        (
            "text.adapt(rows_of_the_whole_data_set_of_last_year_and_this)",
            "Text.adapt",
            "text.adapt",
        ),
        (
            "vocabulary = terms_of(rows_of_the_whole_data_set_of_last_year)",
            "Text.adapt",
            "Text.adapt",
        ),
        (
            "return roc_auc_score(truth[:, usable], score[:, usable], average='macro')",
            "wrapper",
            "return roc_auc_score(truth[:, usable], score[:, u…",
        ),
    ],
)
def test_what_a_long_line_calls_is_named_as_the_script_writes_it(source, called, named):
    (finding,) = found(replace(ADAPT, called=called, source=source))
    assert finding.title.endswith(f"in {named} (train.py:31)")


def test_short_or_small_times_are_no_finding():
    assert not found(replace(ADAPT, seconds=2.9), wall_s=10.0)
    assert not found(replace(ADAPT, seconds=4.6))  # under a tenth
    assert found(replace(ADAPT, seconds=4.8))[0].severity == "warning"
    assert not found()


def test_steps_of_the_script_s_own_are_named_where_fit_takes_little():
    step = replace(ADAPT, called="Function.__call__", source="loss = train_step(batch)")
    assert not found(step, calls=())  # the loop is judged by itself
    (finding,) = found(step)
    assert finding.title == (
        "25 of 47 s passed in calls of a tf.function of the script's own, train_step(batch) "
        "(train.py:31), outside fit"
    )
    assert finding.saving is None
    assert "Trace('train'" in finding.advice[0]


def test_seconds_of_the_script_and_of_its_run_are_compared():
    record = records.ScriptRecord(47.0, 9.0, 30.0, (FIT,), (ADAPT,))
    little = replace(record, before=(replace(ADAPT, seconds=10.0),))
    for script, steps, first in (
        (record, 100, "outside-calls"),  # 25 of 47 s, and not 3 of 5
        (little, 1000, "input-bound"),
    ):
        waits = stall(0.6, None, steps, wait_s=0.03)
        assert (
            codes(records.RunSummary(records.Environment({}), input=waits, script=script))[0]
            == first
        )


def test_an_eager_step_is_named_with_its_share():
    (finding,) = found(calls=(), eager_step=STEP)
    assert finding.title == (
        "step (train.py:52) runs eagerly: 93 % of each step are operations that Python starts one "
        "by one"
    )
    assert finding.advice[0].startswith("decorate step with @tf.function")
    assert finding.saving.high_s == 37.2
    (replicas,) = found(calls=(), eager_step=replace(STEP, in_replicas=True))
    words = "step (train.py:52) calls `strategy.run`, and runs eagerly: 93"
    assert replicas.title.startswith(words)
    # Without a function of its own, it needs one.
    (finding,) = found(eager_step=replace(STEP, is_function=False, place="train.py:60"))
    assert finding.title.startswith("The step in the loop at train.py:60 runs eagerly")
    assert finding.advice[0].startswith("move the step into a function")
    assert not found(eager_step=replace(STEP, eager_s=3.0))  # mostly in a graph


def test_a_function_that_an_own_loop_traces_again_is_named_with_its_cause():
    step = records.RetracedFunction("step", "train.py:52", 116, 23.2, "Python value", "weight")
    record = records.ScriptRecord(47.0, 9.0, 30.0, retraced=(step,))
    (finding, *_) = judge(records.RunSummary(records.Environment({}), script=record)).findings
    assert finding.title == (
        "step (train.py:52) was traced 116 times for new values of weight: 23 s of 47 s"
    )
    assert finding.severity == "critical"
    assert finding.advice[0].startswith("Pass weight to step as a tensor")
    assert finding.saving.low_s == pytest.approx(23.0)
    rarely = replace(record, retraced=(replace(step, times=2, spent_s=2.0),))
    assert "retracing" not in codes(records.RunSummary(records.Environment({}), script=rarely))


def of_profile(*profiles):
    script = ScriptRecord(42.0, 8.0, 2.0, profiles=profiles)
    return finding("own-profile", RunSummary(Environment({}), script=script))


def test_a_profile_of_a_whole_fit_is_named_with_its_line_and_what_ending_it_took():
    whole = of_profile(ScriptProfile("train.py:44", 15.0, 1, 9.0))
    assert whole.title == (
        "A TensorFlow profiler recorded the whole fit (started at train.py:44); its stop() took "
        "9.0 s"
    )
    assert (whole.severity, *bounds(whole)) == ("critical", pytest.approx(6.3), None)
    assert "TensorBoard(profile_batch=(20, 30))" in whole.advice[0]
    lost = ScriptProfile("train.py:44", 15.0, 0, None)
    for profiles in ([lost], [lost, ScriptProfile("train.py:9", 12.0, 0, 0.3)]):
        assert of_profile(*profiles).title == (
            "A TensorFlow profiler recorded 15 s (started at train.py:44), and was never stopped: "
            "its profile is lost"
        )


@pytest.mark.parametrize(
    "figures",
    [(0.4, 0, 2.0), (3.0, 1, 0.4), (2.0, 0, None)],
    ids=["ten steps of a large model", "a short fit as a whole", "the last steps of a script"],
)
def test_short_profiles_are_left_alone(figures):
    assert of_profile(ScriptProfile("train.py:44", *figures)) is None
