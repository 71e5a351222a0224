"""A pipeline on a scripted clock, and tf.data's model of it, whose every wait is known exactly."""

from types import SimpleNamespace
from typing import NamedTuple

from keras_gpukit.input.wait import hidden_wait, pipeline_model
from keras_gpukit.input.wait.hidden_wait import HiddenWait
from keras_gpukit.input.wait.pipeline_model import GAPS_KEPT, LONGEST_GAP_S


class Stage(NamedTuple):
    """A node of the model, from the one that training fetches from back to the source."""

    name: str
    per_batch: float = 1  # elements that it makes for one batch
    buffered: int = 0


class ScriptedPipeline:
    """The iterator of a step function that takes exactly the time that a test says.

    tf.data's model of it has the gaps between fetches as tf.data records them: whole microseconds,
    the last hundred, none of ten seconds or more, and one before a fetch that finds no data.
    """

    def __init__(self, *stages):
        self.now_s = 0.0
        self.stages = stages or (Stage("Prefetch"), Stage("BatchV2"))
        self.fetched = 0
        self.fetching_s = 0.0
        self.gaps_us = []
        self._fetch_ended_s = None

    def now(self):
        return self.now_s

    def fetch(self, wait_s, *, has_data=True):
        if self._fetch_ended_s is not None:
            gap_s = self.now_s - self._fetch_ended_s
            if gap_s < LONGEST_GAP_S:
                self.gaps_us = [*self.gaps_us, round(gap_s * 1e6)][-GAPS_KEPT:]
        self.now_s += wait_s
        self.fetching_s += wait_s
        self._fetch_ended_s = self.now_s
        self.fetched += has_data

    def execution(self, steps, *, of=1, hides=False):
        """One call of several steps, each a fetch and its computation, in seconds.

        With fewer than the usual number `of` steps, the data end in it. If it `hides`, each fetch
        but the first runs while the step before computes.
        """
        before_s = 0.0
        for wait_s, compute_s in steps:
            self.fetch(wait_s)
            self.now_s += max(before_s - wait_s, 0.0) if hides else compute_s
            before_s = compute_s
        if len(steps) < of:
            self.fetch(0.0, has_data=False)
        self.now_s += before_s if hides else 0.0

    def ends(self):
        """The call that finds no data."""
        self.fetch(0.0, has_data=False)
        raise StopIteration

    @property
    def model(self):
        from tensorflow.core.framework import model_pb2

        model = model_pb2.ModelProto(output=1, gap_times=self.gaps_us)
        for number, stage in enumerate(self.stages, start=1):
            node = model.nodes[number]
            node.id, node.name = number, stage.name
            node.num_elements = int(stage.per_batch * self.fetched)
            node.buffered_elements = stage.buffered
            if number < len(self.stages):
                node.inputs.append(number + 1)
        return model


def read_scripted(monkeypatch):
    """Makes `PipelineModelMeter` read the models of scripted pipelines instead of tf.data's."""
    import tensorflow as tf

    real = pipeline_model.host_iterator
    for name, made in {
        "host_iterator": lambda each: each if isinstance(each, ScriptedPipeline) else real(each),
        "has_model": lambda iterator: True,
        "check_model": lambda iterator: None,
        "read_model": lambda iterator: tf.constant(iterator.model.SerializeToString()),
    }.items():
        monkeypatch.setattr(pipeline_model, name, made)


def calibrated_hidden_wait(monkeypatch, steps, *, empty_call_s=0.0):
    """Returns a `HiddenWait`; entering and leaving a call that finds no data takes so long."""
    now_s = [0.0]

    def step(iterator):
        now_s[0] += empty_call_s
        raise StopIteration

    clock = SimpleNamespace(sleep=lambda seconds: None, perf_counter=lambda: now_s[0])
    for name, made in {
        "is_made_by_keras": lambda function: True,
        "empty_iterator": lambda iterator: iterator,
        "time": clock,
    }.items():
        monkeypatch.setattr(hidden_wait, name, made)
    hidden = HiddenWait(step, steps)
    hidden.calibrate(iter(()))
    return hidden
