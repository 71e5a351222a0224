"""What a search for batch sizes shows in a terminal and in a notebook."""

import io
import re
from dataclasses import replace

from rich.console import Console

from keras_gpukit.records import BatchSizeSearch, BatchSizeTrial, Rate
from keras_gpukit.reports.searches import batch_size_view as render
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


def printed(search: BatchSizeSearch = SEARCH, encoding: str = "utf-8", **changes) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_anywhere(render(replace(search, **changes)), Console(file=file, width=120))
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
