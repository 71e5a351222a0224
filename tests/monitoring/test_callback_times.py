"""How long each callback of a call takes, by their classes, and the thread that looks at stacks."""

import os
import threading
from types import SimpleNamespace

import pytest
from helpers.stopped_clock import StoppedClock

from keras_gpukit.monitoring import callback_list
from keras_gpukit.monitoring.callback_list import CallbackTimes
from keras_gpukit.monitoring.sampling import ScriptStacks
from keras_gpukit.records import OWN_WORK


class Waits:
    """Takes four seconds at an epoch's end."""

    def __init__(self, clock=None):
        self.clock = clock

    def on_epoch_end(self, epoch):
        self.clock.now_s += 4

    def on_train_batch_end(self, batch, logs=None):
        pass


class Raises(Waits):
    def on_epoch_end(self, epoch):
        raise ValueError("in a callback")


def keras_list(*callbacks):
    listed = SimpleNamespace(callbacks=list(callbacks))

    def on_epoch_end(epoch):
        for callback in listed.callbacks:
            callback.on_epoch_end(epoch)

    return listed, on_epoch_end


@pytest.fixture
def clock(monkeypatch):
    return StoppedClock.of(monkeypatch, callback_list)


def test_each_callback_is_timed_at_an_epochs_end_and_the_list_is_left_as_it_was(clock):
    callbacks = Waits(clock), SimpleNamespace(on_epoch_end=lambda epoch: None)
    listed, hook = keras_list(*callbacks)
    before = listed.callbacks
    times = CallbackTimes(listed, threading.get_ident())
    times.timed(hook)(3)
    assert times.by_class(9.0, 0.0) == {"Waits": 4.0, "SimpleNamespace": 0.0}
    times.own(clock.takes(2))  # our own work is named as ours
    assert times.by_class(9.0, 0.0)[OWN_WORK] == 2.0
    assert listed.callbacks is before == list(callbacks)
    listed, hook = keras_list(Raises())
    before = listed.callbacks
    with pytest.raises(ValueError, match="in a callback"):
        CallbackTimes(listed, threading.get_ident()).timed(hook)(3)
    assert listed.callbacks is before


@pytest.mark.parametrize("through", [lambda listed, kept: listed.callbacks, lambda _, kept: kept])
def test_a_callback_that_is_added_within_a_hook_is_not_undone(through):
    listed, _ = keras_list()
    kept = listed.callbacks
    CallbackTimes(listed, 0).timed(lambda epoch: through(listed, kept).append("new"))(0)
    assert listed.callbacks is kept == ["new"]
    assert type(kept) is list
    # What is added later through a list that was kept in a hook is not lost.
    seen = []
    CallbackTimes(listed, 0).timed(lambda epoch: seen.append(listed.callbacks))(0)
    seen[0].append("newer")
    assert listed.callbacks == list(seen[0]) == ["new", "newer"]


def look_at(times, *functions, thread=1):
    """Looks at a thread that is inside functions, the innermost first."""
    times.between_steps.see({thread: [id(function.__code__) for function in functions]}, 0.1, {})


def test_a_callback_seen_between_steps_counts_for_its_share_of_the_looks():
    times = CallbackTimes(keras_list(Waits())[0], 1)
    look_at(times, threading.Event.wait, Waits.on_train_batch_end)
    look_at(times, Waits.on_train_batch_end, thread=2)
    assert times.by_class(10.0, 8.0) == {"Waits": 5.0}
    assert times.by_class(10.0, 2.0) == {"Waits": 2.0}  # no more than passed between steps

    # A hook that two classes inherit is not named after one of them.
    class Base(Waits):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)

    Slow, Quick = type("Slow", (Base,), {}), type("Quick", (Base,), {})
    for callbacks, name in (((Slow(), Quick()), "Base"), ((Slow(), Slow()), "Slow")):
        times = CallbackTimes(keras_list(*callbacks)[0], 1)
        look_at(times, Base.on_train_batch_end)
        assert list(times.by_class(10.0, 8.0)) == [name]


@pytest.mark.parametrize("epochs", [3, 30, 3000])
def test_the_first_and_last_third_of_epochs_are_averaged_in_little_memory(epochs):
    times = CallbackTimes(None, threading.get_ident())
    assert times.by_thirds() == {}
    for epoch in range(epochs):
        # A third of the epochs takes 1 s each, the next one 2 s, the last one 5 s.
        times.at_epochs_s["Scores"] += (1.0, 2.0, 5.0)[3 * epoch // epochs]
        times.epoch_ended()
    assert times.by_thirds()["Scores"] == pytest.approx((1.0, 5.0))


class Sampler:
    def __init__(self):
        self.looked = threading.Event()
        self.resume, self.poll = self.looked.clear, self.looked.set


def test_it_looks_while_anyone_needs_it_and_is_no_thread_that_a_script_can_wait_for():
    threads = threading.active_count()
    stacks = ScriptStacks(Sampler())
    stacks.acquire()
    assert stacks.acquire().looked.wait(60)
    assert threading.active_count() == threads
    stacks.release()
    stacks.sampler.looked.clear()
    assert stacks.sampler.looked.wait(60)
    stacks.release()
    stacks.sampler.looked.clear()
    assert not stacks.sampler.looked.wait(0.5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_it_goes_on_in_a_fork():
    stacks = ScriptStacks(Sampler())
    stacks.acquire()
    if (child := os.fork()) == 0:
        os._exit(0 if stacks.sampler.looked.wait(60) else 1)
    assert os.waitpid(child, 0)[1] == 0
    stacks.sampler.looked.clear()
    assert stacks.sampler.looked.wait(60)
    stacks.release()


def test_a_sampler_that_fails_ends_without_harm(caplog):
    sampler = Sampler()
    sampler.poll = lambda: (sampler.looked.set(), 1 / 0)
    stacks = ScriptStacks(sampler)
    stacks.acquire()
    assert sampler.looked.wait(60)
    stacks.release()
    assert caplog.text.count("Sampling stacks failed") == 1
