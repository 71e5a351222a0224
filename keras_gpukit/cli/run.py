"""`keras-gpukit run`: runs an unchanged training script with monitoring."""

from __future__ import annotations

import argparse
import atexit
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_gpukit.cli.command_line import add_command, check_script, fail, folder

AGAIN = ("keras-gpukit", "run", "--profile")
USAGE = "keras-gpukit run [OPTION ...] (SCRIPT | -m MODULE) [ARGUMENT ...]"
DESCRIPTION = """\
Runs a training script as Python does, with a Monitor in every fit(). Results, output and exit code
stay the same. Everything after SCRIPT or MODULE is passed to the script. At the end, the verdict is
printed on standard error, and a report is written."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = add_command(
        subparsers,
        "run",
        run,
        help="run your training script unchanged, and say what limits its speed",
        usage=USAGE,
        description=DESCRIPTION,
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs"),
        help="folder in which each run gets its own (default: %(default)s)",
    )
    parser.add_argument(
        "--profile", action="store_true", help="also profile a few steps, with a Profiler"
    )
    parser.add_argument(
        "--details", action="store_true", help="print every finding with its figures and advice"
    )
    parser.add_argument(
        "--log-to",
        metavar="NAME[,NAME]",
        default=(),
        type=lambda text: text.split(","),
        help="also log each fit() to mlflow, wandb, otel, or several of them; a Monitor in the "
        "script with its own log_to keeps it",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="also monitor the Python processes that the script starts, by two environment "
        "variables that they inherit",
    )
    parser.add_argument("--open", action="store_true", help="open the report in a browser")
    add_gpu_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the script. Its exceptions pass through, so that Python itself ends the process."""
    from keras_gpukit.monitoring.sampling import STACKS
    from keras_gpukit.saved_runs.exporting import check_log_to
    from keras_gpukit.scripts.conclusion import Conclusion
    from keras_gpukit.scripts.custom_loop import OwnLoops
    from keras_gpukit.scripts.import_hook import OnImports
    from keras_gpukit.scripts.main_module import CannotOpenError, keep_interrupted, run_main
    from keras_gpukit.scripts.run_folder import FOLLOWED, SHARED, RunFolder, job_of
    from keras_gpukit.scripts.started_processes import StartedProcesses, have_followed
    from keras_gpukit.scripts.termination import Termination
    from keras_gpukit.scripts.watched_fits import WatchedFits

    check_script(args)
    gpu_settings = given_gpu_flags(args)
    try:
        if gpu_settings:  # loads what knows the strategies of TensorFlow
            from keras_gpukit.configure.settings import check

            check(**gpu_settings)
        log_to = check_log_to(args.log_to)
    except (TypeError, ValueError, ImportError) as error:
        args.error(str(error))
    log_dir = args.log_dir.expanduser().absolute()
    shared = os.environ.pop(SHARED, None)
    os.environ.pop(FOLLOWED, None)  # of processes that start each other, the innermost run acts
    job = job_of(os.environ) if shared is None else None
    run_folder = RunFolder(
        log_dir,
        args.module or Path(args.script).stem,
        shared=Path(shared) if shared else None,
        job=job,
        trains_together=shared is not None,
    )

    def finish() -> None:
        from keras_gpukit.monitoring.session import end_all

        end_all("SIGTERM")
        if shared is None:
            conclusion.report()

    before_fit = Termination(finish).install
    loops, started = OwnLoops(), StartedProcesses()
    fits = WatchedFits(run_folder, profile=args.profile, log_to=log_to, before_fit=before_fit)
    on_imports = OnImports(fits, loops, gpu_settings)
    conclusion = Conclusion(
        fits,
        run_folder,
        opens=args.open,
        details=args.details,
        loops=loops,
        imports_s=lambda: on_imports.spent_s,
        chief_reports=job is not None and job.index > 0,
        started=started,
        follows=args.follow,
        again=None if args.profile else shlex.join([*AGAIN, *args.given[1:]]),
    )
    # Registered first, so that they are called last: the script's exit handlers may still train.
    atexit.register(keep_interrupted)
    if shared is None:  # otherwise the launcher reports once all processes have ended
        atexit.register(conclusion.report)
    on_imports.install()
    started.install()
    if args.follow:
        have_followed(
            run_folder.path(), profile=args.profile, log_to=log_to, gpu_settings=gpu_settings
        )
    STACKS.acquire()
    try:
        run_main(args.script, args.module, args.script_arguments)
    except CannotOpenError as error:
        atexit.unregister(conclusion.report)
        return fail("run", error)
    return 0


def _devices(text: str) -> str | list[int | str]:
    if text in ("all", "none"):
        return text
    return [int(device) if device.isdecimal() else device for device in text.split(",")]


def _memory(text: str) -> str | list[str]:
    return text.split(",") if "," in text else text


def _logical_gpus(text: str) -> int | list[str]:
    return int(text) if text.isdecimal() else text.split(",")


def _jit(text: str) -> bool | str:
    values: dict[str, bool | str] = {"auto": "auto", "on": True, "off": False}
    if text not in values:
        raise argparse.ArgumentTypeError(f"must be {', '.join(values)}, and is {text!r}")
    return values[text]


def _gpu_threads(text: str) -> int | str | tuple[str, int]:
    mode, _, count = text.partition(":")
    if text.isdecimal():
        return int(text)
    return (mode, int(count)) if count else mode


_VALUES: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    ("--devices", "GPUS", _devices, 'all, none, or GPUs by index or UUID, such as "0,1"'),
    ("--memory", "SIZE", _memory, "growth, all, or a size such as 8GiB, or one for each GPU"),
    ("--logical-gpus", "N|SIZES", _logical_gpus, "split each GPU, for example 2 or 4GiB,4GiB"),
    ("--mixed-precision", "POLICY", str, "auto, or a dtype policy such as mixed_bfloat16"),
    ("--jit", "auto|on|off", _jit, "whether XLA compiles groups of operations"),
    ("--seed", "N", int, "seed of Python, NumPy and TensorFlow"),
    ("--allocator", "NAME", str, "TensorFlow's allocator, such as cuda_malloc_async"),
    ("--gpu-threads", "N|MODE[:N]", _gpu_threads, "threads that launch kernels"),
    (
        "--strategy",
        "NAME",
        str,
        "such as auto, mirrored or multi_worker, for all models of the script (default: none)",
    ),
    (
        "--worker-timeout-s",
        "SECONDS",
        float,
        "how long to wait for the other processes of a cluster",
    ),
)
_SWITCHES = (
    ("--soft-placement", "whether operations without a kernel for their device run on another"),
    ("--log-device-placement", "whether TensorFlow prints the device of each operation"),
    ("--tf32", "whether float32 matrix products may use TensorFloat-32"),
    ("--deterministic", "whether each run gives the same results; needs --seed"),
    ("--require-gpu", "whether to stop if no GPU can be used"),
)
_DESTINATION = "gpu_"


def add_gpu_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for each argument of `configure_gpus` except `verbose`."""
    group = parser.add_argument_group(
        "GPU options",
        "Passed to configure_gpus() as soon as the script has imported TensorFlow. Without any of "
        "them, no setting is changed.",
    )
    for flag, metavar, parse, described in _VALUES:
        options: dict[str, Any] = {"metavar": metavar, "type": parse, "help": described}
        group.add_argument(flag, dest=_name(flag), default=argparse.SUPPRESS, **options)
    for flag, described in _SWITCHES:
        options = {"action": argparse.BooleanOptionalAction, "help": described}
        group.add_argument(flag, dest=_name(flag), default=argparse.SUPPRESS, **options)


def given_gpu_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the arguments of `configure_gpus` that were given as flags."""
    return {
        name.removeprefix(_DESTINATION): value
        for name, value in vars(args).items()
        if name.startswith(_DESTINATION)
    }


def _name(flag: str) -> str:
    return _DESTINATION + flag.removeprefix("--").replace("-", "_")
