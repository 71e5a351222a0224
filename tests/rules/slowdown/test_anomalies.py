"""When a rise of a figure is worth a capture."""

from __future__ import annotations

import pytest

from keras_gpukit.records.steps import StepWindow
from keras_gpukit.rules.slowdown.anomalies import Anomalies, StepAnomalies, UtilizationAnomalies


def tells(watch, values) -> list[int]:
    return [index for index, value in enumerate(values) if watch.add(value) is not None]


def rises() -> Anomalies:
    return Anomalies(lambda usual: usual * 1.5)


def test_a_lasting_rise_is_told_once_and_becomes_usual():
    assert tells(rises(), [1.0] * 20 + [2.0] * 40) == [22]


def test_what_rises_twice_is_told_twice():
    assert tells(rises(), [1.0] * 20 + [2.0] * 20 + [4.0] * 20) == [22, 42]


@pytest.mark.parametrize(
    "values",
    [
        [9.0, 5.0, 3.0, 2.0] + [1.0] * 40,
        [1.0] * 20 + [5.0] + [1.0] * 20 + [5.0, 5.0] + [1.0] * 20,
        [1.0] * 3 + [2.0] * 40,
        [1.0, 1.0, 1.0, 1.0, 2.5] * 12,
        [1.0 + 0.01 * index for index in range(100)],
    ],
    ids=["warming up", "hiccups", "still warming up", "restless", "ageing"],
)
def test_no_rise_is_told_of(values):
    assert tells(rises(), values) == []


def window(step_time_s: float, stall: float | None = 0.0, duration_s: float = 1.0) -> StepWindow:
    steps = round(duration_s / step_time_s)
    wait_s = None if stall is None else stall * duration_s
    return StepWindow("fit", 0.0, 0, steps, duration_s, wait_s)


def told_of(watch: StepAnomalies, windows) -> list:
    return [found for each in windows if (found := watch.add(each)) is not None]


def test_slower_steps_and_more_stall_are_told_in_words():
    calm = [window(0.01)] * 20
    [(trigger, reason)] = told_of(StepAnomalies(1.5, 0.2), [*calm, *[window(0.02)] * 10])
    assert trigger == "step time"
    assert reason == "steps took 20 ms, usually 10 ms"
    long = [window(0.8, duration_s=8.0)] * 20 + [window(1.6, duration_s=8.0)] * 10
    assert told_of(StepAnomalies(1.5, 0.2), long)[0][1] == "steps took 1600 ms, usually 800 ms"
    [(trigger, reason)] = told_of(StepAnomalies(1.5, 0.2), [*calm, *[window(0.01, 0.5)] * 10])
    assert trigger == "stall"
    assert reason == "input stall 50%, usually 0%"


def test_what_is_not_looked_at_or_not_known_is_not_told():
    calm, bad = [window(0.01)] * 20, [window(0.02, 0.5)] * 10
    assert told_of(StepAnomalies(None, None), [*calm, *bad]) == []
    unknown = [window(0.01, None)] * 30
    assert told_of(StepAnomalies(1.5, 0.2), unknown) == []


def test_short_windows_are_put_together():
    calm = [window(0.01, duration_s=0.2)] * 100
    noisy = [window(0.02, duration_s=0.2), *calm[:4]] * 10
    assert told_of(StepAnomalies(1.5, 0.2), [*calm, *noisy]) == []
    assert len(told_of(StepAnomalies(1.5, 0.2), [*calm, *[window(0.02, duration_s=0.2)] * 20])) == 1


def test_gpus_that_idle_are_told_of():
    watch = UtilizationAnomalies(30)
    found = [watch.add(percent) for percent in [95.0] * 20 + [90.0] * 5 + [40.0] * 5]
    assert [each for each in found if each] == [("utilization", "GPUs 40 % busy, usually 95 %")]
