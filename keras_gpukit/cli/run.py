"""`keras-gpukit run`: runs an unchanged training script with monitoring."""

from __future__ import annotations

import argparse
import atexit
import os
from pathlib import Path
from typing import Any

from keras_gpukit.cli.command_line import add_command, check_script, fail, folder
from keras_gpukit.cli.gpu_flags import add_gpu_flags, given_gpu_flags

USAGE = "keras-gpukit run [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script as Python does, with a Monitor in every fit(). All that follows SCRIPT or
MODULE is passed on to it. Its results, its output and its exit code stay as they are. When it ends,
the verdict is printed on standard error, and a report is written next to the records."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = add_command(
        subparsers,
        "run",
        run,
        help="run an unchanged training script, and say what limits its speed",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs"),
        help="where the run gets a folder of its own (default: %(default)s)",
    )
    parser.add_argument(
        "--profile", action="store_true", help="also profile a few steps, with a Profiler"
    )
    parser.add_argument(
        "--details", action="store_true", help="print every finding with its figures and advice"
    )
    parser.add_argument("--open", action="store_true", help="open the report in a browser")
    add_gpu_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the script. Its exceptions pass through, so that Python itself ends the process."""
    from keras_gpukit.configure.settings import check
    from keras_gpukit.scripts.conclusion import Conclusion
    from keras_gpukit.scripts.main_module import CannotOpenError, keep_interrupted, run_main
    from keras_gpukit.scripts.on_imports import OnImports
    from keras_gpukit.scripts.own_loop import OwnLoops
    from keras_gpukit.scripts.run_folder import SHARED, RunFolder, job_of
    from keras_gpukit.scripts.termination import Termination
    from keras_gpukit.scripts.watched_fits import WatchedFits

    check_script(args)
    gpu_settings = given_gpu_flags(args)
    try:
        check(**gpu_settings)
    except (TypeError, ValueError) as error:
        args.error(str(error))
    log_dir = args.log_dir.expanduser().absolute()
    shared = os.environ.pop(SHARED, None)
    job = job_of(os.environ) if shared is None else None
    run_folder = RunFolder(
        log_dir,
        args.module or Path(args.script).stem,
        shared=Path(shared) if shared else None,
        job=job,
    )

    def finish() -> None:
        from keras_gpukit.watching.open_session import end_all

        end_all("SIGTERM")
        if shared is None:
            conclusion.tell()

    before_fit = Termination(finish).install
    loops = OwnLoops()
    fits = WatchedFits(run_folder, profile=args.profile, before_fit=before_fit)
    on_imports = OnImports(fits, loops, gpu_settings)
    conclusion = Conclusion(
        fits,
        run_folder,
        opens=args.open,
        details=args.details,
        loops=loops,
        imports_s=lambda: on_imports.spent_s,
        chief_reports=job is not None and job.index > 0,
    )
    # Registered first, so that they are called last: the script's exit handlers may still train.
    atexit.register(keep_interrupted)
    if shared is None:  # otherwise the launcher reports once all processes have ended
        atexit.register(conclusion.tell)
    on_imports.install()
    try:
        run_main(args.script, args.module, args.script_arguments)
    except CannotOpenError as error:
        return fail("run", error)
    return 0
