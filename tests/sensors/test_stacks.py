"""Time by lines of Python, from scripted stacks and a scripted clock."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import pytest
from helpers.stacks import OF_A_POOL, Script

from keras_gpukit.sensors.stacks import stack_of_thread, stacks_of_threads

KERAS, TENSORFLOW = "lib/keras/src", "lib/tensorflow/python"
TRAINER = f"{KERAS}/backend/tensorflow/trainer.py"
FIT = (TRAINER, "fit", 300)
CALLBACKS = (f"{KERAS}/callbacks/callback_list.py", "on_train_batch_end", 90)
MAIN = ("train.py", "<module>", 60)
CALL = ("call", "train.py:60", "<module>")
AROUND = ("lib/keras_gpukit/scripts/script_calls.py", "call", 1)
SLOW = ("train.py", "Slow.on_train_batch_end", 12)


def test_a_line_is_named_with_what_it_calls_outside_the_script():
    script = Script()
    adapt = (f"{KERAS}/layers/text_vectorization.py", "TextVectorization.adapt", 400)
    script.poll(2.0, MAIN, (f"{KERAS}/utils/traceback_utils.py", "error_handler", 1), adapt)
    script.poll(1.0, MAIN, adapt, (f"{TENSORFLOW}/ops/lookup_ops.py", "insert", 7))
    script.poll(0.5, MAIN, ("train.py", "clean", 12))
    times = script.times()
    assert [(each.place, each.function, each.called, each.seconds) for each in times.lines] == [
        ("train.py:60", "<module>", "TextVectorization.adapt", 3.0),
        ("train.py:12", "clean", None, 0.5),
    ]
    assert (times.samples, times.watched_s) == (3, 3.5)


@pytest.mark.parametrize(
    ("found", "stack"),
    [
        (CALL, (MAIN, FIT, (f"{KERAS}/x.py", "f", 1))),
        (
            ("callback", "train.py:9", "Slow.on_train_batch_end"),
            (MAIN, FIT, CALLBACKS, SLOW, ("train.py", "f", 9)),
        ),
        (
            ("callback", "other.py:5", "Other.on_train_batch_end"),
            (MAIN, FIT, CALLBACKS, ("lib/other.py", "Other.on_train_batch_end", 5)),
        ),
        # a callback that evaluates
        (
            ("callback", "train.py:12", "Slow.on_train_batch_end"),
            (MAIN, FIT, CALLBACKS, SLOW, (TRAINER, "evaluate", 1)),
        ),
        # our own work around a call belongs to the call, and our own callback is not the script's
        (CALL, (MAIN, AROUND, ("lib/x.py", "f", 1))),
        (CALL, (MAIN, FIT, CALLBACKS, ("lib/keras_gpukit/a.py", "f", 1))),
        (
            ("step", "train.py:33", "Model.train_step"),
            (MAIN, FIT, ("train.py", "Model.train_step", 33)),
        ),
        (
            ("import", "train.py:60", "<module>"),
            (MAIN, ("<frozen importlib._bootstrap>", "_find", 1)),
        ),
        (
            ("python", "train.py:9", "load"),
            (
                (f"{TENSORFLOW}/ops/script_ops.py", "__call__", 5),
                ("train.py", "load", 21),
                ("train.py", "decode", 9),
            ),
        ),
    ],
)
def test_what_runs_a_line(found, stack):
    script = Script()
    script.poll(1.0, *stack)
    (line,) = script.times().lines
    assert (line.part, line.place, line.entry) == found


def test_threads_outside_the_script_or_waiting_for_a_fit_do_not_count():
    script = Script()
    script.look_at(1.0, {1: (MAIN,), 2: (("lib/pool.py", "worker", 3),)})
    assert [line.place for line in script.times().lines] == ["train.py:60"]
    script = Script()
    script.look_at(5.0, {1: (MAIN,), 2: (("train.py", "train", 20), FIT)})
    script.poll(1.0, MAIN)
    (line,) = script.times(parts=["script"], thread=1, outside_calls=True).lines
    assert line.seconds == 1.0


def test_operations_outside_a_function_run_one_by_one():
    script = Script()
    step, eager = ("train.py", "step", 52), (f"{TENSORFLOW}/eager/execute.py", "quick_execute", 50)
    graph = (f"{TENSORFLOW}/eager/polymorphic_function/function.py", "__call__", 8)
    script.poll(3.0, MAIN, step, (f"{KERAS}/layers/layer.py", "Layer.__call__", 1), eager)
    script.poll(2.0, MAIN, step, graph, eager)
    script.poll(1.0, MAIN, (f"{TENSORFLOW}/data/ops/iterator_ops.py", "__next__", 7), eager)
    assert script.sampler.eager_s(script.code(*step[:2]), 0.0, 9.0) == 3.0
    assert script.sampler.eager_s(script.code(*step[:2]), 3.0, 9.0) == 0.0
    assert script.sampler.eager_s(script.code(*MAIN[:2]), 0.0, 9.0) == 3.0


def test_growth_shows_in_the_thirds_of_the_time():
    script = Script()
    for second in range(9):
        inside = ("train.py", "f", 9) if second in (2, 4, 6, 7, 8) else MAIN
        script.poll(1.0, MAIN, inside)
    line = script.times().lines[0]
    assert (line.place, line.first_third_s, line.last_third_s) == ("train.py:9", 1.0, 3.0)


def test_a_thread_that_uses_no_processor_time_waits():
    script = Script()
    for used_s in (0.0, 0.01, 0.9, 1.9):
        script.poll(1.0, MAIN, used_s=used_s)
    (line,) = script.times().lines
    assert (line.seconds, line.waits_s, line.mostly_waits) == (4.0, 1.0, False)


def test_old_looks_are_thinned_and_their_time_is_kept(monkeypatch):
    monkeypatch.setattr("keras_gpukit.sensors.stacks.MOST_SAMPLES", 8)
    script = Script()
    for _ in range(40):
        script.poll(1.0, MAIN)
    times = script.times()
    assert times.samples <= 8
    assert times.watched_s == times.lines[0].seconds == 40.0


def test_a_watch_counts_the_innermost_of_its_functions_in_looks_that_count():
    script, is_on = Script(), [True]
    load, read = ("train.py", "load", 3), ("train.py", "read", 7)
    watch = script.watch(load[:2], read[:2], when=lambda: is_on[0])
    for _ in range(9):
        script.look_at(1.0, {1: (MAIN, load, read), 2: (load,)})
    assert watch.mean_threads() is None  # after too few samples
    script.look_at(1.0, {1: (MAIN,), 2: (load,)})
    is_on[0] = False
    script.poll(1.0, load)
    assert watch.mean_threads() == pytest.approx(1.9)
    assert watch.slowest() is script.code(*load[:2])


@pytest.mark.parametrize(("in_pool", "threads"), [(True, 0.9), (False, 0.05)])
def test_code_that_holds_the_GIL_is_seldom_seen_but_its_pool_computes(in_pool, threads):
    script, read = Script(), ("train.py", "Photographs.__getitem__", 12)
    is_on = [True]
    watch = script.watch(read[:2], when=lambda: is_on[0], in_pool=in_pool)
    for second in range(1, 21):
        inside = (OF_A_POOL, read) if second == 7 else (OF_A_POOL,)
        # Of two threads, which use 0.45 s of each second; the first second is another epoch's.
        used_s = {2: 0.45 * second, 3: 0.45 * second, 4: 0.5 * second}
        script.look_at(1.0, {2: inside, 3: (OF_A_POOL,), 4: (MAIN,)}, used_s)
    is_on[0] = False
    script.look_at(1.0, {2: (OF_A_POOL,)}, {2: 100.0})
    assert watch.mean_threads() == pytest.approx(threads)


class _Frame:
    """A frame that notes whether garbage may be collected while the one around it is made."""

    def __init__(self, collects, around=None):
        self.collects, self._around = collects, around
        self.f_code = SimpleNamespace(co_filename="train.py")

    @property
    def f_back(self):
        self.collects.append(gc.isenabled())
        return self._around


@pytest.mark.parametrize("user_collects", [True, False])
def test_no_garbage_is_collected_while_stacks_of_other_threads_are_read(monkeypatch, user_collects):
    # Python 3.11 ends with a segmentation fault, or stands still, if what is freed lets them go on.
    collects = []

    def frames_of_threads():
        collects.append(gc.isenabled())
        return {7: _Frame(collects, _Frame(collects))}

    monkeypatch.setattr(sys, "_current_frames", frames_of_threads)
    if not user_collects:
        gc.disable()
    try:
        assert len(stacks_of_threads()[7]) == len(stack_of_thread(7)) == 2
        assert stack_of_thread(8) == []
        assert gc.isenabled() is user_collects
    finally:
        gc.enable()
    assert set(collects) == {False}
