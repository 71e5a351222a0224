"""Steps outlive the worker that makes them, and end where there is no worker any more."""

import pytest
import tensorflow as tf

from keras_gpukit.distributed.coordinating.steps import Coordinator, WorkerStep
from keras_gpukit.errors import WorkerError


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


def test_a_result_that_was_lost_with_its_worker_comes_from_the_next():
    assert fetched(TensorFlows(tf.errors.UnavailableError)) == {"loss": 1.0}


def test_a_step_that_was_cancelled_raises_what_it_was_cancelled_for():
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
