"""Which stage is named the bottleneck, and when none is."""

from dataclasses import replace

import pytest

from keras_gpukit.records import PipelineRecord, StageRecord
from keras_gpukit.rules.input.pipeline_causes import name_bottleneck

CHEAP = StageRecord("batch", "batch", "batching", share=0.1)
SLOW = StageRecord("load", "map", "reading", share=0.9)
PIPELINE = PipelineRecord((CHEAP, SLOW, CHEAP), slowest_s=0.005)


def test_the_stage_with_the_largest_share_of_the_slowest_segment_is_the_bottleneck():
    assert name_bottleneck(PIPELINE, 0.1, 0.01).bottleneck == SLOW


@pytest.mark.parametrize(
    ("stall_fraction", "wait_s", "because"),
    [(0.099, 0.01, "9.9 % of their time"), (0.5, 0.0002, "only 0.20 ms")],
)
def test_there_is_none_where_no_rule_reports_the_wait(stall_fraction, wait_s, because):
    named = name_bottleneck(PIPELINE, stall_fraction, wait_s)
    assert named.bottleneck is None
    assert because in named.balanced_because


@pytest.mark.parametrize(
    ("pipeline", "stall_fraction", "wait_s", "because"),
    [
        (PIPELINE, 0.5, 0.0101, "accounts for 5.0 ms"),
        (PIPELINE, None, 0.01, "is unknown"),
        (PIPELINE, 0.5, None, "is unknown"),
        (replace(PIPELINE, unknown_because="not read twice"), 0.5, 0.01, "not read twice"),
    ],
)
def test_without_evidence_it_is_unknown(pipeline, stall_fraction, wait_s, because):
    named = name_bottleneck(pipeline, stall_fraction, wait_s)
    assert named.bottleneck is None
    assert named.balanced_because is None
    assert because in named.unknown_because
