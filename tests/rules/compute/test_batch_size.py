"""Which batch sizes are recommended, from rates and limits written by hand."""

import pytest

from keras_gpukit.rules.compute import batch_size as rules

RATES = {64: 1000.0, 128: 1900.0, 256: 2500.0, 512: 2550.0, 600: 2400.0}


def test_the_knee_is_the_smallest_that_is_about_as_fast_as_any_and_unknown_is_none():
    assert rules.fastest(RATES, None) == 256
    assert rules.fastest({64: 1000.0, 128: 1060.0}, None) == 128
    assert rules.fastest({64: 1000.0, 128: 1040.0}, None) == 64
    assert rules.fastest({}, 100.0) is None
    assert rules.is_limited_by_input({}, 100.0) is None
    assert rules.is_limited_by_input(RATES, None) is None


def test_no_batch_is_faster_than_the_input():
    assert rules.fastest(RATES, 1800.0) == 128
    assert rules.fastest(RATES, 900.0) == 64
    assert rules.is_limited_by_input(RATES, 1800.0) is True
    assert rules.is_limited_by_input(RATES, 2600.0) is False


@pytest.mark.parametrize("passed", [3, 7, 33, 34, 100, 1247, 65536])
def test_the_margin_is_at_least_one_example(passed):
    recommended = rules.with_margin(passed)
    assert recommended < passed
    assert recommended >= min(passed - 1, 0.97 * passed - 1)
    needed = rules.without_margin(recommended)
    assert rules.with_margin(needed) >= recommended
    assert rules.with_margin(needed - 1) < recommended


def test_what_failed_is_not_tried_again_and_what_is_only_predicted_leaves_a_tenth():
    assert [rules.lowered(failed, 1) for failed in (1, 2, 10, 1000)] == [1, 1, 9, 990]
    assert rules.lowered(1000, 3) == 970
    assert rules.below_failed(100) == 90
    assert rules.predicted_limit_bytes(1000) == 900
    assert rules.with_margin(1) == 1
