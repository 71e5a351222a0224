"""`keras-gpukit tune`, `memory` and `batch-size`, which run a script up to its first `fit`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import (
    above_0,
    add_command,
    add_json_flags,
    check_script,
    fail,
    folder,
    positive,
    print_json,
)
from keras_gpukit.errors import NOT_ON_WINDOWS

if TYPE_CHECKING:
    from keras_gpukit.records.tuning import Promise
    from keras_gpukit.tuning.processes import OwnProcess
    from keras_gpukit.tuning.training_changes import TrainingChange

_NO_FIT = "the script called no fit(); give one that calls Keras' fit()"
USAGE = "keras-gpukit tune [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script several times up to its first fit(), and measures how fast it trains:
unchanged, with one change after another, and with the changes that gain together. Prints the gains
and the lines to change. The script stays as it is, but whatever it does before its first fit()
happens once for each change. Exits with 0 if something was measured, with 2 if the unchanged script
could not be, and with 130 after Ctrl-C, which prints what is known by then."""


def add_parser(subparsers: Any) -> None:
    """Adds the commands to the `keras-gpukit` parser."""
    _add_tune(subparsers)
    _add_first_fit(subparsers)


def _add_tune(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "tune",
        run,
        help="measure which changes make training faster",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--try",
        dest="changes",
        action="append",
        default=[],
        metavar="CODE",
        help="try only what the finding with this code advises, or the change of this name: input, "
        "graph, jit, no-jit, steps-per-execution, mixed-precision, memory-pool, batch-size; may be "
        "repeated",
    )
    parser.add_argument(
        "--minutes",
        type=above_0,
        default=5.0,
        metavar="N",
        help="how long to try changes (default: 5)",
    )
    parser.add_argument(
        "--tolerance",
        type=above_0,
        metavar="SHARE",
        help="how much the loss may differ for a change to be kept (default: 0.05)",
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs"),
        help="folder of an earlier run, whose promised savings are compared with the measured ones "
        "(default: %(default)s)",
    )
    add_json_flags(parser, "tune", "print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Tries the changes and prints the result; returns the exit code."""
    if sys.platform == "win32":
        return fail("tune", NOT_ON_WINDOWS)
    from keras_gpukit.errors import TrialError
    from keras_gpukit.reports.searches import speedup_view
    from keras_gpukit.reports.terminal import print_anywhere
    from keras_gpukit.rules.gains import TOLERANCE, changes_to_try
    from keras_gpukit.tuning.tune import search

    check_script(args)
    try:
        names = changes_to_try(args.changes)
    except ValueError as error:
        return fail("tune", error)
    script = TunedScript(args.script, args.module, tuple(args.script_arguments))
    try:
        found = search(
            script.start,
            args.module or Path(args.script).name,
            names=names,
            minutes=args.minutes,
            tolerance=args.tolerance or TOLERANCE,
            shown=not args.json,
            recorded=_recorded(args.log_dir.expanduser()),
        )
    except TrialError as error:
        return fail("tune", error)
    if args.json:
        print_json(found)
    else:
        print_anywhere(speedup_view(found))
    return 130 if found.ending == "interrupted" else 0


@dataclass(frozen=True)
class TunedScript:
    """A script or module, with its arguments, that `tune` trains in trial processes."""

    script: str | None
    module: str | None
    arguments: tuple[str, ...]

    def start(self, changes: Sequence[TrainingChange], examples: float | None) -> OwnProcess:
        """Starts a process that runs the script. It imports TensorFlow when the script does."""
        # Not imported before a script runs: it would take our `__main__` for the script's.
        from multiprocessing import get_context

        from keras_gpukit.tuning.measured_fit import started

        return started(get_context("spawn"), self.train, changes, examples)

    def train(self, make_changes: Callable[[], None]) -> str:
        """Runs the script; returns why its first `fit` has not ended the process."""
        from keras_gpukit.scripts.import_hook import ImportHook
        from keras_gpukit.scripts.main_module import CannotOpenError, run_main

        reason = _NO_FIT

        def keras_imported() -> None:
            nonlocal reason
            import keras

            if keras.backend.backend() == "tensorflow":
                make_changes()
            else:
                reason = f"Keras runs on {keras.backend.backend()}; only TensorFlow can be tuned"

        ImportHook({"keras": keras_imported}).install()
        try:
            run_main(self.script, self.module, self.arguments)
        except CannotOpenError as error:
            return str(error)
        except SystemExit:
            pass
        return reason


def _recorded(log_dir: Path) -> tuple[Promise, ...]:
    """Returns the promises of the findings on the newest run of a log folder, if it has one."""
    from keras_gpukit.rules.gains import promises
    from keras_gpukit.saved_runs.log_folder import load_report

    try:
        runs = load_report(log_dir).runs
    except OSError:
        return ()
    newest = next((run for run in runs if run.phase == "fit"), None)
    return promises(newest.summary) if newest else ()


MEMORY = """\
Runs a training script up to its first fit(), predicts the memory of its steps by cause without
training, and ends the script. Exits with 2 if nothing could be predicted."""
BATCH_SIZE = """\
Runs a training script up to its first fit(), tries batch sizes by training with them, and ends the
script. Exits with 2 if none could be found."""


def _add_first_fit(subparsers: Any) -> None:
    memory = add_command(
        subparsers,
        "memory",
        predict_memory,
        help="predict the memory that training needs, before it starts",
        usage="keras-gpukit memory [--batch-size N] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description=MEMORY,
    )
    memory.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help="predict for this batch size instead of the script's own",
    )
    sizes = add_command(
        subparsers,
        "batch-size",
        find_size,
        help="find the largest batch size that fits, and the fastest",
        usage="keras-gpukit batch-size [--max N] [--seconds N] (SCRIPT | -m MODULE) [ARGUMENT ...]",
        description=BATCH_SIZE,
    )
    sizes.add_argument("--max", type=positive, metavar="N", help="largest batch size to try")
    sizes.add_argument(
        "--seconds", type=above_0, default=90, metavar="N", help="how long to search (default: 90)"
    )


def predict_memory(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`; returns 0 after a prediction, else 2."""

    def predict(model: Any) -> None:
        from keras_gpukit.monitoring.call_frame import batch_of, first_batch_of_fit
        from keras_gpukit.reports.memory import memory_view
        from keras_gpukit.reports.terminal import print_anywhere
        from keras_gpukit.tuning.predict_memory import predict_of_spec

        spec, own_size = batch_of("fit")
        size = args.batch_size or own_size or first_batch_of_fit()
        if spec is None or size is None:
            raise ValueError("the size of its batches is not known; give --batch-size")
        print_anywhere(memory_view(predict_of_spec(model, spec, size)))

    return _ask_first_fit("memory", predict, args)


def find_size(args: argparse.Namespace) -> int:
    """Runs the script to its first `fit`; returns 0 if batch sizes were found, else 2."""
    if sys.platform == "win32":
        return fail("batch-size", NOT_ON_WINDOWS)

    def find(model: Any) -> None:
        from keras_gpukit.monitoring.call_frame import arrays_of_fit, data_of_fit
        from keras_gpukit.tuning.find_batch_size import find_batch_size

        data = arrays_of_fit() or data_of_fit()
        find_batch_size(model, data, max_batch_size=args.max, seconds=args.seconds)

    return _ask_first_fit("batch-size", find, args)


def _ask_first_fit(command: str, question: Callable[[Any], None], args: argparse.Namespace) -> int:
    """Runs a script up to its first `fit`, asks there, and ends it; returns the exit code.

    The question gets the model, once Keras has built it and its optimizer. It prints the answer, or
    raises an exception that says why there is no answer.
    """
    from keras_gpukit.frameworks import keras_models
    from keras_gpukit.scripts.import_hook import ImportHook
    from keras_gpukit.scripts.main_module import CannotOpenError, run_main

    check_script(args)
    has_asked = False
    failed_because: str | None = _NO_FIT

    def keras_imported() -> None:
        nonlocal failed_because
        import keras

        name = keras.backend.backend()
        if name == "tensorflow":
            keras_models.on_each_list(ask)
        else:
            failed_because = f"Keras runs on {name}; only TensorFlow's memory is known"

    def ask(method: str, callback_list: Any, given: int) -> None:
        nonlocal has_asked, failed_because
        if method != "fit" or has_asked:
            return  # the question itself may run a fit
        has_asked = True
        try:
            question(callback_list.model)
            failed_because = None
        except Exception as error:
            failed_because = f"{type(error).__name__}: {error}"
        raise SystemExit(0 if failed_because is None else 2)

    ImportHook({"keras": keras_imported}).install()
    try:
        run_main(args.script, args.module, args.script_arguments)
    except CannotOpenError as error:
        failed_because = str(error)
    except SystemExit:
        if not has_asked:
            raise
    return 0 if failed_because is None else fail(command, f"{failed_because}.")
