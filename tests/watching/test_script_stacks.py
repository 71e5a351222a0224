"""The thread that lets the one sampler of stacks look."""

from __future__ import annotations

import os
import threading

import pytest

from keras_gpukit.watching.script_stacks import ScriptStacks


class Sampler:
    def __init__(self):
        self.looked = threading.Event()

    def resume(self):
        self.looked.clear()

    def look(self):
        self.looked.set()


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
    sampler.look = lambda: (sampler.looked.set(), 1 / 0)
    stacks = ScriptStacks(sampler)
    stacks.acquire()
    assert sampler.looked.wait(60)
    stacks.release()
    assert caplog.text.count("Sampling stacks failed") == 1
