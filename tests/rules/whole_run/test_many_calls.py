"""The verdict on scripts of many calls: what it names, what it promises, when it is silent."""

from dataclasses import replace

import pytest
from helpers.findings import bounds, by_name
from helpers.summaries import breakdown

from keras_gpukit import records
from keras_gpukit.rules import judge


def traced_again(
    calls: records.Calls, count: int, seconds: float, cpu_s: float, **models: int
) -> records.Calls:
    again = {"traced_again": count, "traced_again_s": seconds, "tracing_cpu_s": cpu_s}
    return replace(calls, **again, **models)


FITS = records.Calls("fit", "train.py:27", 14, 31.0, 22.0, 14 * 24)
FOLDS = traced_again(FITS, 13, 20.0, 16.0, models=14)
SCORES = records.Calls("predict", "serve.py:9", 1000, 60.0, 40.0, 1000, repeated_s=50.0)
LOOP = records.Calls("fit", "loop.py:5", 200, 40.0, 20.0, 200 * 30, repeated_s=18.0)


def verdict(*calls: records.Calls, wall_s=48.0, imports_s=9.0, **figures):
    record = records.ScriptRecord(wall_s, imports_s, 2.0, calls)
    return judge(records.RunSummary(records.Environment({}), script=record, **figures))


def found(*calls: records.Calls, **options):
    return next(
        (each for each in verdict(*calls, **options).findings if each.code == "many-short-calls"),
        None,
    )


def test_new_models_are_named_with_all_first_steps_but_one_as_the_saving():
    finding = found(FOLDS)
    assert finding.severity == "critical"
    assert finding.title == "14 new models were traced by fit (train.py:27): 20 of 48 s"
    # 48 - 9 - 2 - 31 s are between the calls, where the models are built.
    assert bounds(finding) == (16.0, pytest.approx(1.1 * 20.0 + 6.0))
    assert finding.saving.of_s == 48.0
    assert bounds(found(FOLDS, wall_s=21.0, imports_s=0.0))[1] == 21.0  # all there is
    assert "set_weights" in finding.advice[0]
    assert by_name(finding)["calls"] == 14
    # A fit without a step does not hide it.
    assert found(FOLDS, killed_in=records.Progress("fit", "first step", 0)).severity == "critical"


def test_folds_that_also_evaluate_each_model_count_together():
    evaluations = records.Calls("evaluate", "train.py:28", 14, 5.0, 4.5, 14)
    finding = found(FOLDS, traced_again(evaluations, 13, 4.2, 3.0, models=14))
    assert "fit (train.py:27) and others: 24 of 48 s" in finding.title
    assert finding.saving.low_s == 19.0


def test_a_model_that_is_compiled_again_is_told_apart_from_new_ones():
    again = traced_again(FITS, 13, 20.0, 16.0)
    finding = found(again)
    assert finding.title == "The step was traced again by 13 calls of fit (train.py:27): 20 of 48 s"
    assert "compile() once" in finding.advice[0]
    compiled = found(replace(again, compiled="train.py:7"))
    assert "calls of fit (train.py:27), each after compile (train.py:7): 20" in compiled.title


def test_calls_for_one_batch_and_calls_for_an_epoch_get_their_own_advice():
    scores = found(SCORES, wall_s=70.0)
    assert scores.title == (
        "1,000 calls of predict (serve.py:9) for one batch each: 50 of 70 s went to starting them"
    )
    assert any("model(x, training=False)" in line for line in scores.advice)
    loop = found(LOOP, wall_s=55.0)
    assert loop.title == "200 calls of fit (loop.py:5): 18 of 55 s went to starting them"
    assert "epochs=N" in loop.advice[0]
    # Of calls for one batch each, 0.8 to 1.1 of their starts; of others 0.4 to 1.
    assert (scores.saving.low_s, scores.saving.high_s) == (40.0, pytest.approx(55.0))
    assert (loop.saving.low_s, loop.saving.high_s) == (pytest.approx(7.2), 18.0)
    assert [each.value for each in loop.evidence] == [200, 0.1, 0.2]


HEALTHY = {
    "one fit": records.Calls("fit", "train.py:9", 1, 31.0, 2.0, 4000),
    "a few phases of training": traced_again(
        records.Calls("fit", "train.py:9", 3, 20.0, 12.0, 400), 2, 11.0, 11.0, models=3
    ),
    "many batches by hand": records.Calls("train_on_batch", "rl.py:40", 9000, 31.0, 0.5, 9000),
    "long folds": traced_again(
        records.Calls("fit", "train.py:27", 14, 39.0, 3.0, 14 * 2400), 13, 2.8, 2.0, models=14
    ),
    "a short script": traced_again(
        records.Calls("fit", "train.py:27", 6, 1.2, 0.8, 14 * 24), 5, 0.7, 0.6, models=6
    ),
}


@pytest.mark.parametrize("calls", HEALTHY.values(), ids=HEALTHY)
def test_scripts_whose_calls_start_fast_enough_are_fine(calls):
    assert "many-short-calls" in verdict(calls).passed


def test_tracing_in_each_fit_is_not_said_to_matter_less_over_a_longer_run():
    record = records.InputRecord("fit", breakdown=breakdown(10.0, input_s=1.0, first_step_s=8.0))
    alone, one_of_many = (
        [each.code for each in verdict(*calls, input=record).findings] for calls in ((), (FOLDS,))
    )
    assert "low-compute-share" in alone
    assert one_of_many[0] == "many-short-calls"
    assert "low-compute-share" not in one_of_many


EVALUATED = records.Calls("evaluate", "train.py:31", 14, 40.0, 1.0, 14 * 1000)
SHORT_FITS = records.Calls("fit", "train.py:30", 14, 16.0, 4.0, 14 * 157)


def test_evaluations_that_take_longer_than_training_are_named_unless_starts_are_the_cause():
    others = replace(EVALUATED, place="train.py:33", total_s=12.0)
    first, *_ = verdict(SHORT_FITS, EVALUATED, others, wall_s=74.0).findings
    assert (first.code, first.severity) == ("long-evaluation", "warning")
    assert first.title == "28 calls of evaluate (train.py:31) and others take 52 of 74 s"
    assert bounds(first) == (0.0, pytest.approx(52.0 * 27 / 28))
    assert by_name(first)["evaluations"] == 28
    assert "batch_size" in first.advice[0]
    few = SHORT_FITS, replace(EVALUATED, count=4)
    for calls in ((EVALUATED,), few):  # in the first, nothing trains
        assert "long-evaluation" in verdict(*calls, wall_s=74.0).passed
    assert "long-evaluation" in verdict(SHORT_FITS, EVALUATED, wall_s=200.0).passed
    starts = traced_again(EVALUATED, 13, 38.0, 36.0)
    codes = [each.code for each in verdict(SHORT_FITS, starts, wall_s=74.0).findings]
    assert "many-short-calls" in codes
    assert "long-evaluation" not in codes
