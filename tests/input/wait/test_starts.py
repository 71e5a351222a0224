"""What stages do until their first batches arrive, how much is thrown away, and costs over time."""

import pytest

from keras_gpukit.input.wait import watch
from keras_gpukit.input.wait.measured_nodes import (
    MOST_PARTS,
    costs_over_time,
    measure,
    measure_starts,
)
from keras_gpukit.input.wait.readings import MeasuredNode, ModelReading, Node
from keras_gpukit.input.wait.stage_records import fills, used_shares
from keras_gpukit.input.wait.wall_time import WallTime
from keras_gpukit.input.wait.watch import StartReadings


def reading(*nodes: Node) -> ModelReading:
    return ModelReading({node.id: node for node in nodes}, nodes[0].id)


def by_kind(output: MeasuredNode) -> dict[str, MeasuredNode]:
    return {stage.kind: stage for stage in output.walk()}


def used(*nodes: Node) -> dict[str, float]:
    """The shares of elements that are used, by kind of stage, after one reading of a start."""
    output = measure_starts([reading(*nodes)])
    shares = used_shares(output)
    return {kind: shares[id(stage)] for kind, stage in by_kind(output).items()}


def test_what_fills_a_buffer_counts_for_the_start():
    starts = [
        reading(
            Node(1, "Root", batches, 0.0, inputs=(2,)),
            Node(2, "Shuffle", 16 * batches, 0.1, inputs=(3,), held=400),
            Node(3, "Map", 400 + 16 * batches, 2.0 * batches),
        )
        for batches in (1, 3)
    ]
    stages = by_kind(measure_starts(starts))
    assert stages["Map"].cost_per_batch_s == pytest.approx(4.0)  # seconds per start
    assert stages["Map"].per_batch == 432


def test_elements_that_a_filter_drops_are_not_used():
    shares = used(
        Node(1, "Batch", 2, 0.0, inputs=(2,)),
        Node(2, "Shuffle", 64, 0.0, inputs=(3,), held=136),
        Node(3, "Filter", 200, 0.0, inputs=(4,)),
        Node(4, "ParallelMap", 2000, 5.0, buffered=3.0, inputs=(5,), held=3),
        Node(5, "TensorSlice", 2004, 0.0),
    )
    # A batch, a full buffer and calls in progress drop nothing.
    assert shares == {
        "Batch": 1.0,
        "Shuffle": 1.0,
        "Filter": 1.0,
        "ParallelMap": pytest.approx(0.1),
        "TensorSlice": pytest.approx(0.1),
    }


def test_shares_of_several_stages_multiply_and_few_elements_are_no_evidence():
    shares = used(
        Node(1, "Shard", 50, 0.0, inputs=(2,)),
        Node(2, "FiniteSkip", 200, 0.0, inputs=(3,)),
        Node(3, "Map", 400, 0.0),
    )
    assert shares == {"Shard": 1.0, "FiniteSkip": 0.25, "Map": 0.125}
    few = used(Node(1, "FiniteTake", 1, 0.0, inputs=(2,)), Node(2, "Map", 10, 0.0))
    assert few["Map"] == 1.0


@pytest.mark.parametrize("kind", ["BatchV2", "Window", "GroupByWindow", "FiniteRepeat", "FlatMap"])
def test_a_stage_that_joins_or_makes_iterators_drops_nothing(kind):
    shares = used(Node(1, kind, 10, 0.0, inputs=(2,)), Node(2, "Map", 320, 0.0))
    assert shares["Map"] == 1.0


def test_a_cache_that_is_read_has_nothing_that_fills_it():
    filling = measure_starts(
        [
            reading(
                Node(1, "MemoryCache", 40, 0.0, inputs=(2,)),
                Node(2, "MemoryCacheImpl", 40, 0.0, inputs=(3,)),
                Node(3, "Map", 42, 1.0),
            )
        ]
    )
    assert [each.kind for each in fills(filling)] == ["Map"]
    read = Node(1, "MemoryCache", 40, 0.0, inputs=(2,)), Node(2, "MemoryCacheImpl", 40, 0.0)
    assert fills(measure_starts([reading(*read)])) == []


class Iterator:
    """Stands for one of tf.data, of which a reading is the next of a list."""

    def __init__(self, *models: ModelReading) -> None:
        self.models = list(models)


def stages(number: int, elements: int = 1) -> ModelReading:
    """A reading of so many stages."""
    kinds = "Root", "Shuffle", "Map", "Range"
    return reading(*(Node(n, kinds[n], elements, 0.0) for n in range(number)))


@pytest.fixture
def starts(monkeypatch) -> StartReadings:
    monkeypatch.setattr(watch, "read_model", lambda iterator: iterator.models.pop(0))
    for converts in ("parse_model", "read_nodes"):
        monkeypatch.setattr(watch, converts, lambda model: model)
    return StartReadings()


def test_the_reading_that_shows_most_stands_for_a_start(starts):
    early, late = stages(4), stages(2)
    iterators = Iterator(stages(4, 1)), Iterator(early), Iterator()
    starts.follow(iterators[0])
    starts.poll()
    assert starts.readings() == ([stages(4, 1)], False)  # nothing is known of a later epoch
    starts.follow(iterators[1])
    starts.poll()
    starts.began(late)
    starts.poll()  # the first batches have arrived
    assert starts.readings() == ([early], True)
    starts.follow(iterators[2])
    starts.began(stages(3))
    assert starts.readings() == ([early], True)  # the other one lacks stages


def test_an_iterator_that_is_gone_is_not_read(starts):
    starts.follow(Iterator(stages(4)))
    starts.poll()
    assert starts.readings() == ([], False)


def test_without_an_early_reading_those_after_the_first_batches_count(starts):
    iterators = [Iterator() for _ in range(3)]
    for number, iterator in enumerate(iterators):
        starts.follow(iterator)
        starts.began(stages(3, number))
    assert starts.readings() == ([stages(3, 1), stages(3, 2)], True)


def test_starts_that_were_seen_early_are_kept_longest(starts):
    kept = [Iterator(stages(4, number)) for number in range(1, 30)]
    for number, iterator in enumerate(kept):
        starts.follow(iterator)
        if number == 1:
            starts.poll()
        starts.began(stages(2))
    assert starts.readings()[0] == [stages(4, 2)]


def test_the_longest_restarts_are_kept_without_the_wait_for_a_first_batch():
    moments = [0.0, *(moment for epoch in range(7) for moment in (epoch, epoch + 0.1 * epoch))]
    clock = iter([*moments, 9.0, 9.0, 9.0])
    wall = WallTime("callbacks", lambda: next(clock), compiled=lambda: None)
    for _ in range(7):
        wall.switch("epoch start")
        wall.switch("steps")
    wall.add_epoch_wait(0.5, 6.7)
    longest_s = wall.breakdown(0.0, 0.0, until_s=9.0).longest_restarts_s
    assert longest_s == pytest.approx((0.6, 0.5, 0.4, 0.3, 0.2))


def slowing(batches, work_s, first=1, kinds=("Prefetch", "Map")):
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
    readings = [(0.0, slowing(0, 0.0)), (1.0, slowing(100, 0.2)), (5.0, slowing(200, 3.2))]
    before, after = costs([readings])
    assert (before.begin_s, before.end_s, after.end_s) == (0.0, 1.0, 5.0)
    assert before.per_batch_s == pytest.approx((0.0, 0.002))
    assert after.per_batch_s == pytest.approx((0.0, 0.03))


def test_every_pass_over_the_pipeline_has_its_parts():
    passes = [
        [(0.0, slowing(1, 0.1)), (1.0, slowing(11, 0.2))],
        [(2.0, slowing(1, 0.5, first=10)), (3.0, slowing(11, 1.5, first=10))],
    ]
    assert [each.per_batch_s[1] for each in costs(passes)] == pytest.approx([0.01, 0.1])


def test_a_pass_with_other_stages_is_left_out():
    usual = [(0.0, slowing(1, 0.1)), (1.0, slowing(11, 0.2))]
    other = [
        (2.0, slowing(1, 0.5, 10, ("Prefetch", "Batch", "Map"))),
        (3.0, slowing(11, 1.5, 10, ("Prefetch", "Batch", "Map"))),
    ]
    output, _ = measure([[each for _, each in usual]])
    assert [each.begin_s for each in costs_over_time([usual, other], output)] == [0.0]


def test_many_readings_make_few_parts_of_all_of_the_time():
    readings = [(float(count), slowing(count, count / 100)) for count in range(500)]
    found = costs([readings])
    assert MOST_PARTS / 2 <= len(found) <= MOST_PARTS
    assert found[0].begin_s == 0.0
    assert found[-1].end_s == 499.0
