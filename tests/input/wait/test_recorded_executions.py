"""The stall of 8 steps per execution, from clocks that were recorded on an H100."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from keras_gpukit.input.wait import hidden_wait
from keras_gpukit.input.wait.hidden_wait import HiddenWait
from keras_gpukit.input.wait.meters import Stretch

RECORDED = json.loads(
    Path(__file__).with_name("recorded").joinpath("h100_8_steps.json").read_text()
)
POINTS = 0.05
FEW_AND_IRREGULAR = "graph/jitter 50"


def read(name, empty_call_s, monkeypatch):
    """Returns the ends of the range of the stall, as shares of the executions' time."""
    monkeypatch.setattr(hidden_wait, "is_made_by_keras", lambda function: True)
    monkeypatch.setattr(hidden_wait, "empty_iterator", iter)
    monkeypatch.setattr(hidden_wait.time, "sleep", lambda seconds: None)
    now_s = iter(np.tile([0.0, empty_call_s], 2 * hidden_wait.EMPTY_CALLS))
    monkeypatch.setattr(hidden_wait.time, "perf_counter", lambda: next(now_s))
    hidden = HiddenWait(next, RECORDED["steps_per_execution"])
    hidden.calibrate(())
    entries_s, exits_s, gaps_s = (
        1e-6 * np.array(RECORDED["executions"][name][clock])
        for clock in ("entries_us", "exits_us", "gaps_us")
    )
    reading = hidden.read(Stretch(entries_s, exits_s, entries_s[-1]), gaps_s, None)
    return reading.wait_s / entries_s[-1], reading.most_s / entries_s[-1]


@pytest.mark.parametrize("empty_call_ms", RECORDED["empty_call_ms"])
@pytest.mark.parametrize("name", sorted(RECORDED["executions"].keys() - {FEW_AND_IRREGULAR}))
def test_a_range_holds_the_time_that_the_gpu_idled_for_want_of_a_batch(
    name, empty_call_ms, monkeypatch
):
    least, most = read(name, 1e-3 * empty_call_ms, monkeypatch)
    idle = RECORDED["executions"][name]["idle_while_fetching"]
    assert least - POINTS <= idle <= most + POINTS


def test_five_irregular_executions_give_too_little_rather_than_too_much(monkeypatch):
    least, _ = read(FEW_AND_IRREGULAR, 1e-3 * RECORDED["empty_call_ms"][0], monkeypatch)
    assert 0.3 < least < RECORDED["executions"][FEW_AND_IRREGULAR]["idle_while_fetching"]
