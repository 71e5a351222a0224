"""The stall of several steps per execution: for calls whose times are given, and clocks of an H100.

Some of these are recorded, others follow from recorded figures.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import ROOT
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

    The last of a call's `computes_s` contains what leaving the call takes. Of the last `known`
    calls the gaps are known; 0 for all.
    """
    hidden = calibrated_hidden_wait(monkeypatch, fetches_s.shape[1], empty_call_s=empty_call_s)
    gaps_s = overheads_s.copy()
    # Computes overlap with the next fetch of the call; the last one is in its gap as a whole.
    gaps_s[:, 1:] += np.maximum(computes_s[:, :-1] - fetches_s[:, 1:], 0.0)
    gaps_s[:, -1] += computes_s[:, -1]
    durations_s = fetches_s.sum(axis=1) + gaps_s.sum(axis=1)
    entries_s = np.concatenate([[0.0], durations_s.cumsum()])
    window = CallWindow(entries_s, entries_s[1:], entries_s[-1])
    planted_s = durations_s.sum() - computes_s.sum() - overheads_s.sum()
    return hidden.stall_in(window, gaps_s[-known:], None), planted_s, durations_s.sum()


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


RECORDED = json.loads(
    Path(__file__).with_name("recorded").joinpath("h100_8_steps.json").read_text()
)
EMPTY_CALLS_MS = RECORDED["empty_call_ms"]
FIGURES = {
    name: row
    for way in ("synchronous", "jit")
    for name, row in json.loads((ROOT / f"benchmarks/results/gpu/stall.{way}.json").read_text())[
        "measured"
    ].items()
}
"""Of 37 fits. With 8 steps, all fetching was taken for a stall: it shows how long fetches took."""
STEPS, CALLS = 8, 10
POINTS = 0.05
FEW_AND_IRREGULAR = "graph/jitter 50"


def range_of(window, gaps_s, empty_call_ms, monkeypatch):
    """Returns the ends of the range of the stall, as shares of the executions' time."""
    hidden = calibrated_hidden_wait(monkeypatch, STEPS, empty_call_s=1e-3 * empty_call_ms)
    reading = hidden.stall_in(window, gaps_s, None)
    return reading.wait_s / window.duration_s, reading.most_s / window.duration_s


def recorded(name):
    """Returns the calls of a recording, and the gaps between their fetches."""
    entries_s, exits_s, gaps_s = (
        1e-6 * np.array(RECORDED["executions"][name][clock])
        for clock in ("entries_us", "exits_us", "gaps_us")
    )
    return CallWindow(entries_s, exits_s, entries_s[-1]), gaps_s


def clocks_of(name, call_s):
    """Returns calls and gaps that fit a row of `FIGURES`, and the stall that they show.

    How long entering and leaving a call takes was not recorded.
    """
    row, pipeline = FIGURES[name], name.partition("/")[2].split()[0]
    step_s, compute_s = 1e-3 * row["step_ms"], 1e-3 * (row["step_ms"] - row["idle_ms"])
    # All of the time goes into one of eight batches; two batches come at a time; or all are alike.
    shares = {"bursty": [0] * 7 + [8], "parallel": [2, 0] * 4}.get(pipeline, [1] * 8)
    fetches_s = row["reported"] * step_s * np.array(shares)
    hidden_s = np.minimum(compute_s, fetches_s[1:])
    gaps_s = np.r_[0.0, compute_s - hidden_s]
    gaps_s[-1] += compute_s + call_s
    left_s = STEPS * step_s - fetches_s.sum() - gaps_s.sum()
    entries_s = STEPS * step_s * np.arange(CALLS + 1)
    window = CallWindow(entries_s, entries_s[1:], entries_s[-1])
    stall = (fetches_s.sum() - hidden_s.sum()) / (STEPS * step_s)
    return window, np.tile(gaps_s + left_s / STEPS, (CALLS, 1)), stall


@pytest.mark.parametrize("empty_call_ms", EMPTY_CALLS_MS)
@pytest.mark.parametrize("name", sorted(RECORDED["executions"].keys() - {FEW_AND_IRREGULAR}))
def test_a_range_holds_the_time_that_the_gpu_idled_for_want_of_a_batch(
    name, empty_call_ms, monkeypatch
):
    least, most = range_of(*recorded(name), empty_call_ms, monkeypatch)
    idle = RECORDED["executions"][name]["idle_while_fetching"]
    assert least - POINTS <= idle <= most + POINTS


def test_five_irregular_executions_give_too_little_rather_than_too_much(monkeypatch):
    least, _ = range_of(*recorded(FEW_AND_IRREGULAR), EMPTY_CALLS_MS[0], monkeypatch)
    assert 0.3 < least < RECORDED["executions"][FEW_AND_IRREGULAR]["idle_while_fetching"]


@pytest.mark.parametrize("empty_calls", [1, 2])
@pytest.mark.parametrize("empty_call_ms", EMPTY_CALLS_MS)
@pytest.mark.parametrize("name", [name for name in FIGURES if name.startswith("8")])
def test_eight_steps_whose_fetches_were_taken_for_a_stall_have_a_range_that_holds_it(
    name, empty_call_ms, empty_calls, monkeypatch
):
    window, gaps_s, stall = clocks_of(name, 1e-3 * empty_calls * empty_call_ms)
    idle = FIGURES[name]["idle_while_fetching"]
    assert stall == pytest.approx(idle, abs=0.015)  # the clocks are those of that fit
    least, most = range_of(window, gaps_s, empty_call_ms, monkeypatch)
    assert least - POINTS <= idle <= most + POINTS
