"""Restores a model exactly as it was, or replaces attributes of it for a while."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from keras_gpukit.frameworks import keras_models, tf_runtime

# OrderedDict comes first: dict.clear() would not reset the order of an OrderedDict.
CONTAINERS: tuple[Any, ...] = (OrderedDict, dict, list, set, deque)

Restore = Callable[[], object]


@contextmanager
def untouched(model: Any, *, values: bool = True) -> Iterator[None]:
    """Restores a model's state, bit for bit, however the context is left.

    This restores the values of all variables (weights, optimizer, metrics, seed generators) and the
    attributes of every Keras object that the model holds: a layer that was not built is unbuilt
    again, and compiled functions and `stop_training` are the same objects and values as before. It
    also restores the state of the random generators of Python, NumPy, TensorFlow and Keras.

    It does not restore what Keras does not track: plain Python objects that a `train_step` changes,
    files and lookup tables; nor, in eager steps, the position of TensorFlow's random operations
    with their own seed, which only their kernels know.

    The values are kept in host memory, so a model on a GPU needs no additional GPU memory. For code
    that only traces, `values=False` avoids these copies.
    """
    with put_back([*_remember(model, values), *_remember_random_numbers()]):
        yield


@contextmanager
def put_back(restores: Iterable[Restore]) -> Iterator[None]:
    """Runs all restore functions however the context is left, even if one of them fails.

    A function that Ctrl-C interrupts runs a second time, so each must allow that.
    """
    try:
        yield
    except BaseException:
        _run_all(restores)
        raise
    failure = _run_all(restores)
    if failure is not None:
        raise failure


def _run_all(restores: Iterable[Restore]) -> BaseException | None:
    first: BaseException | None = None
    for restore in restores:
        failure = _run(restore)
        if isinstance(failure, KeyboardInterrupt):
            first, failure = failure, _run(restore)
        first = first or failure
    return first


def _run(restore: Restore) -> BaseException | None:
    try:
        restore()
    except BaseException as failure:
        return failure
    return None


def _remember(model: Any, values: bool) -> Iterator[Restore]:
    import tensorflow as tf

    waiting: list[Any] = [model, keras_models.keras_globals(), tf_runtime.global_generator()]
    seen: dict[int, Any] = {}
    while waiting:
        thing = waiting.pop()
        if thing is None or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, tf.Variable):
            if values:
                yield _keep_value(thing)
            continue
        if _is_followed(thing):
            waiting.extend(thing.__dict__.values())
            yield _keep_attributes(thing)
        if isinstance(thing, tuple):
            waiting.extend(thing)
        elif isinstance(thing, CONTAINERS) and not tf_runtime.keeps_its_items_inside(thing):
            waiting.extend(thing.values() if isinstance(thing, dict) else thing)
            yield _keep_contents(thing)


def _is_followed(thing: Any) -> bool:
    import tensorflow as tf

    if isinstance(thing, type) or not hasattr(thing, "__dict__"):
        return False
    return (
        isinstance(thing, (tf.Module, tf.random.Generator))
        or thing is keras_models.keras_globals()
        or tf_runtime.keeps_its_items_inside(thing)
        or any(kind.__module__.split(".")[0] == "keras" for kind in type(thing).__mro__)
    )


def _keep_value(variable: Any) -> Restore:
    # Under a mirrored strategy each replica has its own variable.
    parts = [(part, part.numpy()) for part in getattr(variable, "values", None) or (variable,)]

    def restore() -> None:
        for part, value in parts:
            part.assign(value)

    return restore


def _keep_contents(container: Any) -> Restore:
    # TensorFlow wraps dictionaries that are assigned to attributes.
    container = getattr(container, "__wrapped__", container)
    # Use the methods of the plain type: Keras' containers would track each item as a new one.
    kind = next(kind for kind in CONTAINERS if isinstance(container, kind))
    contents = dict(container) if isinstance(container, dict) else list(container)

    def restore() -> None:
        kind.clear(container)
        (kind.extend if hasattr(kind, "extend") else kind.update)(container, contents)

    return restore


def _keep_attributes(thing: Any) -> Restore:
    attributes = dict(thing.__dict__)

    def restore() -> None:
        thing.__dict__.clear()
        thing.__dict__.update(attributes)

    return restore


@contextmanager
def replaced(model: Any, attributes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replaces attributes within the block, and restores them afterwards."""
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in attributes]
    for owner, name, value in attributes:
        setattr(owner, name, value)
    model.train_function = None  # otherwise Keras keeps the step that it has traced
    try:
        yield
    finally:
        for owner, name, own in reversed(before):
            if own is None:
                delattr(owner, name)  # uncovers the class's attribute
            else:
                setattr(owner, name, own)
        model.train_function = None


def _remember_random_numbers() -> Iterator[Restore]:
    python_state, numpy_state = random.getstate(), np.random.get_state()
    yield lambda: random.setstate(python_state)
    yield lambda: np.random.set_state(numpy_state)
    seeds = tf_runtime.eager_seeds()
    if seeds is not None:
        seeds_state = seeds.getstate()
        # TensorFlow caches the operations made with a seed, each with its own counter. If the
        # experiment drew the same seeds as the later training, it would use up the first numbers.
        seeds.seed()
        yield lambda: seeds.setstate(seeds_state)
