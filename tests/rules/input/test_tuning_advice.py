"""What only a pipeline's author can change."""

from dataclasses import replace

import pytest

from keras_gpukit.records import StageTraits
from keras_gpukit.rules.gains import advise
from keras_gpukit.rules.whole_run.whole_script import remedy

PLAIN = StageTraits(
    function="decode",
    function_below="resize",
    is_generator=False,
    is_python=False,
    gives_single_elements=False,
    batch_size=None,
    shuffle_buffer=None,
    caches_what_varies=None,
)


@pytest.mark.parametrize(
    ("traits", "begins"),
    [
        ({}, []),
        ({"batch_size": 16}, ["If resize can"]),
        ({"batch_size": 15, "function_below": None}, ["Batches of 15"]),
        ({"shuffle_buffer": 99}, ["Shuffle before resize"]),
        ({"shuffle_buffer": 99, "function_below": None}, []),
        ({"gives_single_elements": True}, ["decode makes a dataset of a single"]),
        ({"is_python": True}, ["decode runs in Python"]),
        ({"is_python": True, "is_generator": True}, ["The generator runs in Python"]),
        ({"caches_what_varies": "its order"}, ["The cache holds what should differ"]),
    ],
)
def test_each_trait_has_its_advice(traits, begins):
    lines = advise([replace(PLAIN, **traits)])
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True))


@pytest.mark.parametrize("cache_pays", [True, False])
def test_a_suggested_cache_stays_before_the_shuffle(cache_pays):
    stages = [replace(PLAIN, shuffle_buffer=99)]
    [line] = advise(stages, cache_pays=cache_pays)
    assert ("Not with a cache: it comes before the shuffle" in line) == cache_pays


def test_the_same_advice_is_given_once_and_none_for_errors_that_are_not_known():
    assert len(advise([replace(PLAIN, is_python=True)] * 2)) == 1
    assert remedy("UNAVAILABLE: something else") is None
    assert "SYS_ADMIN" in remedy("CUPTI: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
