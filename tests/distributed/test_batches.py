"""Batches are handed out ahead, each is reported once, and steps outlive their worker."""

import pytest
import tensorflow as tf

from keras_gpukit.distributed.coordinating.coordinated_steps import (
    BatchesAhead,
    CoordinatedDataset,
    Coordinator,
    WorkerStep,
)
from keras_gpukit.distributed.rendezvous import wait_for_end
from keras_gpukit.errors import WorkerError


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
    log.clear()
    batches = iter(CoordinatedDataset(Dataset(["first", "second"]), at_once=1, steps=None))
    assert next(batches) == "first"  # a batch that is only looked at is handed to no worker
    assert run(batches, log) == "second"
    assert log == ["out second", "back second"]
    # No step of the next epoch starts in this one.
    log = []
    batches = BatchesAhead(iter(range(100)), at_once=3, steps=2)
    run(batches, log), run(batches, log)
    assert log == ["out 0", "out 1", "back 0", "back 1"]
    run(batches, log)
    assert log[4:] == ["out 2", "out 3", "back 2"]


def test_a_server_ends_once_its_coordinator_has_been_gone_for_a_while():
    now = 0.0
    absent = [*range(3, 8), *range(20, 100)]  # away for a moment first

    def sleep(seconds):
        nonlocal now
        now += seconds

    wait_for_end(lambda: int(now) not in absent, clock=lambda: now, sleep=sleep)
    assert 29 <= now <= 31


class TensorFlows:
    """A coordinator, and the result of a step whose first copying fails."""

    def __init__(self, error, cause=None):
        self.error, self.cause = error(None, None, "Connection refused"), cause

    def fetch(self):
        if self.error is not None:
            raise self.error
        return {"loss": 1.0}

    def done(self):
        if self.cause is not None:
            raise self.cause
        self.error = None  # another worker has made the step
        return True


def fetched(tensorflows):
    return WorkerStep(tensorflows, Coordinator(tensorflows, (), 1.0)).fetch()


def test_a_lost_result_comes_from_the_next_worker_and_a_cancelled_step_raises_its_cause():
    assert fetched(TensorFlows(tf.errors.UnavailableError)) == {"loss": 1.0}
    with pytest.raises(ValueError, match="of another step"):
        fetched(TensorFlows(tf.errors.CancelledError, cause=ValueError("of another step")))


def test_a_step_ends_once_all_workers_have_been_gone_for_the_timeout():
    now_s, answering = 0.0, {}

    def never(within_s):
        nonlocal now_s
        now_s += within_s
        return now_s > 200

    def is_there(address):
        return address in answering.get(now_s, ())

    workers = Coordinator(None, ("a:1", "b:2"), 60.0, is_there, lambda: now_s)
    answering = {50.0: ["b:2"]}
    with pytest.raises(WorkerError, match="for 60 s: worker 0 at a:1, worker 1 at b:2"):
        workers.wait(never)
    assert now_s == 115.0
    answering = {second: ["a:1"] for second in range(115, 200, 20)}
    workers.wait(never)  # one that answers at times may still make the step
    assert now_s == 205.0
