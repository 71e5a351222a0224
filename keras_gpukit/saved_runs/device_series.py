"""Time series of several devices' figures, in fixed memory."""

from __future__ import annotations

from keras_gpukit.records.report import TimeSeries
from keras_gpukit.saved_runs.downsampling import Downsampler

MOST_DEVICES = 64
"""Maximum number of devices of one kind in a run; a damaged file may name any number."""


class DeviceSeries:
    """Collects readings of devices and downsamples them.

    Args:
        figures: Names of the figures in a reading.
        most_points: Maximum number of points per device; even.
    """

    def __init__(self, figures: tuple[str, ...], most_points: int) -> None:
        self._figures = figures
        self._most_points = most_points
        self._devices: dict[str, Downsampler] = {}

    def add(
        self, device: str, time_s: float, step: int | None, values: tuple[float | None, ...]
    ) -> None:
        """Adds a reading of a device.

        Raises:
            ValueError: If there are more than `MOST_DEVICES` devices.
        """
        if device not in self._devices and len(self._devices) == MOST_DEVICES:
            raise ValueError(f"more than {MOST_DEVICES} devices")
        points = self._devices.setdefault(device, Downsampler(self._figures, self._most_points))
        points.add(time_s, step, values)

    def series(self) -> dict[str, TimeSeries]:
        """Returns the time series by device."""
        by_device = {device: points.series() for device, points in self._devices.items()}
        return {device: series for device, series in by_device.items() if series is not None}
