"""What stages cost over time, from readings of tf.data's model made by hand."""

from __future__ import annotations

import pytest

from keras_gpukit.input.wait.measuring import MOST_PARTS, costs_over_time, measure
from keras_gpukit.input.wait.readings import ModelReading, Node


def reading(batches, work_s, first=1, kinds=("Prefetch", "Map")):
    """A pipeline that delivered so many batches, its last stage having worked so long."""
    ids = range(first, first + 1 + len(kinds))
    nodes = [Node(ids[0], "Root", batches, 0.0, inputs=(ids[1],))]
    for place, kind in enumerate(kinds):
        is_last = place == len(kinds) - 1
        inputs = () if is_last else (ids[place + 2],)
        nodes.append(Node(ids[place + 1], kind, batches, work_s if is_last else 0.0, inputs=inputs))
    return ModelReading({node.id: node for node in nodes}, ids[0])


def costs(passes):
    output, _ = measure([[each for _, each in readings] for readings in passes])
    return costs_over_time(passes, output)


def test_a_stage_that_slows_down_costs_more_from_then_on():
    readings = [(0.0, reading(0, 0.0)), (1.0, reading(100, 0.2)), (5.0, reading(200, 3.2))]
    before, after = costs([readings])
    assert (before.begin_s, before.end_s, after.end_s) == (0.0, 1.0, 5.0)
    assert before.per_batch_s == pytest.approx((0.0, 0.002))
    assert after.per_batch_s == pytest.approx((0.0, 0.03))


def test_every_pass_over_the_pipeline_has_its_parts():
    passes = [
        [(0.0, reading(1, 0.1)), (1.0, reading(11, 0.2))],
        [(2.0, reading(1, 0.5, first=10)), (3.0, reading(11, 1.5, first=10))],
    ]
    assert [each.per_batch_s[1] for each in costs(passes)] == pytest.approx([0.01, 0.1])


def test_a_pass_with_other_stages_is_left_out():
    usual = [(0.0, reading(1, 0.1)), (1.0, reading(11, 0.2))]
    other = [
        (2.0, reading(1, 0.5, 10, ("Prefetch", "Batch", "Map"))),
        (3.0, reading(11, 1.5, 10, ("Prefetch", "Batch", "Map"))),
    ]
    output, _ = measure([[each for _, each in usual]])
    assert [each.begin_s for each in costs_over_time([usual, other], output)] == [0.0]


def test_many_readings_make_few_parts_of_all_of_the_time():
    readings = [(float(count), reading(count, count / 100)) for count in range(500)]
    found = costs([readings])
    assert MOST_PARTS / 2 <= len(found) <= MOST_PARTS
    assert found[0].begin_s == 0.0
    assert found[-1].end_s == 499.0
