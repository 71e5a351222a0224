"""Training that is dead comes before all findings on speed; healthy training is not called dead."""

from dataclasses import replace

import pytest
from helpers.summaries import stall

from keras_gpukit.records import Environment, Learning, NonFinite, RunSummary
from keras_gpukit.rules import judge

STALLED = stall(0.9, wait_s=0.1)
HEALTHY = Learning(
    epochs=5,
    lowest_loss=0.4,
    highest_loss=0.9,
    trainable=4,
    read=4,
    changed=True,
    steps=1000,
    updates=1000,
    learning_rate=1e-3,
)
SCALED = replace(HEALTHY, loss_scale=2.0**11, first_loss_scale=2.0**15, updates=996)
FROZEN = replace(HEALTHY, changed=False, updates=1000, lowest_loss=0.8, trainable=9)
NAN = replace(HEALTHY, finite=False, non_finite=NonFinite("loss", "NaN", 2, 63, 63))


def findings(learning, precision="float32"):
    environment = Environment({}, precision=precision)
    return judge(RunSummary(environment, input=STALLED, learning=learning)).findings


@pytest.mark.parametrize(
    ("learning", "title"),
    [
        (NAN, "The loss is NaN since step 63 (epoch 2), and weights are not finite: nothing is"),
        (
            replace(SCALED, updates=20, finite=True, non_finite=NonFinite("loss", "NaN", 1, 1, 8)),
            "The loss of each epoch is NaN since one of steps 1 to 8 (epoch 1): nothing is learnt",
        ),
        (
            replace(NAN, finite=True, non_finite=NonFinite("g_loss", "infinite", 3)),
            "The loss 'g_loss' of each epoch is infinite since epoch 3",
        ),
        (replace(FROZEN, learning_rate=0.0), "steps: the learning rate is 0"),
        (replace(FROZEN, updates=0), "steps: the optimizer applied no update"),
        (replace(FROZEN, trainable=0, updates=0), "steps: none is trainable"),
        (replace(SCALED, changed=False, updates=0), "steps: loss scaling skipped every update"),
        (replace(FROZEN, lowest_loss=0.9), "steps: every gradient is 0"),
        (replace(FROZEN, trainable=4), "No weight has changed in 1,000 steps: every gradient is 0"),
        (replace(HEALTHY, lowest_loss=0.9), "The loss is 0.9 after each of 5 epochs"),
        (replace(SCALED, updates=799), "Loss scaling skipped 201 of 1,000 updates"),
    ],
)
def test_dead_training_is_said_before_a_slow_input(learning, title):
    first, second, *_ = findings(learning)
    assert (first.severity, second.code) == ("critical", "input-bound")
    assert title in first.title
    assert len(first.title) <= 100


@pytest.mark.parametrize(
    "learning",
    [
        HEALTHY,
        SCALED,
        FROZEN,  # of several weights a few were read, and nothing confirms the others
        replace(FROZEN, learning_rate=0.0, steps=9),
        replace(FROZEN, updates=0, steps=60, accumulation=8),
        replace(HEALTHY, lowest_loss=0.9, epochs=2),
        replace(HEALTHY, lowest_loss=0.0, highest_loss=0.0),  # left unset by a train_step
        # The optimizer given to compile, and another one that is really used.
        replace(HEALTHY, updates=0, loss_scale=2.0**15, first_loss_scale=2.0**15),
        replace(SCALED, updates=980, steps=1000),
        replace(HEALTHY, steps_asked=150),
        None,
    ],
)
def test_healthy_training_is_not_called_dead(learning):
    assert [each.code for each in findings(learning) if each.severity != "info"] == ["input-bound"]


def test_epochs_cut_short_come_first_with_the_steps_that_ran():
    cut = replace(HEALTHY, epochs=12, steps_asked=150, cut_short=6, steps_missing=600)
    first, second, *_ = findings(cut)
    assert (first.code, first.severity, second.code) == ("data-ran-out", "critical", "input-bound")
    assert first.title == (
        "6 of 12 epochs ended early, since the data ran out: 1,200 of 1,800 steps ran"
    )
    assert first.advice[0].startswith("ds.repeat()")
    # A length that was rounded up is a remark.
    cut = replace(HEALTHY, epochs=10, steps_asked=100, cut_short=10, steps_missing=10)
    found = {each.code: each.severity for each in findings(cut)}
    assert next(iter(found)) == "input-bound"
    assert found["data-ran-out"] == "info"


def test_the_likeliest_cause_comes_first():
    late, half = findings(NAN)[0].advice, findings(NAN, "mixed_float16")[0].advice
    early = findings(replace(NAN, non_finite=NonFinite("loss", "NaN", 1, 1, 1)))[0].advice
    assert "learning rate" in late[0]
    assert "np.isfinite(x)" in early[0]
    assert "float16" in half[0]
    assert "check_numerics" in late[-2]
    # A validation loss alone is a warning after costlier findings.
    bad = replace(HEALTHY, finite=True, non_finite=NonFinite("val_loss", "NaN", 1))
    waits, found, *_ = findings(bad)
    assert (waits.code, found.code) == ("input-bound", "loss-not-finite")
    assert found.title == "The validation loss is NaN since epoch 1, the training loss is not"
