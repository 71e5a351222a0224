"""Whether a measured gain counts: one threshold for what is reported, and for what is kept."""

import pytest

from keras_gpukit.records import Rate
from keras_gpukit.rules import gains


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
