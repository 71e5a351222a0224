"""The wait over time, in a fixed number of points."""

from __future__ import annotations

from keras_gpukit.records.steps import StepWindow, TimeSeriesPoint

MOST_POINTS = 64


class WaitSeries:
    """Takes windows in; when there are too many points, neighbours become one."""

    def __init__(self) -> None:
        self._points: list[TimeSeriesPoint] = []
        self._windows_a_point = 1
        self._windows = 0

    def add(self, window: StepWindow) -> None:
        """Takes in a window whose wait is known."""
        assert window.input_wait_s is not None
        point = TimeSeriesPoint(window.step, window.steps, window.duration_s, window.input_wait_s)
        if self._windows % self._windows_a_point:
            self._points[-1] = _joined(self._points[-1], point)
        else:
            if len(self._points) == MOST_POINTS:
                pairs = zip(self._points[::2], self._points[1::2], strict=True)
                self._points = [_joined(*pair) for pair in pairs]
                self._windows_a_point *= 2
            self._points.append(point)
        self._windows += 1

    def record(self) -> tuple[TimeSeriesPoint, ...]:
        """Returns the points, in order."""
        return tuple(self._points)


def _joined(one: TimeSeriesPoint, other: TimeSeriesPoint) -> TimeSeriesPoint:
    return TimeSeriesPoint(
        step=other.step,
        steps=one.steps + other.steps,
        duration_s=one.duration_s + other.duration_s,
        wait_s=one.wait_s + other.wait_s,
    )
