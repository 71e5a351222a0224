"""`Utilization`: utilization of GPUs and host."""

from __future__ import annotations

import os
from collections.abc import Callable

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.errors import Guard, logger
from keras_gpukit.monitoring.run_output import RunOutput
from keras_gpukit.monitoring.sampling import Sampling
from keras_gpukit.monitoring.session import Session
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.machine import GPUUtilization, HostUtilization, UtilizationRecord
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
        self._reading: MachineReadings | None = None

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        self._summary = None
        if session.output.claim("utilization"):
            gpus, steps = session.environment.gpus, session.steps
            self._reading = MachineReadings(
                gpus, session.output, session.sampling, lambda: steps.in_steps
            )

    def _end(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        reading, self._reading = self._reading, None  # so that the callback can be copied after it
        if reading is not None:
            reading.end(session.steps.wall.total_s)
        self._summary = session.output.fold.utilization()


class MachineReadings:
    """Reads GPUs and host during a call, or during a loop of the script's own."""

    def __init__(
        self,
        gpus: tuple[GPUInfo, ...],
        output: RunOutput,
        sampling: Sampling,
        in_steps: Callable[[], bool] = lambda: True,
    ) -> None:
        self._output, self._sampling, self._in_steps = output, sampling, in_steps
        self._others = OtherProcessesSensor()
        self._lost: dict[int, str] = {}
        self._nvml: NVMLSensor | None = None
        self._gpus: int | None = None
        self._gpus_unknown_because: str | None = None
        if gpus:
            with Guard("Reading GPUs through NVML", "Their utilization is unknown.") as guard:
                self._nvml = nvml = NVMLSensor(gpus)
                self._note_lost(nvml)
                self._gpus = sampling.every_second(
                    "GPUs through NVML", lambda: self._sample_gpus(nvml)
                )
            self._gpus_unknown_because = guard.failed_because
        host = HostSensor()
        self._host = sampling.every_second("the host", lambda: self._sample_host(host))

    def end(self, lasted_s: float = SHORTEST_S) -> None:
        """Reads a last time after a run of some seconds, and closes NVML."""
        if not self._output.fold.host.readings:
            # The run ended before the first regular reading.
            if lasted_s >= SHORTEST_S:
                self._sampling.read_now(self._host)
            if self._gpus is not None:
                self._sampling.read_now(self._gpus)
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
        self._output.write_record("utilization", record)

    def _sample_host(self, host: HostSensor) -> None:
        sample = host.read(in_steps=self._in_steps())
        self._output.write_record("host", sample)
        if self._others.note(sample):
            self._write()

    def _sample_gpus(self, nvml: NVMLSensor) -> None:
        samples = nvml.read_gpus()
        if self._note_lost(nvml):
            self._write()
        for sample in samples:
            self._output.write_record("gpu", sample)

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
