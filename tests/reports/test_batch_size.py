"""What a search for batch sizes shows in a terminal and in a notebook."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from rich.console import Console

from keras_gpukit.records import BatchSizeSearch, BatchSizeTrial, Rate
from keras_gpukit.reports.batch_size import render
from keras_gpukit.reports.terminal import print_anywhere

MIB = 2**20


def rate(value: float) -> Rate:
    return Rate(value, 0.9 * value, 1.1 * value, "examples/s")


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


def printed(search: BatchSizeSearch, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_anywhere(render(search), Console(file=file, width=120))
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


def test_a_size_that_was_lowered_is_told_with_the_one_that_failed():
    lowered = replace(SEARCH, trials=(*SEARCH.trials, BatchSizeTrial(310, False, note="later")))
    text = printed(lowered)
    assert "300, tried with less memory than the device has; 310 ran out of it." in text


def test_without_an_allocator_there_is_no_column_of_peaks():
    trials = tuple(replace(each, peak_bytes=None) for each in SEARCH.trials)
    assert "peak memory" in printed(SEARCH)
    assert "peak memory" not in printed(replace(SEARCH, trials=trials))


def test_an_input_that_limits_is_named():
    limited = replace(SEARCH, fastest=64, input_rate=rate(900.0), limited_by_input=True)
    assert "the input delivers 900 examples/s, so larger batches would only wait" in printed(
        limited
    )


def test_what_is_unknown_is_said():
    free = replace(
        SEARCH,
        largest=None,
        limit_bytes=None,
        predicted_largest=None,
        unlimited_because="as no limit of the device's memory is known",
        trials=SEARCH.trials[4:],
    )
    assert "Largest: unknown, as no limit of the device's memory is known" in printed(free)
    assert "Tried up to 256." in printed(free)
    nothing = replace(
        SEARCH,
        largest=None,
        fastest=None,
        trials=(BatchSizeTrial(1, False, note="OOM"),),
        ending="not even one example fits",
    )
    assert "Largest: none, not even one example fits." in printed(nothing)
    assert "Fastest: no rate was measured." in printed(nothing)
    capped = replace(
        SEARCH, trials=SEARCH.trials[2:], most=300, most_because="max_batch_size is 300"
    )
    assert "Largest that fits: 300. Larger ones were not tried: max_batch_size" in printed(capped)
    stopped = replace(capped, most=4000, ending="time ran out")
    assert "Larger ones were not tried: time ran out." in printed(stopped)
    passed_more = replace(capped, trials=(SEARCH.trials[0], *capped.trials))
    assert "Larger ones than 310 were not tried: max_batch_size" in printed(passed_more)


def test_what_was_not_measured_is_not_compared():
    alone = replace(SEARCH, fastest=300)
    text = printed(alone)
    assert "Fastest: 300, with 2,050 examples/s from memory; no larger size was measured." in text


def test_a_search_that_was_cut_short_says_that_more_may_fit():
    wide = (*SEARCH.trials[:1], BatchSizeTrial(900, False), *SEARCH.trials[2:])
    cut = replace(SEARCH, trials=wide, ending="time ran out")
    text = " ".join(printed(cut).split())
    assert "900 ran out of memory). More may fit: time ran out before the sizes" in text
    assert "More may fit" not in printed(replace(SEARCH, ending="time ran out"))


def test_each_batch_size_has_the_worst_of_its_trials():
    later = replace(SEARCH, trials=(*SEARCH.trials, BatchSizeTrial(310, False, note="later")))
    found = {each.batch_size: each for each in later.by_size}
    assert not found[310].fits
    assert found[310].note == "later"
    assert later.smallest_failed == 310
    assert later.largest_passed == 300
