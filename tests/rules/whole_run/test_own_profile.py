"""The verdict on a profile that the script records itself, from records."""

import pytest
from helpers.findings import bounds
from helpers.findings import found as finding

from keras_gpukit.records import Environment, RunSummary, ScriptProfile, ScriptRecord


def found(profile):
    script = ScriptRecord(42.0, 8.0, 2.0, profiles=(profile,))
    return finding("own-profile", RunSummary(Environment({}), script=script))


def test_a_profile_of_a_whole_fit_is_named_with_its_line_and_what_ending_it_took():
    whole = found(ScriptProfile("train.py:44", 15.0, 1, 9.0))
    assert whole.title == (
        "A TensorFlow profiler recorded the whole fit (started at train.py:44); its stop() took "
        "9.0 s"
    )
    assert (whole.severity, *bounds(whole)) == ("critical", pytest.approx(6.3), None)
    assert "TensorBoard(profile_batch=(20, 30))" in whole.advice[0]
    assert found(ScriptProfile("train.py:44", 15.0, 0, None)).title == (
        "A TensorFlow profiler recorded 15 s (started at train.py:44), and was never stopped: "
        "its profile is lost"
    )


@pytest.mark.parametrize(
    "figures",
    [(0.4, 0, 2.0), (3.0, 1, 0.4), (2.0, 0, None)],
    ids=["ten steps of a large model", "a short fit as a whole", "the last steps of a script"],
)
def test_short_profiles_are_left_alone(figures):
    assert found(ScriptProfile("train.py:44", *figures)) is None
