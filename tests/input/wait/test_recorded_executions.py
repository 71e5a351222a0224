"""The stall from clocks of an H100: recorded ones, and those that follow from recorded figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import ROOT
from helpers.scripted_pipeline import calibrated_hidden_wait

from keras_gpukit.input.wait.meters import CallWindow

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


def read(stretch, gaps_s, empty_call_ms, monkeypatch):
    """Returns the ends of the range of the stall, as shares of the executions' time."""
    hidden = calibrated_hidden_wait(monkeypatch, STEPS, empty_call_s=1e-3 * empty_call_ms)
    reading = hidden.read(stretch, gaps_s, None)
    return reading.wait_s / stretch.duration_s, reading.most_s / stretch.duration_s


def recorded(name):
    """Returns the calls of a recording, and the gaps between their fetches."""
    entries_s, exits_s, gaps_s = (
        1e-6 * np.array(RECORDED["executions"][name][clock])
        for clock in ("entries_us", "exits_us", "gaps_us")
    )
    return CallWindow(entries_s, exits_s, entries_s[-1]), gaps_s


def clocks_of(name, call_s):
    """Returns calls and gaps that fit a row of `FIGURES`, and the stall that they show.

    Args:
        name: Key of the row.
        call_s: How long entering and leaving a call takes, which was not recorded.
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
    stretch = CallWindow(entries_s, entries_s[1:], entries_s[-1])
    stall = (fetches_s.sum() - hidden_s.sum()) / (STEPS * step_s)
    return stretch, np.tile(gaps_s + left_s / STEPS, (CALLS, 1)), stall


@pytest.mark.parametrize("empty_call_ms", EMPTY_CALLS_MS)
@pytest.mark.parametrize("name", sorted(RECORDED["executions"].keys() - {FEW_AND_IRREGULAR}))
def test_a_range_holds_the_time_that_the_gpu_idled_for_want_of_a_batch(
    name, empty_call_ms, monkeypatch
):
    least, most = read(*recorded(name), empty_call_ms, monkeypatch)
    idle = RECORDED["executions"][name]["idle_while_fetching"]
    assert least - POINTS <= idle <= most + POINTS


def test_five_irregular_executions_give_too_little_rather_than_too_much(monkeypatch):
    least, _ = read(*recorded(FEW_AND_IRREGULAR), EMPTY_CALLS_MS[0], monkeypatch)
    assert 0.3 < least < RECORDED["executions"][FEW_AND_IRREGULAR]["idle_while_fetching"]


@pytest.mark.parametrize("empty_calls", [1, 2])
@pytest.mark.parametrize("empty_call_ms", EMPTY_CALLS_MS)
@pytest.mark.parametrize("name", [name for name in FIGURES if name.startswith("8")])
def test_eight_steps_whose_fetches_were_taken_for_a_stall_have_a_range_that_holds_it(
    name, empty_call_ms, empty_calls, monkeypatch
):
    stretch, gaps_s, stall = clocks_of(name, 1e-3 * empty_calls * empty_call_ms)
    idle = FIGURES[name]["idle_while_fetching"]
    assert stall == pytest.approx(idle, abs=0.015)  # the clocks are those of that fit
    least, most = read(stretch, gaps_s, empty_call_ms, monkeypatch)
    assert least - POINTS <= idle <= most + POINTS
