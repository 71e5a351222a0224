"""Running statistics of readings, in constant memory however long the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from keras_gpukit.records.machine import GPUSample, GPUUtilization


class Gauges:
    """Mean, extremes and last value of each numeric field over repeated readings of a record.

    A field that was None in every reading stays None.
    """

    def __init__(self) -> None:
        self.readings = 0
        self._by_name: dict[str, _Gauge] = {}

    def add(self, record: Any) -> None:
        """Adds one reading."""
        by_name = self._by_name.copy()
        for name, value in vars(record).items():
            if isinstance(value, (int, float)):
                by_name[name] = by_name.get(name, _Gauge(value, value, value)).plus(value)
        self._by_name, self.readings = by_name, self.readings + 1

    def mean(self, name: str) -> float | None:
        """Returns the mean of the readings that were not None; None if all were."""
        gauge = self._by_name.get(name)
        return None if gauge is None else gauge.total / gauge.readings

    def lowest(self, name: str) -> Any:
        """Returns the lowest reading that was not None; None if all were."""
        return getattr(self._by_name.get(name), "lowest", None)

    def highest(self, name: str) -> Any:
        """Returns the highest reading that was not None; None if all were."""
        return getattr(self._by_name.get(name), "highest", None)

    def last(self, name: str) -> Any:
        """Returns the latest reading that was not None; None if all were."""
        return getattr(self._by_name.get(name), "last", None)


class _Gauge(NamedTuple):
    """Statistics of one field. They never change, since another thread may read them."""

    last: Any
    lowest: Any
    highest: Any
    total: float = 0.0
    readings: int = 0

    def plus(self, value: Any) -> _Gauge:
        """Adds a reading."""
        lowest, highest = min(value, self.lowest), max(value, self.highest)
        return _Gauge(value, lowest, highest, self.total + value, self.readings + 1)


class GPUStatistics:
    """Summarizes one GPU's readings."""

    def __init__(self) -> None:
        self._gauges = Gauges()
        # Readings that say whether it was throttled, those that say it was, and for what reasons.
        self._throttling: tuple[int, int, Counter[str]] = (0, 0, Counter())

    def add(self, sample: GPUSample) -> None:
        """Adds one reading."""
        self._gauges.add(sample)
        if sample.throttle_reasons is not None:
            asked, throttled, reasons = self._throttling
            throttled += bool(sample.throttle_reasons)
            self._throttling = asked + 1, throttled, reasons + Counter(sample.throttle_reasons)

    def summarize(self) -> GPUUtilization:
        """Returns the GPU's statistics over the whole run."""
        gauges, (asked, throttled, reasons) = self._gauges, self._throttling
        return GPUUtilization(
            index=gauges.last("index"),
            utilization_percent=gauges.mean("utilization_percent"),
            memory_used_max_bytes=gauges.highest("memory_used_bytes"),
            memory_process_max_bytes=gauges.highest("memory_process_bytes"),
            memory_others_max_bytes=gauges.highest("memory_others_bytes"),
            memory_total_bytes=gauges.last("memory_total_bytes"),
            power_watts=gauges.mean("power_watts"),
            power_limit_watts=gauges.last("power_limit_watts"),
            temperature_max_celsius=gauges.highest("temperature_celsius"),
            sm_clock_mhz=gauges.mean("sm_clock_mhz"),
            throttled_fraction=throttled / asked if asked else None,
            throttle_fractions={reason: n / asked for reason, n in sorted(reasons.items())}
            if asked
            else None,
        )


def summarize_gpus(
    gpus: Mapping[int, GPUStatistics], lost: Mapping[int, str]
) -> tuple[GPUUtilization, ...]:
    """Summarizes all GPUs, by index; a GPU that was never read has only the reason for that."""
    if not gpus:
        return ()  # the record has one reason for all GPUs
    read = {index: gpu.summarize() for index, gpu in gpus.items()}
    return tuple(
        replace(read.get(index, GPUUtilization(index)), lost_because=lost.get(index))
        for index in sorted(read.keys() | lost.keys())
    )
