"""The stall of several steps per execution, for calls whose times are given."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.scripted_pipeline import calibrated_hidden_wait

from keras_gpukit.input.wait.meters import CallWindow

OVERHEAD_S = 0.0003
COMPUTE_S = 0.004


def read(monkeypatch, fetches_s, computes_s, overheads_s):
    """Returns the stall fraction as read and as planted; arguments of shape (calls, steps)."""
    reading, planted_s, duration_s = read_calls(monkeypatch, fetches_s, computes_s, overheads_s)
    return reading.wait_s / duration_s, planted_s / duration_s


def read_calls(monkeypatch, fetches_s, computes_s, overheads_s, *, empty_call_s=0.0, known=0):
    """Returns the reading, the planted stall, and the duration of all calls.

    Args:
        fetches_s: Shape (calls, steps), as that of the other two.
        computes_s: The last one of a call contains what leaving the call takes.
        overheads_s: Between two fetches.
        empty_call_s: What entering and leaving a call takes that finds no data.
        known: Number of calls whose gaps are known, the last ones; 0 for all.
    """
    hidden = calibrated_hidden_wait(monkeypatch, fetches_s.shape[1], empty_call_s=empty_call_s)
    gaps_s = overheads_s.copy()
    # Computes overlap with the next fetch of the call; the last one is in its gap as a whole.
    gaps_s[:, 1:] += np.maximum(computes_s[:, :-1] - fetches_s[:, 1:], 0.0)
    gaps_s[:, -1] += computes_s[:, -1]
    durations_s = fetches_s.sum(axis=1) + gaps_s.sum(axis=1)
    entries_s = np.concatenate([[0.0], durations_s.cumsum()])
    stretch = CallWindow(entries_s, entries_s[1:], entries_s[-1])
    planted_s = durations_s.sum() - computes_s.sum() - overheads_s.sum()
    return hidden.read(stretch, gaps_s[-known:], None), planted_s, durations_s.sum()


@pytest.mark.parametrize("steps", [3, 5, 8, 100])
@pytest.mark.parametrize("fetch_s", [0.001, 0.006, 0.011, 0.02])
def test_steady_steps(monkeypatch, steps, fetch_s):
    shape = (10, steps)
    fetches_s, computes_s = np.full(shape, fetch_s), np.full(shape, COMPUTE_S)
    stall, planted = read(monkeypatch, fetches_s, computes_s, np.full(shape, OVERHEAD_S))
    # A call's first fetch never hides, nor does the wait for slow ones.
    assert stall == pytest.approx(planted, abs=0.005)


def test_the_last_calls_stand_for_all_whose_gaps_were_dropped(monkeypatch):
    shape = (10, 8)
    steps = (np.full(shape, seconds) for seconds in (0.011, COMPUTE_S, OVERHEAD_S))
    reading, planted_s, _ = read_calls(monkeypatch, *steps, known=4)
    assert reading.wait_s == pytest.approx(planted_s)
    assert reading.waits_s is None


@pytest.mark.parametrize("steps", [8, 100])
@pytest.mark.parametrize("seed", range(5))
def test_interrupted_steps_do_not_stand_for_the_others(monkeypatch, steps, seed):
    random = np.random.default_rng(seed)
    shape = (20, steps)

    def with_interruptions(seconds):
        hit = random.random(shape) < 0.01
        return np.full(shape, seconds) + hit * random.exponential(0.03, shape)

    fetches_s = np.full(shape, 0.02)
    computes_s, overheads_s = with_interruptions(COMPUTE_S), with_interruptions(OVERHEAD_S)
    stall, planted = read(monkeypatch, fetches_s, computes_s, overheads_s)
    assert planted > 0.6
    assert stall == pytest.approx(planted, abs=0.06)


@pytest.mark.parametrize("leaving_s", [0.001, 0.0015, 0.002])
def test_a_range_holds_the_stall_of_calls_that_take_longer_to_leave(monkeypatch, leaving_s):
    shape = (10, 8)
    fetches_s, computes_s = np.full(shape, 0.005), np.full(shape, 0.002)
    computes_s[:, -1] += leaving_s
    reading, planted_s, duration_s = read_calls(
        monkeypatch, fetches_s, computes_s, np.full(shape, OVERHEAD_S), empty_call_s=0.001
    )
    share = 0.01 * duration_s
    assert reading.wait_s - share <= planted_s <= reading.most_s + share
    # The range is as wide as what is unknown of a step, and no wider.
    assert reading.most_s - reading.wait_s == pytest.approx(10 * 7 * 0.001, rel=0.01)


def test_last_batches_that_are_often_ready_do_not_make_steps_seem_longer(monkeypatch):
    shape = (20, 8)
    fetches_s, computes_s = np.full(shape, 0.03), np.full(shape, 0.01)
    fetches_s[np.arange(20) % 5 < 3, -1] = 0.0
    stall, planted = read(monkeypatch, fetches_s, computes_s, np.full(shape, OVERHEAD_S))
    assert stall == pytest.approx(planted, abs=0.03)
