"""Memory that rises from epoch to epoch is found, with when it is full; what fills up is not."""

import itertools
import random
from dataclasses import replace

import pytest
from helpers.findings import by_name, found

from keras_gpukit.records import (
    HOST_MEMORY,
    DeviceMemory,
    Environment,
    EpochMemory,
    Kept,
    MemoryRecord,
    RunSummary,
    Series,
)
from keras_gpukit.rules import judge
from keras_gpukit.rules.whole_run.steady_growth import (
    FEWEST_EPOCHS,
    LEAST_PROCESS_BYTES,
    growths_over_time,
    rises_evenly,
    steady_rise,
)
from keras_gpukit.saved_runs.folding.downsampling import EpochReadings

MIB, GIB = 2**20, 2**30
EPOCHS = 24
LINE = [2 * GIB + 200 * MIB * epoch for epoch in range(EPOCHS)]
FLAT = [2 * GIB] * EPOCHS


def run(process=FLAT, device=FLAT, peak=None, left_bytes=40 * GIB, kept=lambda epoch: (), trac=0):
    def reading(number, held, used):
        gpu = {"current_bytes": used, "peak_bytes": (peak or device)[number]}
        known = {name: {"GPU:0": int(each)} for name, each in gpu.items()}
        known |= {"left_bytes": left_bytes, "kept": kept(number), "tracings": trac * number}
        return EpochMemory(number + 1, 10 * number, process_bytes=int(held), **known)

    readings = tuple(map(reading, range(len(process)), process, device))
    last = readings[-1]
    gpu = DeviceMemory("GPU:0", last.current_bytes["GPU:0"], last.peak_bytes["GPU:0"], 16 * GIB)
    return RunSummary(Environment({}), memory=MemoryRecord((gpu,), epochs=readings))


def finding(summary):
    made = found("memory-grows", summary)
    return made, by_name(made)


def keeps(each_bytes, name="seen", where="host", module=None, items=None):
    """What the script keeps of each epoch or fit."""
    return lambda epoch: (
        Kept(name, where, each_bytes * epoch, module, None if items is None else items * epoch),
    )


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


def test_growth_is_as_severe_as_the_run_is_near_to_its_end():
    found, figures = finding(run(process=LINE, left_bytes=3 * GIB))
    assert found.severity == "warning"
    assert "the host is full after about 15 more epochs" in found.title
    assert figures["in the end"] == pytest.approx(LINE[-1])
    # Growth that a run ten times as long would survive is named with a cause only.
    # 24 epochs of 200 MiB are 4.7 GiB.
    assert "memory-grows" in judge(run(process=LINE, left_bytes=48 * GIB)).passed
    assert "235 more epochs" in finding(run(process=LINE, left_bytes=46 * GIB))[0].title
    found, _ = finding(run(process=LINE, left_bytes=48 * GIB, trac=1))
    assert found.title == "Memory of this process grows with each epoch"


def test_noise_does_not_hide_it_and_a_peak_that_rises_alone_is_named_as_one():
    draw = random.Random(0)
    noisy = [value + draw.uniform(-300 * MIB, 300 * MIB) for value in LINE]
    _, figures = finding(run(process=noisy, left_bytes=9 * GIB))
    assert figures["each epoch adds"] == pytest.approx(200 * MIB, rel=0.15)
    peak, _ = finding(run(peak=LINE))
    assert peak.title.startswith("Memory of GPU:0 at its peak grows with each epoch: GPU:0 is")


def test_what_a_callback_or_the_script_keeps_is_named():
    found, figures = finding(run(device=LINE, kept=keeps(180 * MIB, "Saver.losses", "GPU:0")))
    assert found.advice[0].startswith("Saver.losses keeps more tensors or arrays")
    assert figures["kept in Saver.losses"] == 180 * MIB * 23
    of_script = keeps(200 * MIB, module="train.py", items=3)
    found, figures = finding(run(process=LINE, kept=of_script))
    assert found.advice[0].startswith("seen of train.py keeps more tensors or arrays from epoch to")
    assert figures["kept in seen of train.py"] == 200 * MIB * 23
    assert figures["items of seen"] == 69
    # Tracing in each epoch is named for the process only.
    assert "traced again in each epoch" in finding(run(process=LINE, trac=1))[0].advice[0]
    assert "traced again" not in finding(run(device=LINE, trac=1))[0].advice[0]


def only_at_last(epoch):
    return (Kept("seen", "host", 5000 * MIB),) if epoch == EPOCHS - 1 else ()


@pytest.mark.parametrize(
    "summary",
    [
        run(device=LINE, kept=keeps(180 * MIB)),  # elsewhere
        run(device=LINE, kept=keeps(20 * MIB, where="GPU:0")),  # grows less
        run(process=LINE, kept=only_at_last),  # was read once
        run(process=LINE, kept=keeps(1000 * MIB)),  # grows faster
    ],
)
def test_what_does_not_grow_as_the_memory_does_is_not_named(summary):
    assert "keeps more" not in finding(summary)[0].advice[0]


def over_fits(summary):
    """The same readings, each after a fit of one epoch."""
    memory = summary.memory
    return replace(summary, memory=replace(memory, epochs=memory.epochs[:1], fits=memory.epochs))


def test_growth_over_many_fits_is_found_and_their_warm_up_does_not_count():
    kept = keeps(200 * MIB, module="train.py", items=1)
    found, figures = finding(over_fits(run(process=LINE, left_bytes=3 * GIB, kept=kept)))
    assert found.title == (
        "Memory of this process grows with each fit: the host is full after about 15 more fits at "
        "this rate"
    )
    assert found.severity == "warning"
    assert figures["each fit adds"] == pytest.approx(200 * MIB)
    assert found.advice[0].startswith("seen of train.py keeps more tensors or arrays from fit to")
    warm_up = [GIB, 2 * GIB, *[3 * GIB] * 8]
    assert "memory-grows" in judge(over_fits(run(process=warm_up, device=FLAT[:10]))).passed
    few = run(process=LINE[:8], device=FLAT[:8])
    assert "9 epochs or fits" in judge(over_fits(few)).not_applicable["memory-grows"]
    assert "after 9 epochs" in judge(few).not_applicable["memory-grows"]


def kept_models(each_bytes, trac=1):
    """A run that grows, with one more model that still exists after each fit."""
    memory = over_fits(run(process=LINE)).memory
    fits = tuple(
        replace(
            each,
            models=each.epoch,
            models_bytes=each_bytes * each.epoch,
            tracings=trac * each.epoch,
        )
        for each in memory.fits
    )
    return RunSummary(Environment({}), memory=replace(memory, fits=fits))


def test_models_that_still_exist_are_named_as_the_cause_of_growth_over_fits():
    found, figures = finding(kept_models(180 * MIB))
    assert found.title == "24 models of this script are alive and hold 4320 MiB"
    assert found.severity == "warning"
    assert figures["models alive"] == 24
    assert "keep results instead of models" in found.advice[0]
    small, _ = finding(kept_models(MIB))
    assert small.title == "24 models of this script are alive and hold their traced steps"
    assert small.severity == "info"
    assert "models of this script" not in finding(kept_models(MIB, trac=0))[0].title


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


def test_readings_are_thinned_and_the_latest_and_those_that_looked_at_what_is_kept_stay():
    def thinned(looked=()):
        collector = EpochReadings()
        for epoch in range(1, 1001):
            left_bytes = GIB if epoch in looked else None
            collector.add(EpochMemory(epoch, 10 * epoch, left_bytes=left_bytes))
        return collector.readings()

    epochs = [each.epoch for each in thinned()]
    assert (epochs[0], epochs[-1]) == (1, 1000)
    assert 64 <= len(epochs) <= 129
    assert len({b - a for a, b in itertools.pairwise(epochs[:-1])}) == 1
    looked = list(range(500, 1001, 100))
    assert [each.epoch for each in thinned(looked) if each.left_bytes is not None] == looked


SEEDS = range(120)
COUNTS = (7, 8, 12, 18, 36)
BEGIN_BYTES, STEP_BYTES = 2048 * MIB, 64 * MIB
STEPS = {
    "normal": lambda draw: draw.gauss(0, 1),
    "up or down": lambda draw: draw.choice((-1.0, 1.0)),
    "heavy tails": lambda draw: draw.gauss(0, 1) / max(draw.random(), 0.05),
    "seldom": lambda draw: draw.gauss(0, 1) if draw.random() < 0.3 else 0.0,
}


def walk(seed, count, kind):
    """A walk's levels in bytes."""
    draw = random.Random(f"{kind} {count} {seed}")
    steps = (STEP_BYTES * STEPS[kind](draw) for _ in range(count - 1))
    return list(itertools.accumulate(steps, initial=float(BEGIN_BYTES)))


def line(seed, count, noise):
    """Levels that rise by as much in each epoch, but for noise."""
    draw = random.Random(f"line {noise} {count} {seed}")
    return [BEGIN_BYTES + STEP_BYTES * (epoch + noise * draw.gauss(0, 1)) for epoch in range(count)]


def is_growth_by_epochs(levels):
    return steady_rise(list(enumerate(map(int, levels), 3)), LEAST_PROCESS_BYTES) is not None


def is_growth_over_time(levels):
    places = tuple(range(len(levels)))
    # What a process holds is more than nothing.
    levels = tuple(max(level, 64.0 * MIB) for level in levels)
    series = Series(HOST_MEMORY, places, tuple(map(float, places)), levels, (1.0,) * len(levels))
    return bool(growths_over_time(RunSummary(Environment({}), series=(series,))))


def share(judge, drawn):
    return sum(map(judge, drawn)) / len(drawn)


def test_noise_alone_is_hardly_ever_taken_for_growth():
    """In as few epochs as are judged at all, where a line through noise may rise by chance."""
    draw = random.Random(0)
    drawn = [
        [BEGIN_BYTES + 100 * MIB * draw.gauss(0, 1) for _ in range(FEWEST_EPOCHS)]
        for _ in range(500)
    ]
    assert share(is_growth_by_epochs, drawn) <= 0.02


@pytest.mark.parametrize(
    ("judge", "counts"),
    [(is_growth_by_epochs, COUNTS), (is_growth_over_time, (20, 48))],
    ids=["by epochs", "over time"],
)
def test_of_random_walks_at_most_two_percent_are_growth(judge, counts):
    kinds = itertools.product(counts, STEPS)
    drawn = [walk(seed, count, kind) for count, kind in kinds for seed in SEEDS]
    assert share(judge, drawn) <= 0.02


@pytest.mark.parametrize(("count", "noise"), [(7, 0.1), (12, 0.1), (18, 0.5), (36, 1.0)])
def test_lines_with_noise_are_growth(count, noise):
    drawn = [line(seed, count, noise) for seed in SEEDS]
    assert share(is_growth_by_epochs, drawn) >= 0.95


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0, 1, 3, 6, 10, 15, 21), True),
        ((0, -1, 1, 4, 8, 13, 19), False),  # of six differences none may be a fall
        ((0, -1, 1, 4, 8, 13, 19, 26), True),  # of seven the smallest may
        ((0, 1, -1, 4, 8, 13, 19, 26), False),
        ((21, 15, 10, 6, 3, 1, 0), False),
        ((5,) * 8, False),
        (range(40), True),
    ],
)
def test_only_the_smallest_differences_may_be_falls(values, expected):
    assert rises_evenly(list(enumerate(values))) is expected


def test_a_moment_that_falls_counts_for_no_more_where_readings_come_often():
    """The process of a step traced again in each epoch, in MiB: short epochs are read seldom."""
    epochs = [*range(3, 19), 24, 30, 36]
    at_first = [681.5, 683.9, 684.2, 686.2, 688.5, 688.8, 690.7, 693.1, 693.4, 695.3]
    later = [696.4, 698.7, 701.1, 701.5, 696.3, 697.8, 706.7, 714.5, 724.7]
    points = list(zip(epochs, [*at_first, *later], strict=True))
    assert rises_evenly(points)
    assert steady_rise([(epoch, int(value * 2**20)) for epoch, value in points], 32 * 2**20)
