"""`Utilization`: utilization of GPUs and host."""

from __future__ import annotations

import os

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.errors import Guard, logger
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.machine import (
    GPUUtilization,
    HostUtilization,
    UtilizationRecord,
)
from keras_gpukit.records.steps import Phase
from keras_gpukit.sensors.host import SHORTEST_S, HostSensor
from keras_gpukit.sensors.nvml import NVMLSensor
from keras_gpukit.sensors.other_processes import OtherProcessesSensor


class Utilization(WatchingCallback[UtilizationRecord]):
    """Reads GPUs through NVML and the host through psutil, about once a second.

    Writes `gpu/<index>/utilization_percent`, `gpu/<index>/memory_used_bytes`,
    `gpu/<index>/power_watts`, `gpu/<index>/temperature_celsius`, `gpu/<index>/sm_clock_mhz`,
    `gpu/<index>/throttled`, from Hopper on `gpu/<index>/sm_active_percent`,
    `gpu/<index>/tensor_active_percent` and `gpu/<index>/memory_bandwidth_percent`, and
    `host/cpu_percent`, `host/process_cpu_percent`, `host/memory_bytes` and
    `host/disk_read_bytes_per_s`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: After the run, a `UtilizationRecord`.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = "logs") -> None:
        super().__init__(log_dir)
        self._reading: _Reading | None = None

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        self._summary = None
        if session.output.claim("utilization"):
            self._reading = _Reading(session)

    def _end(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        reading, self._reading = self._reading, None  # so that the callback can be copied after it
        if reading is not None:
            reading.end()
        self._summary = session.output.fold.utilization()


class _Reading:
    """Reads GPUs and host during one call."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._others = OtherProcessesSensor()
        self._lost: dict[int, str] = {}
        self._nvml: NVMLSensor | None = None
        self._gpus: int | None = None
        self._gpus_unknown_because: str | None = None
        if session.environment.gpus:
            with Guard("Reading GPUs through NVML", "Their utilization is unknown.") as guard:
                self._nvml = nvml = NVMLSensor(session.environment.gpus)
                self._note_lost(nvml)
                self._gpus = session.every_second(
                    "GPUs through NVML", lambda: self._sample_gpus(nvml)
                )
            self._gpus_unknown_because = guard.failed_because
        host = HostSensor()
        self._host = session.every_second("the host", lambda: self._sample_host(host))

    def end(self) -> None:
        """Reads a last time, and closes NVML."""
        session = self._session
        if not session.output.fold.host.readings:
            # The run ended before the first regular reading.
            if session.wall.total_s >= SHORTEST_S:
                session.read_now(self._host)
            if self._gpus is not None:
                session.read_now(self._gpus)
        with Guard("Reading other processes", "The report does not name them."):
            self._others.end()
        if self._nvml is not None:
            self._lost = dict(self._nvml.lost)  # with the last one, whose reading raised
            self._nvml.close()
        self._write()

    def _write(self) -> None:
        """Writes what is known in addition to the readings."""
        others, nvml = self._others, self._nvml
        record = UtilizationRecord(
            samples=0,
            gpus=tuple(GPUUtilization(i, lost_because=self._lost[i]) for i in sorted(self._lost)),
            host=HostUtilization(
                children_cpu_percent=others.children_percent(),
                job_cpu_percent=others.job_percent(),
                others=others.uses(),
            ),
            gpus_unknown_because=self._gpus_unknown_because,
            processes_unknown_because=nvml.processes_unknown_because if nvml else None,
        )
        self._session.output.record("utilization", record, self._session.step)

    def _sample_host(self, host: HostSensor) -> None:
        sample = host.read(in_steps=self._session.in_steps)
        self._session.output.record("host", sample, self._session.step)
        if self._others.note(sample):
            self._write()

    def _sample_gpus(self, nvml: NVMLSensor) -> None:
        samples = nvml.read()
        if self._note_lost(nvml):
            self._write()
        for sample in samples:
            self._session.output.record("gpu", sample, self._session.step)

    def _note_lost(self, nvml: NVMLSensor) -> bool:
        """Warns of GPUs that can no longer be read; returns whether there are new ones."""
        lost = nvml.lost.keys() - self._lost.keys()
        for index in sorted(lost):
            logger.warning(
                "keras_gpukit: GPU %d can no longer be read in this run (%s); other GPUs still "
                "are.",
                index,
                nvml.lost[index],
            )
        self._lost = dict(nvml.lost)
        return bool(lost)
