"""Figures over time of several devices, in fixed memory."""

from __future__ import annotations

from keras_gpukit.records.report import TimeSeries
from keras_gpukit.saved_runs.downsampling import Downsampler

MOST_DEVICES = 64
"""Of one kind in a run: a damaged file may name any number."""


class DeviceSeries:
    """Takes readings of devices in.

    Args:
        figures: Names of the figures of a reading.
        most_points: How many points a device's series has at most; even.
    """

    def __init__(self, figures: tuple[str, ...], most_points: int) -> None:
        self._figures = figures
        self._most_points = most_points
        self._devices: dict[str, Downsampler] = {}

    def add(
        self, device: str, time_s: float, step: int | None, values: tuple[float | None, ...]
    ) -> None:
        """Takes one reading in.

        Raises:
            ValueError: If there are too many devices.
        """
        if device not in self._devices and len(self._devices) == MOST_DEVICES:
            raise ValueError(f"more than {MOST_DEVICES} devices")
        points = self._devices.setdefault(device, Downsampler(self._figures, self._most_points))
        points.add(time_s, step, values)

    def series(self) -> dict[str, TimeSeries]:
        """Returns the figures over time, by device."""
        by_device = {device: points.series() for device, points in self._devices.items()}
        return {device: series for device, series in by_device.items() if series is not None}
