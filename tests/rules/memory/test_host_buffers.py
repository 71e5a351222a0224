"""Caches and shuffle buffers that will need more host memory than there is are found before."""

from dataclasses import replace

import pytest
from helpers.findings import by_name, codes

from keras_gpukit import records
from keras_gpukit.rules import judge

GIB = 2**30
CODE = "host-memory-runs-out"
# 40,000 elements of 1 MiB: 39.1 GiB, 32 of them in a step.
CACHE = records.HostBuffer(
    "cache() after decode", "cache", elements=40_000, element_bytes=2**20, per_step=32.0
)
SHUFFLE = replace(CACHE, name="shuffle(8,192)", kind="shuffle", elements=8192)


def judged(*buffers, steps=50, epoch_steps=1250, left=24 * GIB, **more):
    record = records.HostBuffers(buffers, steps, epoch_steps, int(left), **more)
    return judge(records.RunSummary(records.Environment({}), host_buffers=record))


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
    # By the elements, where Keras does not know the steps of an epoch.
    assert finding(CACHE, epoch_steps=None)[0].title == found.title
    endless = replace(CACHE, elements=100_000)  # which several epochs fill
    assert finding(endless, epoch_steps=500)[0].title.endswith("in epoch 2")


def test_a_shuffle_buffer_that_does_not_fit_alone_or_with_a_cache():
    found, _ = finding(SHUFFLE, steps=0, left=4 * GIB)
    assert found.title.startswith("shuffle(8,192) runs out of host memory before the first step")
    assert found.advice[0].startswith("Shuffle file names")
    # The buffer of 8 GiB is full when the first step ends, and what is in it was cached before.
    cache = replace(CACHE, ahead=8192)
    found, figures = finding(cache, SHUFFLE, steps=1, left=24 * GIB)
    assert figures["still to come"] == pytest.approx(39.06 - 8 - 1 / 32, abs=0.01)
    assert found.title.endswith("after about 62 % of the first epoch")


def test_nearly_all_of_it_is_a_warning():
    found, _ = finding(CACHE, left=40 * GIB)
    assert found.severity == "warning"
    assert found.title == "The input pipeline nearly fills the host's memory"


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


def test_it_abstains_where_a_figure_is_unknown():
    because = "the number of its elements is unknown"
    endless = judged(replace(CACHE, elements=None, unknown_because=because))
    assert endless.not_applicable[CODE] == f"of cache() after decode, {because}"
    unread = judged(replace(CACHE, per_step=None)).not_applicable[CODE]
    assert unread == "of cache() after decode, how full it is cannot be known"
    because = "the input is not a tf.data pipeline"
    assert judged(unknown_because=because).not_applicable[CODE] == because
    assert CODE in judge(records.RunSummary(records.Environment({}))).not_applicable


@pytest.mark.parametrize(("elements", "is_leak"), [(10**6, False), (3000, True)])
def test_a_cache_that_is_being_filled_is_no_leak(elements, is_leak):
    """Each epoch of 100 steps of 4 examples adds 400 MiB: to the cache, or to what leaks."""
    readings = tuple(
        records.EpochMemory(epoch, 100 * epoch, process_bytes=GIB + epoch * 400 * 2**20)
        for epoch in range(1, 13)
    )
    cache = replace(CACHE, elements=elements, per_step=4.0)
    buffers = records.HostBuffers((cache,), 1200, 100, 2000 * GIB)
    memory = records.MemoryRecord(epochs=readings)
    found = codes(records.RunSummary(records.Environment({}), memory=memory, host_buffers=buffers))
    assert ("memory-grows" in found) == is_leak
