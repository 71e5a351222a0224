"""Whether a measured gain counts, what findings promise, and what only an author can change."""

import math
from dataclasses import replace

import pytest

from keras_gpukit import records
from keras_gpukit.records import Rate, StageTraits
from keras_gpukit.rules import gains
from keras_gpukit.rules.gains import advise
from keras_gpukit.rules.whole_run.whole_script import remedy


@pytest.mark.parametrize(
    ("gain", "low", "high", "because"),
    [
        (1.05, 1.01, 1.2, ""),
        (1.04, 1.01, 1.2, "less than 5 % faster"),
        (1.5, 0.9, 2.0, "no gain outside the noise"),
        (1.01, 0.99, 1.04, "no faster"),
    ],
)
def test_a_gain_counts_outside_the_noise_from_five_percent(gain, low, high, because):
    assert gains.rejected_because(gain, low, high) == because
    reported = gain if because == "" else None
    assert gains.ceiling_gain(Rate(gain, low, high)) == reported


def test_input_suffices_only_with_a_margin_over_a_known_model():
    assert gains.input_suffices(Rate(111, 1, 1), Rate(100, 1, 1))
    assert not gains.input_suffices(Rate(109, 1, 1), Rate(100, 1, 1))
    assert not gains.input_suffices(Rate(111, 1, 1), None)


PLAIN = StageTraits(
    function="decode",
    function_below="resize",
    is_generator=False,
    is_python=False,
    gives_single_elements=False,
    batch_size=None,
    shuffle_buffer=None,
    caches_what_varies=None,
)


@pytest.mark.parametrize(
    ("traits", "begins"),
    [
        ({}, []),
        ({"batch_size": 16}, ["If resize can"]),
        ({"batch_size": 15, "function_below": None}, ["Batches of 15"]),
        ({"shuffle_buffer": 99}, ["Shuffle before resize"]),
        ({"shuffle_buffer": 99, "function_below": None}, []),
        ({"gives_single_elements": True}, ["decode makes a dataset of a single"]),
        ({"is_python": True}, ["decode runs in Python"]),
        ({"is_python": True, "is_generator": True}, ["The generator runs in Python"]),
        ({"caches_what_varies": "its order"}, ["The cache holds what should differ"]),
    ],
)
def test_each_trait_has_its_advice(traits, begins):
    lines = advise([replace(PLAIN, **traits)])
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True))


@pytest.mark.parametrize("cache_pays", [True, False])
def test_a_suggested_cache_stays_before_the_shuffle(cache_pays):
    stages = [replace(PLAIN, shuffle_buffer=99)]
    [line] = advise(stages, cache_pays=cache_pays)
    assert ("Not with a cache: it comes before the shuffle" in line) == cache_pays


def test_the_same_advice_is_given_once_and_none_for_errors_that_are_not_known():
    assert len(advise([replace(PLAIN, is_python=True)] * 2)) == 1
    assert remedy("UNAVAILABLE: something else") is None
    assert "SYS_ADMIN" in remedy("CUPTI: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")


def test_codes_and_names_can_be_asked_for():
    assert gains.changes_to_try(["input-bound", "jit", "launch-bound"]) == (
        "input",
        "jit",
        "steps-per-execution",
        "batch-size",
    )
    with pytest.raises(ValueError, match="no change to try for 'no-gpu'"):
        gains.changes_to_try(["no-gpu"])
    # Of several findings, the one that promises most counts.
    made = (records.Promise("slow-epoch-start", 1.1, 3.0), records.Promise("input-bound", 1.2, 1.5))
    assert gains.promise_of("input", made) == made[0]
    assert gains.promise_of("jit", made) is None


def test_a_promise_is_about_the_steps_alone():
    parts = records.TimeBreakdown(20.0, 6.0, 4.0, 0.0, 0.0, 10.0, 0.0, 0.0)
    finding = records.Finding(
        "input-bound", "", "critical", (), (), records.Saving(2.0, None, 20.0, "wait")
    )
    summary = records.RunSummary(
        records.Environment({}),
        input=records.InputRecord("fit", breakdown=parts),
        verdict=records.Verdict((finding,)),
    )
    assert gains.promises(summary) == (records.Promise("input-bound", 1.25, None),)
    assert gains.promises(replace(summary, verdict=records.Verdict())) == ()


@pytest.mark.parametrize(
    ("ratio", "because"),
    [
        (None, ""),
        (1.04, ""),
        (1.1, "changes the loss: 10 % higher after the same examples"),
        (0.8, "changes the loss: 20 % lower after the same examples"),
        (math.nan, "changes the loss: it is not a number"),
    ],
)
def test_the_loss_stays_within_the_tolerance(ratio, because):
    assert gains.changes_the_loss(ratio, gains.TOLERANCE) == because
