"""`DevicePlacement`: the device of each operation of the training step, and the reason for it."""

from __future__ import annotations

from keras_gpukit.callbacks.base import WatchingCallback
from keras_gpukit.input.wait.calls import Counts, ExampleCounter
from keras_gpukit.monitoring.session import Session
from keras_gpukit.profiling.placement.probe import PlacementProbe
from keras_gpukit.records.placement import NO_STEP, PlacementRecord
from keras_gpukit.records.steps import Phase


class DevicePlacement(WatchingCallback[PlacementRecord]):
    """Reads the device that each operation of the first training step actually ran on.

    TensorFlow silently places operations without a GPU kernel on the CPU. This callback lists these
    operations, each with the reason. It writes the text `placement`.

    Args:
        log_dir: Everything measured is written to `<log_dir>/gpukit`; None writes nothing.

    Attributes:
        summary: From the first step on, a `PlacementRecord`.

    Raises:
        TypeError: If `log_dir` is not a path.
        ValueError: If `log_dir` is empty or a file.
    """

    def _begin(self, session: Session, phase: Phase) -> None:
        if phase != session.phase:
            return
        self._summary = NO_STEP
        if phase != "fit":
            return
        probe, counter = PlacementProbe(session.model), ExampleCounter(session.model)
        before: list[Counts] = []

        def start() -> None:
            before.append(counter.take())
            probe.start()

        def read_placement() -> None:
            self._summary = probe.stop(lambda: counter.between(before[0], counter.take(), calls=1))
            session.output.write_record("placement", self._summary)

        session.steps.on_first_step(start, read_placement)

    def _end(self, session: Session, phase: Phase) -> None:
        if phase == session.phase and self._summary is NO_STEP:
            session.output.write_record("placement", NO_STEP)
