"""Caches and shuffle buffers that will need more host memory than there is are found before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.findings import by_name

from keras_gpukit.records import (
    Environment,
    EpochMemory,
    HostBuffer,
    HostBuffers,
    MemoryRecord,
    RunSummary,
)
from keras_gpukit.rules import judge

GIB = 2**30
CODE = "host-memory-runs-out"
# 40,000 elements of 1 MiB: 39.1 GiB, 32 of them in a step.
CACHE = HostBuffer(
    "cache() after decode", "cache", elements=40_000, element_bytes=2**20, per_step=32.0
)
SHUFFLE = HostBuffer("shuffle(8,192)", "shuffle", elements=8192, element_bytes=2**20, per_step=32.0)


def judged(*buffers, steps=50, epoch_steps=1250, left=24 * GIB, **more):
    record = HostBuffers(buffers, steps, epoch_steps, int(left), **more)
    return judge(RunSummary(Environment({}), host_buffers=record))


def finding(*buffers, **run):
    (found,) = (each for each in judged(*buffers, **run).findings if each.code == CODE)
    return found, {name: value / GIB for name, value in by_name(found).items()}


def test_when_a_cache_runs_out_within_the_first_epoch():
    found, figures = finding(CACHE)
    # After 50 steps 1.56 GiB of 39.06 are held; 24 GiB more are there after 768 more steps.
    assert found.title == (
        "cache() after decode runs out of host memory after about 65 % of the first epoch"
    )
    assert found.severity == "critical"
    assert figures["full size of cache() after decode"] == pytest.approx(39.06, abs=0.01)
    assert figures["still to come"] == pytest.approx(37.5)
    assert figures["free host memory"] == 24
    assert found.advice[0].startswith("Cache to a file")


def test_by_the_elements_where_keras_does_not_know_the_steps_of_an_epoch():
    assert finding(CACHE, epoch_steps=None)[0].title.endswith("after about 65 % of the first epoch")


def test_a_cache_that_several_epochs_fill():
    endless = replace(CACHE, elements=100_000)
    assert finding(endless, epoch_steps=500)[0].title.endswith("in epoch 2")


def test_a_shuffle_buffer_that_does_not_fit_before_the_first_step():
    found, _ = finding(SHUFFLE, steps=0, left=4 * GIB)
    assert found.title.startswith("shuffle(8,192) runs out of host memory before the first step")
    assert found.advice[0].startswith("Shuffle file names")


def test_both_together():
    # The buffer of 8 GiB is full when the first step ends, and what is in it was cached before.
    cache = replace(CACHE, ahead=8192)
    found, figures = finding(cache, SHUFFLE, steps=1, left=24 * GIB)
    assert figures["still to come"] == pytest.approx(39.06 - 8 - 1 / 32, abs=0.01)
    assert found.title.endswith("after about 62 % of the first epoch")


def test_nearly_all_of_it_is_a_warning():
    found, _ = finding(CACHE, left=40 * GIB)
    assert (found.severity, found.title) == (
        "warning",
        "The input pipeline nearly fills the host's memory",
    )


@pytest.mark.parametrize(
    ("buffers", "run"),
    [
        ((CACHE,), {"left": 42 * GIB}),
        ((CACHE,), {"steps": 1250, "left": GIB}),  # it is full
        ((SHUFFLE,), {"steps": 1, "left": GIB}),
        ((), {}),
    ],
)
def test_what_fits_is_none(buffers, run):
    assert CODE in judged(*buffers, **run).passed


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (
            {"elements": None, "unknown_because": "the number of its elements is unknown"},
            "of cache() after decode, the number of its elements is unknown",
        ),
        ({"per_step": None}, "of cache() after decode, how full it is cannot be known"),
    ],
)
def test_it_abstains_where_a_figure_is_unknown(change, because):
    assert judged(replace(CACHE, **change)).not_applicable[CODE] == because


def test_it_abstains_without_readings():
    assert CODE in judge(RunSummary(Environment({}))).not_applicable
    unread = judged(unknown_because="the input is not a tf.data pipeline").not_applicable
    assert unread[CODE] == "the input is not a tf.data pipeline"


@pytest.mark.parametrize(("elements", "is_leak"), [(10**6, False), (3000, True)])
def test_a_cache_that_is_being_filled_is_no_leak(elements, is_leak):
    """Each epoch of 100 steps of 4 examples adds 400 MiB: to the cache, or to what leaks."""
    readings = tuple(
        EpochMemory(epoch, 100 * epoch, process_bytes=GIB + epoch * 400 * 2**20)
        for epoch in range(1, 13)
    )
    cache = replace(CACHE, elements=elements, per_step=4.0)
    summary = RunSummary(
        Environment({}),
        memory=MemoryRecord(epochs=readings),
        host_buffers=HostBuffers((cache,), 1200, 100, 2000 * GIB),
    )
    found = [each for each in judge(summary).findings if each.code == "memory-grows"]
    assert bool(found) == is_leak
