"""Running statistics of readings, in constant memory however long the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keras_gpukit.records.machine import GPUSample, GPUUtilization


class Gauges:
    """Mean, extremes and last value of each numeric field over repeated readings of a record.

    A field that was None in every reading stays None.
    """

    def __init__(self) -> None:
        self.readings = 0
        self._count: dict[str, int] = {}
        self._total: dict[str, float] = {}
        self._lowest: dict[str, Any] = {}
        self._highest: dict[str, Any] = {}
        self._last: dict[str, Any] = {}

    def add(self, record: Any) -> None:
        """Adds one reading."""
        self.readings += 1
        for name, value in vars(record).items():
            if not isinstance(value, (int, float)):
                continue
            self._count[name] = self._count.get(name, 0) + 1
            self._total[name] = self._total.get(name, 0.0) + value
            self._lowest[name] = min(value, self._lowest.get(name, value))
            self._highest[name] = max(value, self._highest.get(name, value))
            self._last[name] = value

    def mean(self, name: str) -> float | None:
        """Returns the mean of the readings that were not None; None if all were."""
        return self._total[name] / self._count[name] if name in self._count else None

    def lowest(self, name: str) -> Any:
        """Returns the lowest reading that was not None; None if all were."""
        return self._lowest.get(name)

    def highest(self, name: str) -> Any:
        """Returns the highest reading that was not None; None if all were."""
        return self._highest.get(name)

    def last(self, name: str) -> Any:
        """Returns the latest reading that was not None; None if all were."""
        return self._last.get(name)


class GPUStatistics:
    """Summarizes one GPU's readings."""

    def __init__(self) -> None:
        self._gauges = Gauges()
        self._asked = self._throttled = 0
        self._reasons: Counter[str] = Counter()

    def add(self, sample: GPUSample) -> None:
        """Adds one reading."""
        self._gauges.add(sample)
        if sample.throttle_reasons is not None:
            self._asked += 1
            self._throttled += bool(sample.throttle_reasons)
            self._reasons.update(sample.throttle_reasons)

    def summarize(self) -> GPUUtilization:
        """Returns the GPU's statistics over the whole run."""
        gauges, asked = self._gauges, self._asked
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
            throttled_fraction=self._throttled / asked if asked else None,
            throttle_fractions={reason: n / asked for reason, n in sorted(self._reasons.items())}
            if asked
            else None,
        )


def summarize_gpus(
    gpus: Mapping[int, GPUStatistics], lost: Mapping[int, str]
) -> tuple[GPUUtilization, ...]:
    """Summarizes all GPUs, by index; a GPU that was never read has only the reason for that.

    Args:
        gpus: Statistics of each GPU, by index.
        lost: Why a GPU was not read, or no longer read, by index.
    """
    if not gpus:
        return ()  # the record has one reason for all GPUs
    read = {index: gpu.summarize() for index, gpu in gpus.items()}
    return tuple(
        replace(read.get(index, GPUUtilization(index)), lost_because=lost.get(index))
        for index in sorted(read.keys() | lost.keys())
    )
