"""Training does not wait for the iterator of an epoch that is over to be freed."""

from __future__ import annotations

import threading
import weakref

from helpers.training import fast_dataset

from keras_gpukit.input.wait.clock import PastIterator


def join() -> None:
    for thread in threading.enumerate():
        if thread.name == "frees an iterator":
            thread.join()


def followed(past: PastIterator, freed: list[threading.Thread]) -> None:
    iterator = iter(fast_dataset(3))
    weakref.finalize(iterator, lambda: freed.append(threading.current_thread()))
    past.follow(iterator)
    past.follow(iterator)


def test_it_is_freed_on_a_thread_of_its_own():
    past, freed = PastIterator(), []
    followed(past, freed)
    assert not freed
    followed(past, freed)
    join()
    assert len(freed) == 1
    past.free()
    join()
    assert len(freed) == 2
    assert threading.main_thread() not in freed
