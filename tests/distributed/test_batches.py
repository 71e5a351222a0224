"""Batches are handed out ahead, and each is reported once."""

import pytest

from keras_gpukit.distributed.coordinating.steps import BatchesAhead, CoordinatedDataset
from keras_gpukit.distributed.meeting import wait_for_end


class Step:
    """A step that is handed out."""

    def __init__(self, batch, log):
        self.batch = batch
        log.append(f"out {batch}")
        self.log = log

    def fetch(self):
        self.log.append(f"back {self.batch}")
        return {"loss": self.batch}


class Dataset(list):
    """Stands in for a dataset."""

    element_spec = None


def run(batches, log):
    return batches.step(lambda batch, spec: Step(batch, log))["loss"]


def test_as_many_steps_as_allowed_are_under_way_and_all_come_back_in_order():
    log = []
    batches = iter(CoordinatedDataset(Dataset([1, 2, 3]), at_once=2, steps=None))
    assert [run(batches, log) for _ in range(3)] == [1, 2, 3]
    assert log == ["out 1", "out 2", "back 1", "out 3", "back 2", "back 3"]
    with pytest.raises(StopIteration):
        run(batches, log)


def test_no_step_of_the_next_epoch_starts_in_this_one():
    log = []
    batches = BatchesAhead(iter(range(100)), at_once=3, steps=2)
    run(batches, log), run(batches, log)
    assert log == ["out 0", "out 1", "back 0", "back 1"]
    run(batches, log)
    assert log[4:] == ["out 2", "out 3", "back 2"]


def test_a_batch_that_is_only_looked_at_is_handed_to_nobody():
    log = []
    batches = iter(CoordinatedDataset(Dataset(["first", "second"]), at_once=1, steps=None))
    assert next(batches) == "first"
    assert run(batches, log) == "second"
    assert log == ["out second", "back second"]


def test_a_server_ends_once_its_coordinator_has_been_gone_for_a_while():
    now = 0.0
    absent = [*range(3, 8), *range(20, 100)]  # away for a moment first

    def sleep(seconds):
        nonlocal now
        now += seconds

    wait_for_end(lambda: int(now) not in absent, clock=lambda: now, sleep=sleep)
    assert 29 <= now <= 31
