"""What searches for batch sizes and for a faster input say, in a terminal and in a notebook."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from keras_gpukit.records import (
    CACHE_NOT_ALLOWED,
    BatchSizeSearch,
    BatchSizeTrial,
    Rate,
    Trial,
    TuningRecord,
)
from keras_gpukit.reports.searches import batch_size_view, tuning_view
from keras_gpukit.reports.terminal import as_text, print_anywhere

MIB = 2**20


def rate(value: float) -> Rate:
    return Rate(value, 0.9 * value, 1.1 * value, "examples/s")


def exactly(median: float) -> Rate:
    return Rate(median, median, median)


SEARCH = BatchSizeSearch(
    largest=300,
    fastest=128,
    trials=(
        BatchSizeTrial(310, True, 95 * MIB),
        BatchSizeTrial(315, False, note="OOM when allocating <tensor> [bold]"),
        BatchSizeTrial(300, True, 92 * MIB),
        BatchSizeTrial(300, True, 90 * MIB, rate(2050.0)),
        BatchSizeTrial(256, True, 80 * MIB, rate(2040.0)),
        BatchSizeTrial(128, True, 45 * MIB, rate(2000.0)),
        BatchSizeTrial(64, True, 30 * MIB, rate(1000.0)),
    ),
    margin=0.03,
    limit_bytes=100 * MIB,
    predicted_largest=280,
    input_rate=rate(8000.0),
    limited_by_input=False,
    most=4000,
    most_because="the data set has 4,000 examples",
    unlimited_because=None,
    isolated=True,
    execution="graph",
    ending="nothing left to try",
    duration_s=64.0,
)


def printed(search: BatchSizeSearch = SEARCH, encoding: str = "utf-8", **changes) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_anywhere(batch_size_view(replace(search, **changes)), Console(file=file, width=120))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_the_terminal_has_both_answers_and_a_row_for_each_size():
    text = printed(SEARCH)
    assert (
        "Largest that fits: 300, tried, with a margin of 3.0 % (310 passed, 315 ran out of" in text
    )
    assert "Fastest: 128, with 2,000 examples/s from memory; larger sizes are less than 5 %" in text
    assert "The memory limit is 100 MiB; a batch of 280 was predicted to fit." in text
    assert "7 trials in separate processes, 64 s: nothing left to try." in text
    rows = re.findall(r"^ *(\d+) .* (yes|no)\b", text, re.MULTILINE)
    assert rows == [*((size, "yes") for size in ("64", "128", "256", "300", "310")), ("315", "no")]
    assert "<tensor> [bold]" in text
    assert "92 MiB" in text  # the higher of two peaks
    printed(SEARCH, "ascii")


def test_each_batch_size_has_the_worst_of_its_trials():
    trials = (*SEARCH.trials, BatchSizeTrial(310, False, note="later"))
    said = "300, tried with less memory than the device has; 310 ran out of it."
    assert said in printed(trials=trials)
    later = replace(SEARCH, trials=trials)
    [largest] = (each for each in later.by_size if each.batch_size == 310)
    assert (largest.fits, largest.note) == (False, "later")
    assert (later.smallest_failed, later.largest_passed) == (310, 300)
    # Without an allocator there is no column of peaks.
    assert "peak memory" in printed()
    trials = tuple(replace(each, peak_bytes=None) for each in SEARCH.trials)
    assert "peak memory" not in printed(trials=trials)


def test_an_input_that_limits_is_named():
    text = printed(fastest=64, input_rate=rate(900.0), limited_by_input=True)
    assert "the input delivers 900 examples/s, so larger batches would only wait" in text


def test_what_is_unknown_is_said():
    because = "as no limit of the device's memory is known"
    unlimited = {"limit_bytes": None, "predicted_largest": None, "unlimited_because": because}
    text = printed(largest=None, **unlimited, trials=SEARCH.trials[4:])
    assert f"Largest: unknown, {because}" in text
    assert "Tried up to 256." in text
    failed = (BatchSizeTrial(1, False, note="OOM"),)
    ending = "not even one example fits"
    text = printed(largest=None, fastest=None, trials=failed, ending=ending)
    assert "Largest: none, not even one example fits." in text
    assert "Fastest: no rate was measured." in text
    said = "Fastest: 300, with 2,050 examples/s from memory; no larger size was measured."
    assert said in printed(fastest=300)


def test_larger_sizes_that_were_not_tried_are_said_with_the_reason():
    because = {"most": 300, "most_because": "max_batch_size is 300"}
    capped = replace(SEARCH, trials=SEARCH.trials[2:], **because)
    said = "Largest that fits: 300. Larger ones were not tried: max_batch_size"
    assert said in printed(capped)
    stopped = printed(capped, most=4000, ending="time ran out")
    assert "Larger ones were not tried: time ran out." in stopped
    passed_more = printed(capped, trials=(SEARCH.trials[0], *capped.trials))
    assert "Larger ones than 310 were not tried: max_batch_size" in passed_more
    # One that was cut short says that more may fit.
    wide = (*SEARCH.trials[:1], BatchSizeTrial(900, False), *SEARCH.trials[2:])
    text = " ".join(printed(trials=wide, ending="time ran out").split())
    assert "900 ran out of memory). More may fit: time ran out before the sizes" in text
    assert "More may fit" not in printed(ending="time ran out")


# An input pipeline

MAP = Trial("parallel-map", "call decode in parallel", 9.53, 9.1, 9.9, kept=True)
PREFETCH = Trial("prefetch", "make batches ahead", 1.4, 1.3, 1.5, kept=True)
CACHE = Trial("cache-memory", "cache decode", 7.7, 7.2, 8.1, note=CACHE_NOT_ALLOWED)
NO_CACHE = Trial("cache-memory", "cache decode", 7.7, 7.2, 8.1, note="not wanted")


def shown(*trials, before=10.0, tuned=95.3, compute=None, ending="nothing left to try"):
    tuned = tuned if any(trial.kept for trial in trials) else before
    computes = None if compute is None else exactly(compute)
    speed = (exactly(before), exactly(tuned), computes, tuned / before, 1.0, 1.0)
    record = TuningRecord(trials, *speed, (), ending, 30.9)
    assert str(record) == as_text(tuning_view(record))
    return str(record)


@pytest.mark.parametrize(
    ("trials", "compute", "words"),
    [
        ((MAP,), 32.0, "Steps: about 3.20× faster by these rates"),  # the model sets the pace
        ((MAP,), 500.0, "Steps: about 9.53× faster by these rates"),  # the input does
        # 1 / 10 + 1 / 40 s a step before, as nothing was made ahead, and 1 / 40 s after.
        ((MAP, PREFETCH), 40.0, "Steps: about 5.00× faster by these rates"),
        ((MAP,), 10.2, "Steps gain little: the model alone was hardly faster than the input"),
        ((MAP,), 4.0, "Steps gain little"),
    ],
)
def test_what_training_gains_is_told_next_to_the_gain_of_the_input(trials, compute, words):
    text = shown(*trials, compute=compute)
    assert "9.53×" in text
    assert words in " ".join(text.split())


def test_an_input_that_suffices_is_not_called_no_improvement():
    text = shown(MAP, compute=32.0, ending="the model is no faster")
    assert "no faster" not in text
    assert "the input is faster than the model trains, so an even faster one" in text
    assert "Ended after 30.9 s: time ran out." in shown(MAP, ending="time ran out")
    # Nothing is said of training without a model or a change.
    assert "Steps" not in shown(MAP)
    assert "Steps" not in shown(CACHE, compute=32.0)


def test_a_cache_that_was_not_allowed_comes_first():
    first, *_ = shown(CACHE).splitlines()
    assert first.startswith("Input: 10 batches/s; a cache would make it 7.70× faster: pass cache=T")
    assert "no change made it faster" not in shown(CACHE)
    assert "A cache alone made it 7.70× faster: pass cache=True" in shown(MAP, CACHE)
    assert "no change made it faster" in shown(NO_CACHE)
