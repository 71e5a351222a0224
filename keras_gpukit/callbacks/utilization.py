"""`Utilization`: utilization of GPUs and host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.errors import Guard, logger
from keras_gpukit.records.machine import GPUSample, UtilizationRecord
from keras_gpukit.records.names import (
    GPU_FIGURES,
    HOST_CPU,
    HOST_DISK_READS,
    HOST_MEMORY,
    HOST_PROCESS_CPU,
    gpu_tag,
)
from keras_gpukit.records.steps import Phase
from keras_gpukit.sensors.host import SHORTEST_S, HostSensor, summarize_host
from keras_gpukit.sensors.neighbours import NeighbourSensor
from keras_gpukit.sensors.nvml import NVMLSensor
from keras_gpukit.sensors.statistics import Gauges, GPUStatistics, summarize_gpus
from keras_gpukit.watching.session import SAMPLE_EVERY_S, Session


class Utilization(WatchingCallback[UtilizationRecord]):
    """Reads GPUs through NVML and the host through psutil, about once a second.

    Writes `gpu/<index>/utilization_percent`, `gpu/<index>/memory_used_bytes`,
    `gpu/<index>/power_watts`, `gpu/<index>/temperature_celsius`, `gpu/<index>/sm_clock_mhz`,
    `gpu/<index>/throttled`, `host/cpu_percent`, `host/process_cpu_percent`, `host/memory_bytes` and
    `host/disk_read_bytes_per_s`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, a `UtilizationRecord`.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file.
    """

    def begin(self, session: Session, phase: Phase) -> None:
        """Starts to read GPUs and host."""
        if phase != session.phase:
            return
        self._summary = None
        self._host_gauges = Gauges()
        self._neighbours = NeighbourSensor()
        host = HostSensor()
        self._nvml: NVMLSensor | None = None
        self._gpus: dict[int, GPUStatistics] = {}
        self._gpus_unknown_because: str | None = None
        if session.environment.gpus:
            self._begin_gpus(session)
        session.every_second("the host", lambda: self._sample_host(session, host))

    def end(self, session: Session, phase: Phase) -> None:
        """Makes the summary."""
        if phase != session.phase:
            return
        if not self._host_gauges.readings:
            # The run ended before the first regular reading.
            if session.wall.total_s >= SHORTEST_S:
                session.read_now("the host")
            session.read_now("GPUs through NVML")
        with Guard("Reading other processes", "The report does not name them."):
            self._neighbours.end()
        nvml, self._nvml = self._nvml, None  # so that the callback can be copied after a run
        if nvml is not None:
            nvml.close()
        self._summary = UtilizationRecord(
            samples=self._host_gauges.readings,
            interval_s=SAMPLE_EVERY_S,
            gpus=summarize_gpus(self._gpus, {} if nvml is None else nvml.lost),
            host=summarize_host(self._host_gauges, self._neighbours),
            gpus_unknown_because=self._gpus_unknown_because,
            processes_unknown_because=None if nvml is None else nvml.processes_unknown_because,
        )

    def _begin_gpus(self, session: Session) -> None:
        with Guard("Reading GPUs through NVML", "Their utilization is unknown.") as guard:
            self._nvml = nvml = NVMLSensor(session.environment.gpus)
            _log_lost(nvml, nvml.lost.keys())
            session.every_second("GPUs through NVML", lambda: self._sample_gpus(session, nvml))
        self._gpus_unknown_because = guard.failed_because

    def _sample_host(self, session: Session, host: HostSensor) -> None:
        sample = host.read()
        self._host_gauges.add(sample)
        tags = {
            HOST_CPU: sample.cpu_percent,
            HOST_PROCESS_CPU: sample.process_cpu_percent,
            HOST_MEMORY: sample.memory_bytes,
            HOST_DISK_READS: sample.disk_read_bytes_per_s,
        }
        session.output.values(session.step, tags)
        session.output.record("host", sample, session.step)
        self._neighbours.note(sample)

    def _sample_gpus(self, session: Session, nvml: NVMLSensor) -> None:
        lost = set(nvml.lost)
        samples = nvml.read()
        _log_lost(nvml, nvml.lost.keys() - lost)
        for sample in samples:
            statistics = self._gpus.get(sample.index) or GPUStatistics()
            statistics.add(sample)
            self._gpus[sample.index] = statistics  # only now, since it is summarized when found
            session.output.values(session.step, _gpu_tags(sample))
            session.output.record("gpu", sample, session.step)


def _log_lost(nvml: NVMLSensor, indices: Iterable[int]) -> None:
    for index in sorted(indices):
        logger.warning(
            "keras_gpukit: GPU %d can no longer be read in this run (%s); other GPUs still are.",
            index,
            nvml.lost[index],
        )


def _gpu_tags(sample: GPUSample) -> dict[str, float | None]:
    readings = asdict(sample)
    tags: dict[str, float | None] = {
        gpu_tag(sample.index, name): readings[name] for name in GPU_FIGURES
    }
    if sample.throttle_reasons is not None:
        tags[gpu_tag(sample.index, "throttled")] = float(bool(sample.throttle_reasons))
    return tags
