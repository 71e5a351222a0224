"""Runs a script in a trial process of `tune`, up to its first `fit`, which is measured instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

from keras_gpukit.monitoring.call_errors import kind_and_message
from keras_gpukit.scripts.import_hook import ImportHook
from keras_gpukit.scripts.main_module import CannotOpenError, run_main
from keras_gpukit.tuning.made_changes import make_changes
from keras_gpukit.tuning.measured_fit import TrialFailedError, measure
from keras_gpukit.tuning.processes import OwnProcess
from keras_gpukit.tuning.training_changes import TrainingChange
from keras_gpukit.tuning.training_process import prepare


@dataclass(frozen=True)
class TunedScript:
    """A script or module, with its arguments."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]

    def start(self, changes: Sequence[TrainingChange], examples: float | None) -> OwnProcess:
        """Starts a process that runs the script. It imports TensorFlow when the script does."""
        # The script may start processes of its own, which those of a daemon may not.
        return OwnProcess(get_context("spawn"), serve, self, tuple(changes), examples, daemon=False)


def serve(
    connection: Connection,
    log: Connection,
    script: TunedScript,
    changes: Sequence[TrainingChange],
    examples: float | None,
) -> None:
    """Runs in the trial process: runs the script. Its first `fit` ends the process."""
    prepare(log, changes)
    reason = "the script called no fit(); give one that calls Keras' fit()"

    def keras_imported() -> None:
        nonlocal reason
        import keras

        if keras.backend.backend() == "tensorflow":
            make_changes(changes, measure(connection, changes, examples))
        else:
            reason = f"Keras runs on {keras.backend.backend()}; only TensorFlow can be tuned"

    ImportHook({"keras": keras_imported}).install()
    try:
        run_main(script.script, script.module, script.arguments)
    except CannotOpenError as error:
        reason = str(error)
    except SystemExit:
        pass
    except BaseException as error:
        kind, message = kind_and_message(error)
        reason = f"{kind}: {message}"
    connection.send(TrialFailedError(reason))
