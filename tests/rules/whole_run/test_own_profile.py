"""The verdict on a profile that the script records itself, from records."""

from __future__ import annotations

import pytest

from keras_gpukit.records import Environment, RunSummary, ScriptProfile, ScriptRecord
from keras_gpukit.rules import judge


def found(profile):
    script = ScriptRecord(42.0, 8.0, 2.0, profiles=(profile,))
    findings = judge(RunSummary(Environment({}), script=script)).findings
    return [each for each in findings if each.code == "own-profile"]


def test_a_profile_of_a_whole_fit_is_named_with_its_line_and_what_ending_it_took():
    (finding,) = found(ScriptProfile("train.py:44", 15.0, 1, 9.0))
    assert finding.title == (
        "A TensorFlow profiler recorded the whole fit (started at train.py:44); its stop() took "
        "9.0 s"
    )
    assert finding.severity == "critical"
    assert (finding.saving.low_s, finding.saving.high_s) == (pytest.approx(6.3), None)
    assert "TensorBoard(profile_batch=(20, 30))" in finding.advice[0]


def test_a_profile_that_is_never_stopped_is_lost():
    (finding,) = found(ScriptProfile("train.py:44", 15.0, 0, None))
    assert finding.title == (
        "A TensorFlow profiler recorded 15 s (started at train.py:44), and was never stopped: "
        "its profile is lost"
    )


@pytest.mark.parametrize(
    "profile",
    [
        ScriptProfile("train.py:44", 0.4, 0, 2.0),  # ten steps of a large model
        ScriptProfile("train.py:44", 3.0, 1, 0.4),  # a short fit as a whole
        ScriptProfile("train.py:44", 2.0, 0, None),  # the last steps of a script
    ],
    ids=["few steps", "quick", "at the end"],
)
def test_short_profiles_are_left_alone(profile):
    assert found(profile) == []
