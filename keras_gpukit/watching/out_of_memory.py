"""Explains why a call ran out of memory, in a note on the exception that ends it."""

from __future__ import annotations

from keras_gpukit.errors import add_note
from keras_gpukit.memory.model_state import held_between_steps
from keras_gpukit.memory.out_of_memory import Call, explain, is_out_of_memory
from keras_gpukit.records.memory import OutOfMemory
from keras_gpukit.reports.out_of_memory import note
from keras_gpukit.sensors.allocator import AllocatorSensor
from keras_gpukit.watching.call_frame import batch_of
from keras_gpukit.watching.session import Session


class OutOfMemoryWatch:
    """Explains the exception that ends a call, if it is an out-of-memory error.

    Attributes:
        other_bytes: Bytes in use when the call began in addition to models and optimizers, per
            device.
    """

    def __init__(self, session: Session, sensor: AllocatorSensor) -> None:
        self.found: OutOfMemory | None = None
        self._session = session
        self._sensor = sensor
        own_bytes = sum(held_between_steps(session.model)) if sensor.devices else 0
        self.other_bytes = {
            each.device: max(each.current_bytes - own_bytes, 0) for each in sensor.read()
        }
        session.errors.add(self._look)

    def _look(self, error: BaseException) -> None:
        if not is_out_of_memory(error):
            return
        session = self._session
        readings = {each.device: each for each in self._sensor.read()}
        # Memory is predicted for training steps only: a validation runs only the forward pass.
        trains = session.phase == "fit" and session.wall.part in ("first step", "steps")
        spec, batch_size = batch_of("fit") if trains else (None, None)
        call = Call(
            model=session.model,
            spec=spec,
            batch_size=batch_size,
            step=session.step,
            gpus=session.environment.gpus,
            other_bytes=self.other_bytes,
            peak_bytes={name: each.needed_bytes for name, each in readings.items()},
            limit_bytes={name: each.limit_bytes for name, each in readings.items()},
        )
        self.found = found = explain(error, call)
        session.output.record("out_of_memory", found, session.step)
        add_note(error, note(found))
