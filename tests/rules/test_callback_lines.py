"""A slow callback: its line, when it works, and whether it takes longer and longer."""

from dataclasses import replace

from helpers.summaries import breakdown, throughput

from keras_gpukit import records
from keras_gpukit.rules.whole_run.time_parts import SlowCallbacks, slowest_line


def judged(at_epochs_s, lines=(), thirds=(1.0, 1.1), steps=(0, 500, 1000, 1500)):
    parts = breakdown(
        30.0,
        callbacks_s=20.0,
        by_callback={"Scores": 18.0, "Other": 0.1},
        callbacks_at_epochs={"Scores": at_epochs_s},
        callbacks_by_thirds={"Scores": thirds},
    )
    series = records.Series("step/time_ms", steps, (0.0, 10.0, 20.0, 30.0), (1.0,) * 4, (1.0,) * 4)
    run = summary_of(*lines)
    record = records.InputRecord("fit", breakdown=parts)
    speed = throughput(0.007, 1500)
    return SlowCallbacks().judge(replace(run, input=record, series=(series,), throughput=speed))


def line(place, seconds, first_s=0.0, last_s=0.0, called=None, entry="Scores.on_train_batch_end"):
    thirds = {"first_third_s": first_s, "last_third_s": last_s}
    return records.LineTime(place, "score", called, "", seconds, "callback", entry, **thirds)


def summary_of(*lines):
    return records.RunSummary(records.Environment({}), stacks=records.StackTimes(200, 30.0, lines))


def test_a_callback_at_batches_is_named_with_its_line_and_what_that_calls():
    slow = line("train.py:31", 12.0, 4.0, 4.1, "TensorFlowTrainer.predict")
    found = judged(1.0, [slow, line("train.py:32", 3.0), line("a.py:3", 20.0, entry="Other.f")])
    took = "takes 18 of 30 s, mostly at train.py:31 (Model.predict)"
    assert found.title == f"Scores.on_train_batch_end {took}"
    assert found.advice == (
        "Scores: do what train.py:31 does less often, for example every hundredth batch",
    )


def test_a_line_that_calls_several_functions_is_named_without_them():
    calls = [line("train.py:31", 6.0, called=name) for name in ("Model.predict", "Model.evaluate")]
    assert judged(1.0, [*calls, line("train.py:32", 7.0)]).title.endswith("mostly at train.py:31")


def test_a_callback_at_epochs_is_advised_by_epochs():
    found = judged(17.0)
    assert found.title == "Scores takes 18 of 30 s"
    assert found.advice == ("Scores: do its work less often, for example every fifth epoch",)
    # Growth is read from the times of its calls.
    grows = judged(17.0, thirds=(0.5, 1.5))
    assert grows.title == "Scores takes 18 of 30 s; longer with every epoch"
    said = "it takes 3× as long for each epoch as in the first (500 and 1,500 ms)"
    assert said in grows.advice[0]


def test_between_steps_growth_is_by_the_steps_of_each_third():
    # 500 steps in the first third and 100 in the last, which take four times as long together.
    grows = [line("train.py:31", 12.0, 1.0, 4.0)]
    found = judged(1.0, grows, steps=(0, 500, 600, 700))
    assert found.title.endswith("mostly at train.py:31; longer with every batch")
    assert "it takes 20× as long for each batch as in the first (2 and 40 ms)" in found.advice[0]
    # Four times as long in 400 steps instead of 100: each takes as long as before.
    same = judged(1.0, grows, steps=(0, 100, 300, 700))
    assert same.title.endswith("mostly at train.py:31")
    few = judged(1.0, [line("train.py:31", 12.0, 0.1, 0.9)], steps=(0, 500, 600, 700))
    assert few.title.endswith("mostly at train.py:31")


def test_a_hook_without_a_class_of_its_own_has_a_line_too():
    by_lambda = line("train.py:9", 12.0, entry="main.<lambda>")
    assert judged(1.0, [by_lambda]).title.endswith("mostly at train.py:9")
    nested = line("train.py:8", 12.0, entry="main.Scores.on_train_batch_end")
    assert judged(1.0, [by_lambda, nested]).title.endswith("mostly at train.py:8")
    # Lines within a callback of Keras are not shown.
    for name, place in (("TensorBoard", None), ("Scores", "a.py:1")):
        run = summary_of(line("a.py:1", 5.0, entry=f"{name}.on_train_batch_end"))
        slowest = slowest_line(run, name)
        assert (slowest and slowest.place) == place
