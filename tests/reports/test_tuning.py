"""What the result of tuning an input pipeline says first."""

import pytest

from keras_gpukit.records import CACHE_NOT_ALLOWED, Rate, Trial, TuningRecord
from keras_gpukit.reports.searches import tuning_view as render
from keras_gpukit.reports.terminal import as_text

MAP = Trial("parallel-map", "call decode in parallel", 9.53, 9.1, 9.9, kept=True)
PREFETCH = Trial("prefetch", "make batches ahead", 1.4, 1.3, 1.5, kept=True)
CACHE = Trial("cache-memory", "cache decode", 7.7, 7.2, 8.1, note=CACHE_NOT_ALLOWED)
NO_CACHE = Trial("cache-memory", "cache decode", 7.7, 7.2, 8.1, note="not wanted")


def rate(median):
    return Rate(median, median, median)


def shown(*trials, before=10.0, tuned=95.3, compute=None, ending="nothing left to try"):
    tuned = tuned if any(trial.kept for trial in trials) else before
    computes = None if compute is None else rate(compute)
    speed = (rate(before), rate(tuned), computes, tuned / before, 1.0, 1.0)
    record = TuningRecord(trials, *speed, (), ending, 30.9)
    assert str(record) == as_text(render(record))
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
