"""`Monitor(nvtx=True)`: ranges for Nsight Systems, recorded by a stand-in for the package nvtx."""

import sys
import types

import keras
import numpy as np
import pytest
from helpers.training import arrays, fast_dataset, sensitive_model, small_model

from keras_gpukit import Monitor

pytestmark = pytest.mark.usefixtures("undisturbed")


class RecordedDomain:
    """Keeps the beginnings, ends and marks, by name; every end must have its beginning."""

    def __init__(self):
        self.events, self.open, self.pushed = [], {}, []

    def get_event_attributes(self, message=None, color=None, category=None, payload=None):
        return message, payload

    def start_range(self, attributes):
        number = len(self.events)
        self.open[number] = attributes[0]
        self.events.append(("begin", attributes[0]))
        return number

    def end_range(self, number):
        self.events.append(("end", self.open.pop(number)))

    def push_range(self, attributes):
        self.pushed.append(attributes[0])
        self.events.append(("begin", *attributes))

    def pop_range(self):
        self.events.append(("end", self.pushed.pop()))

    def mark(self, attributes):
        self.events.append(("mark", *attributes))

    @property
    def ranges(self):
        return [(kind, name) for kind, name, *_ in self.events if kind != "mark"]

    @property
    def is_over(self):
        return not (self.open or self.pushed)


@pytest.fixture
def recorded(monkeypatch):
    domain = RecordedDomain()
    nvtx = types.ModuleType("nvtx")
    nvtx.get_domain = {"keras_gpukit": domain}.__getitem__
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    return domain


def monitor(**options):
    return Monitor(None, verbose=0, nvtx=True, **options)


def test_a_fit_has_ranges_of_epochs_steps_and_validation(recorded):
    data = fast_dataset(3)
    options = {"epochs": 2, "validation_data": data, "verbose": 0, "callbacks": [monitor()]}
    small_model().fit(data, **options)
    names = recorded.ranges
    step = [("begin", "step"), ("end", "step")]
    assert (names[0], names[-1]) == (("begin", "fit"), ("end", "fit"))
    first, second = names.index(("begin", "epoch 1")), names.index(("begin", "epoch 2"))
    epoch = names[first:second]
    assert epoch[-1] == ("end", "epoch 1")
    begins, ends = epoch.index(("begin", "validation")), epoch.index(("end", "validation"))
    # The call that finds the end of the data may be one more, in which no step runs.
    assert epoch[1:begins][:6] == 3 * step
    assert epoch[begins + 1 : ends][:6] == 3 * step
    assert [kind for kind, name in names if name == "validation"] == ["begin", "end"] * 2
    assert recorded.is_over


@pytest.mark.parametrize(
    "options",
    [{"steps_per_execution": 3}, pytest.param({"jit_compile": True}, marks=pytest.mark.long)],
    ids=str,
)
def test_several_steps_and_jit_are_marked_and_give_the_same_weights(recorded, options):
    x, y = arrays(96)
    weights = []
    for callbacks in ([], [monitor()]):
        model = sensitive_model(**options)
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
        weights.append(model.get_weights())
    for before, after in zip(*weights, strict=True):
        np.testing.assert_array_equal(before, after)
    name, per_epoch = ("3 steps", 2) if "steps_per_execution" in options else ("step", 6)
    numbers = [payload for _, found, *rest in recorded.events if found == name for payload in rest]
    assert numbers[: 2 * per_epoch] == list(range(1, 2 * per_epoch + 1))
    waits_ms = [rest[0] for kind, _, *rest in recorded.events if kind == "mark"]
    assert waits_ms  # as measured
    assert min(waits_ms) >= 0
    assert recorded.is_over


def test_predict_has_a_range_of_each_fetch_that_ends_before_its_step(recorded):
    small_model().predict(fast_dataset(3), verbose=0, callbacks=[monitor()])
    names = recorded.ranges
    fetch = [("begin", "fetch of a batch"), ("end", "fetch of a batch")]
    assert names[0] == ("begin", "predict")
    assert names[1:13] == 3 * [*fetch, ("begin", "step"), ("end", "step")]
    assert recorded.is_over


def test_nothing_is_marked_or_loaded_unless_it_is_asked_for(recorded, monkeypatch):
    small_model().fit(fast_dataset(2), verbose=0, callbacks=[Monitor(None, verbose=0)])
    assert recorded.events == []
    with pytest.raises(TypeError, match="`nvtx` must be True or False"):
        Monitor(None, nvtx="yes")
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[nvtx\]"'):
        monitor()
    Monitor(None)


def test_every_range_ends_after_a_fit_that_raised(recorded):
    def fail(batch, logs):
        raise RuntimeError("theirs")

    theirs = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    watching = monitor()
    with pytest.raises(RuntimeError, match="theirs"):
        small_model().fit(fast_dataset(3), verbose=0, callbacks=[watching, theirs])
    assert watching.summary.ending == "interrupted"
    assert recorded.is_over
