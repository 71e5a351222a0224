"""The stall of several steps per execution, for calls whose times are given."""

from __future__ import annotations

import numpy as np
import pytest

from keras_gpukit.input_wait import hidden_wait
from keras_gpukit.input_wait.hidden_wait import HiddenWait
from keras_gpukit.input_wait.meters import Stretch

OVERHEAD_S = 0.0003
COMPUTE_S = 0.004


def read(monkeypatch, fetches_s, computes_s, overheads_s):
    """Returns the stall fraction as read and as planted; arguments of shape (calls, steps)."""
    monkeypatch.setattr(hidden_wait, "is_made_by_keras", lambda function: True)
    monkeypatch.setattr(hidden_wait, "empty_iterator", lambda iterator: iterator)
    hidden = HiddenWait(next, fetches_s.shape[1])
    hidden.calibrate(iter(()))
    gaps_s = overheads_s.copy()
    # Computes overlap with the next fetch of the call; the last one is in its gap as a whole.
    gaps_s[:, 1:] += np.maximum(computes_s[:, :-1] - fetches_s[:, 1:], 0.0)
    gaps_s[:, -1] += computes_s[:, -1]
    durations_s = fetches_s.sum(axis=1) + gaps_s.sum(axis=1)
    entries_s = np.concatenate([[0.0], durations_s.cumsum()])
    stretch = Stretch(entries_s, entries_s[1:], entries_s[-1])
    planted_s = durations_s.sum() - computes_s.sum() - overheads_s.sum()
    reading = hidden.read(stretch, gaps_s, None)
    return reading.wait_s / durations_s.sum(), planted_s / durations_s.sum()


@pytest.mark.parametrize("steps", [3, 8, 100])
@pytest.mark.parametrize("fetch_s", [0.001, 0.006, 0.02])
def test_steady_steps(monkeypatch, steps, fetch_s):
    shape = (10, steps)
    fetches_s, computes_s = np.full(shape, fetch_s), np.full(shape, COMPUTE_S)
    stall, planted = read(monkeypatch, fetches_s, computes_s, np.full(shape, OVERHEAD_S))
    # A call's first fetch never hides, nor does the wait for slow ones.
    assert stall == pytest.approx(planted, abs=0.005)


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
