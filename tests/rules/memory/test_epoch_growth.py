"""Memory that rises from epoch to epoch is found, with when it is full; what fills up is not."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from helpers.findings import by_name

from keras_gpukit.records import (
    DeviceMemory,
    Environment,
    EpochMemory,
    Kept,
    MemoryRecord,
    RunSummary,
)
from keras_gpukit.rules import judge
from keras_gpukit.rules.memory.growth import FEWEST_EPOCHS, LEAST_PROCESS_BYTES, steady_rise
from keras_gpukit.saved_runs.folding.joined import EpochReadings

MIB, GIB = 2**20, 2**30
EPOCHS = 24
LINE = [2 * GIB + 200 * MIB * epoch for epoch in range(EPOCHS)]
FLAT = [2 * GIB] * EPOCHS


def run(process=FLAT, device=FLAT, peak=None, left_bytes=40 * GIB, kept=lambda epoch: (), trac=0):
    readings = tuple(
        EpochMemory(
            epoch=number + 1,
            step=10 * number,
            process_bytes=int(held),
            left_bytes=left_bytes,
            current_bytes={"GPU:0": int(on_gpu)},
            peak_bytes={"GPU:0": int((peak or device)[number])},
            kept=kept(number),
            tracings=trac * number,
        )
        for number, (held, on_gpu) in enumerate(zip(process, device, strict=True))
    )
    last = readings[-1]
    gpu = DeviceMemory("GPU:0", last.current_bytes["GPU:0"], last.peak_bytes["GPU:0"], 16 * GIB)
    return RunSummary(Environment({}), memory=MemoryRecord((gpu,), epochs=readings))


def finding(summary):
    (found,) = (each for each in judge(summary).findings if each.code == "memory-grows")
    return found, by_name(found)


def test_what_a_device_gains_per_epoch_and_when_it_is_full():
    found, figures = finding(run(device=LINE))
    # 16 GiB, of which 2 GiB and 23 epochs' 200 MiB are in use.
    assert found.title == (
        "Memory of GPU:0 grows with each epoch: GPU:0 is full after about 48 more epochs at this "
        "rate"
    )
    assert found.severity == "info"
    assert figures["each epoch adds"] == pytest.approx(200 * MIB)
    assert figures["left"] == 16 * GIB - LINE[-1]


def test_it_is_a_warning_where_a_run_as_long_again_would_run_out():
    found, figures = finding(run(process=LINE, left_bytes=3 * GIB))
    assert found.severity == "warning"
    assert "the host is full after about 15 more epochs" in found.title
    assert figures["in the end"] == pytest.approx(LINE[-1])


def test_growth_that_a_run_ten_times_as_long_would_survive_is_named_with_a_cause_only():
    # 24 epochs of 200 MiB are 4.7 GiB.
    assert "memory-grows" in judge(run(process=LINE, left_bytes=48 * GIB)).passed
    assert "235 more epochs" in finding(run(process=LINE, left_bytes=46 * GIB))[0].title
    found, _ = finding(run(process=LINE, left_bytes=48 * GIB, trac=1))
    assert found.title == "Memory of this process grows with each epoch"


def test_noise_does_not_hide_it():
    draw = random.Random(0)
    noisy = [value + draw.uniform(-300 * MIB, 300 * MIB) for value in LINE]
    _, figures = finding(run(process=noisy, left_bytes=9 * GIB))
    assert figures["each epoch adds"] == pytest.approx(200 * MIB, rel=0.15)


def test_a_peak_that_rises_alone_is_named_as_one():
    found, _ = finding(run(peak=LINE))
    assert found.title.startswith("Memory of GPU:0 at its peak grows with each epoch: GPU:0 is")


def test_what_a_callback_keeps_is_named():
    found, figures = finding(
        run(device=LINE, kept=lambda epoch: (Kept("Saver.losses", "GPU:0", 180 * MIB * epoch),))
    )
    assert found.advice[0].startswith("Saver.losses keeps more tensors or arrays")
    assert figures["kept in Saver.losses"] == 180 * MIB * 23


def test_what_is_kept_elsewhere_or_grows_less_is_not_named():
    for name, where, each in (("a", "host", 180 * MIB), ("b", "GPU:0", 20 * MIB)):
        found, _ = finding(
            run(
                device=LINE, kept=lambda epoch, k=(name, where, each): (Kept(*k[:2], k[2] * epoch),)
            )
        )
        assert "keeps more" not in found.advice[0]


def test_tracing_in_each_epoch_is_named_for_the_process_only():
    assert "traced again in each epoch" in finding(run(process=LINE, trac=1))[0].advice[0]
    assert "traced again" not in finding(run(device=LINE, trac=1))[0].advice[0]


def test_a_list_of_the_script_is_named_with_its_module_and_its_items():
    found, figures = finding(
        run(
            process=LINE,
            kept=lambda epoch: (Kept("seen", "host", 200 * MIB * epoch, "train.py", 3 * epoch),),
        )
    )
    assert found.advice[0].startswith("seen of train.py keeps more tensors or arrays from epoch to")
    assert figures["kept in seen of train.py"] == 200 * MIB * 23
    assert figures["items of seen"] == 69


def test_what_was_read_once_or_grows_faster_than_memory_is_not_named():
    def only_at_last(epoch):
        return (Kept("seen", "host", 5000 * MIB),) if epoch == EPOCHS - 1 else ()

    def untouched(epoch):
        return (Kept("seen", "host", 1000 * MIB * epoch),)

    for kept in (only_at_last, untouched):
        found, _ = finding(run(process=LINE, kept=kept))
        assert "keeps more" not in found.advice[0]


def over_fits(summary):
    """The same readings, each after a fit of one epoch."""
    memory = summary.memory
    return replace(summary, memory=replace(memory, epochs=memory.epochs[:1], fits=memory.epochs))


def test_growth_over_many_fits_is_found_and_their_warm_up_does_not_count():
    kept = {"kept": lambda fit: (Kept("seen", "host", 200 * MIB * fit, "train.py", fit),)}
    found, figures = finding(over_fits(run(process=LINE, left_bytes=3 * GIB, **kept)))
    assert found.title == (
        "Memory of this process grows with each fit: the host is full after about 15 more fits at "
        "this rate"
    )
    assert found.severity == "warning"
    assert figures["each fit adds"] == pytest.approx(200 * MIB)
    assert found.advice[0].startswith("seen of train.py keeps more tensors or arrays from fit to")
    warm_up = [GIB, 2 * GIB, *[3 * GIB] * 8]
    assert "memory-grows" in judge(over_fits(run(process=warm_up, device=FLAT[:10]))).passed
    few = over_fits(run(process=LINE[:8], device=FLAT[:8]))
    assert "9 epochs or fits" in judge(few).not_applicable["memory-grows"]


def kept_models(summary, each_bytes, trac):
    """The same readings, with one more model that still exists after each fit."""
    summary = over_fits(summary)
    fits = tuple(
        replace(each, models=each.epoch, models_bytes=each_bytes * each.epoch, tracings=trac(each))
        for each in summary.memory.fits
    )
    return replace(summary, memory=replace(summary.memory, fits=fits))


def test_models_that_still_exist_are_named_as_the_cause_of_growth_over_fits():
    found, figures = finding(kept_models(run(process=LINE), 180 * MIB, lambda each: each.epoch))
    assert found.title == "24 models of this script are alive and hold 4320 MiB"
    assert found.severity == "warning"
    assert figures["models alive"] == 24
    assert "keep results instead of models" in found.advice[0]
    small = kept_models(run(process=LINE), MIB, lambda each: each.epoch)
    assert finding(small)[0].title == (
        "24 models of this script are alive and hold their traced steps"
    )
    assert finding(small)[0].severity == "info"
    unrelated = kept_models(run(process=LINE), MIB, lambda each: 0)
    assert "models of this script" not in finding(unrelated)[0].title


def until(stop):
    return [LINE[min(epoch, stop)] for epoch in range(EPOCHS)]


draw = random.Random(1)
HEALTHY = {
    "steady": FLAT,
    "a cache that fills in the first epochs": until(6),
    "a buffer that is full in the middle": until(12),
    "one that is full just before the end": until(19),
    "a jump": [2 * GIB] * 12 + [5 * GIB] * 12,
    "two jumps": [2 * GIB] * 8 + [3 * GIB] * 8 + [4 * GIB] * 8,
    "falls": LINE[::-1],
    "small": [2 * GIB + MIB * epoch for epoch in range(EPOCHS)],
    "noise": [2 * GIB + draw.uniform(0, GIB) for _ in range(EPOCHS)],
}


@pytest.mark.parametrize("levels", HEALTHY.values(), ids=HEALTHY)
def test_what_does_not_go_on_growing_is_none(levels):
    assert "memory-grows" in judge(run(process=levels, left_bytes=GIB)).passed


def test_noise_alone_is_hardly_ever_taken_for_growth():
    """In as few epochs as are judged at all, where a line through noise may rise by chance."""

    def is_growth(seed):
        noise = random.Random(seed)
        levels = [(epoch, int(GIB + noise.gauss(0, 100 * MIB))) for epoch in range(FEWEST_EPOCHS)]
        return steady_rise(levels, LEAST_PROCESS_BYTES) is not None

    assert sum(map(is_growth, range(500))) <= 10


def test_too_few_epochs_say_nothing():
    few = run(process=LINE[:8], device=FLAT[:8])
    assert "after 9 epochs" in judge(few).not_applicable["memory-grows"]


def test_readings_are_thinned_and_the_latest_one_stays():
    collector = EpochReadings()
    for epoch in range(1, 1001):
        collector.add(EpochMemory(epoch, 10 * epoch))
    epochs = [each.epoch for each in collector.record()]
    assert epochs[0] == 1
    assert epochs[-1] == 1000
    assert 64 <= len(epochs) <= 129
    assert len({b - a for a, b in itertools.pairwise(epochs[:-1])}) == 1


def test_of_thinned_readings_one_that_looked_at_what_is_kept_stays():
    collector = EpochReadings()
    looked = range(500, 1001, 100)
    for epoch in range(1, 1001):
        left_bytes = 2**30 if epoch in looked else None
        collector.add(EpochMemory(epoch, 10 * epoch, left_bytes=left_bytes))
    stayed = [each.epoch for each in collector.record() if each.left_bytes is not None]
    assert stayed == list(looked)
