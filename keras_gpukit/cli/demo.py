"""`keras-gpukit demo`: a slow training run on real images, its verdict, and the fix."""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import fail, folder

if TYPE_CHECKING:
    from rich.console import Console

    from keras_gpukit.configure.setup import GPUSetup
    from keras_gpukit.records.run import RunSummary

BATCH_SIZE = 32
DESCRIPTION = """\
Trains a small convolutional network on pieces of two photographs: first with the input pipeline
that beginners write, then with the verdict's advice applied. Takes less than a minute on two
cores, and needs no GPU."""


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "demo", help="find and fix a slow input pipeline, in a minute", description=DESCRIPTION
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs", "demo"),
        help="where TensorBoard finds the runs (default: %(default)s)",
    )
    parser.add_argument(
        "--data-dir",
        type=folder,
        default=Path("~", ".cache", "keras-gpukit"),
        help="where the images are written, once (default: %(default)s)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Runs the demo.

    Returns:
        The exit code.
    """
    if importlib.util.find_spec("sklearn") is None:
        return fail(
            "demo",
            'the photographs come from scikit-learn: pip install "keras-gpukit[demo]"',
            code=1,
        )
    from keras_gpukit.cli.quiet import load_tensorflow_quietly

    load_tensorflow_quietly()
    os.environ["KERAS_BACKEND"] = "tensorflow"  # the demo is about tf.data pipelines
    from keras_gpukit.cli.demo_images import image_files

    try:
        paths, labels = image_files(args.data_dir.expanduser())
    except OSError as error:
        return fail("demo", f"the images cannot be written to --data-dir: {error}", code=1)
    _show(paths, labels, args.log_dir.expanduser())
    return 0


def _show(paths: list[str], labels: list[int], log_dir: Path) -> None:
    """Runs the demo and prints each part as it happens."""
    import tensorflow as tf
    from rich.console import Console

    import keras_gpukit as gpukit
    from keras_gpukit.cli.demo_pipelines import as_advised, as_written
    from keras_gpukit.cli.demo_report import comparison
    from keras_gpukit.reports.terminal import print_anywhere

    console = Console(highlight=False)
    setup = gpukit.configure_gpus()
    files = tf.data.Dataset.from_tensor_slices((paths, labels))
    # One folder per demo: TensorBoard would draw two runs in one folder as a single line.
    logs = log_dir / time.strftime("%Y%m%d-%H%M%S")
    console.print(f"\n{len(paths)} images: {Path(paths[0]).parent}", soft_wrap=True)
    first = _train("1. As beginners write it", as_written, files, setup, logs, console)
    second = _train("2. With the advice applied", as_advised, files, setup, logs, console)
    console.print()
    print_anywhere(comparison(first, second), console)
    console.print("\nBoth runs in TensorBoard:", style="bold")
    console.print(f"  tensorboard --logdir {log_dir}", soft_wrap=True)


def _train(
    title: str,
    pipeline: Callable[[Any, int], Any],
    files: Any,
    setup: GPUSetup,
    logs: Path,
    console: Console,
) -> RunSummary:
    """Shows a pipeline's code, and trains with it."""
    from keras_gpukit.cli.demo_report import print_code
    from keras_gpukit.cli.demo_training import EPOCHS, train

    console.print(f"\n{title}", style="bold")
    print_code(pipeline, console)
    console.print(f"\nTraining for {EPOCHS} epochs ...")
    dataset = pipeline(files, setup.global_batch_size(BATCH_SIZE))
    return train(dataset, setup, logs / pipeline.__name__)
