"""Which changes stand for a finding, and what it promises."""

import math
from dataclasses import replace

import pytest

from keras_gpukit import records
from keras_gpukit.rules import speedups


def test_codes_and_names_can_be_asked_for():
    assert speedups.changes_to_try(["input-bound", "jit", "launch-bound"]) == (
        "input",
        "jit",
        "steps-per-execution",
        "batch-size",
    )
    with pytest.raises(ValueError, match="no change to try for 'no-gpu'"):
        speedups.changes_to_try(["no-gpu"])
    # Of several findings, the one that promises most counts.
    made = (records.Promise("slow-epoch-start", 1.1, 3.0), records.Promise("input-bound", 1.2, 1.5))
    assert speedups.promise_of("input", made) == made[0]
    assert speedups.promise_of("jit", made) is None


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
    assert speedups.promises(summary) == (records.Promise("input-bound", 1.25, None),)
    assert speedups.promises(replace(summary, verdict=records.Verdict())) == ()


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
    assert speedups.changes_the_loss(ratio, speedups.TOLERANCE) == because
