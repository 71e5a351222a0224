"""Which of two resources threads wait for, each by one threshold."""

import pytest

from keras_gpukit.records import ContentionRecord, InputRecord, PipelineRecord, Rate, StageRecord
from keras_gpukit.rules.input.contention import (
    causes,
    contention,
    gil_is_contended,
    input_holds_gil,
)


@pytest.mark.parametrize(
    ("gil_wait_s", "cores_busy_fraction", "expected"),
    [
        (0.00024, 0.69, ()),
        (0.00025, 0.69, ("interpreter lock",)),
        (0.00024, 0.70, ("all cores busy",)),
        (0.00025, 0.70, ("interpreter lock", "all cores busy")),
        (None, 0.70, ("all cores busy",)),
        (0.00025, None, ("interpreter lock",)),
        (None, None, None),
    ],
)
def test_each_resource_has_one_threshold(gil_wait_s, cores_busy_fraction, expected):
    assert causes(gil_wait_s, cores_busy_fraction) == expected


@pytest.mark.parametrize(
    ("median", "low", "found"), [(0.1, 0.01, True), (0.09, 0.01, False), (0.5, 0.0, False)]
)
def test_a_shortfall_counts_if_it_is_real_and_large(median, low, found):
    rate = Rate(median, low, 0.6, "share")
    judged = contention(rate, 1.0, cores_busy_fraction=None, gil_wait_s=None)
    assert (judged is not None) is found


@pytest.mark.parametrize(
    ("wait_s", "busy", "cores", "contended"),
    [
        (0.0006, 0.6, 2, True),
        (0.0006, 0.2, 2, False),  # a process that hardly computes waits for a core
        (0.0006, 0.2, None, True),
        (0.0001, 0.6, 2, False),
        (None, 0.6, 2, False),
    ],
)
def test_the_gil_is_contended_only_by_a_process_that_computes(wait_s, busy, cores, contended):
    assert gil_is_contended(ContentionRecord(wait_s, busy), cores) == contended


@pytest.mark.parametrize(
    ("input_cores", "kinds", "holds"),
    [
        (0.05, ("prefetch", "map"), False),  # of two fits at once, the other one holds it
        (0.30, ("prefetch", "map"), True),
        (None, ("prefetch", "map"), True),
        (0.05, ("map",), True),  # threads of the steps make the batches
    ],
)
def test_threads_that_hardly_compute_do_not_hold_the_gil(input_cores, kinds, holds):
    stages = tuple(StageRecord(kind, kind, "other") for kind in kinds)
    fraction = None if input_cores is None else input_cores / 2
    record = InputRecord(
        "fit",
        pipeline=PipelineRecord(stages, stages[-1]),
        contention=ContentionRecord(0.0006, 0.6, fraction),
    )
    assert input_holds_gil(record, 2) == holds
