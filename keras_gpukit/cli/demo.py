"""`keras-gpukit demo`: a slow training run on real images, its verdict, and the fix."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import fail, folder, quiet_tensorflow
from keras_gpukit.version import install_command

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from keras_gpukit.configure.setup import GPUSetup
    from keras_gpukit.records.run import RunSummary

BATCH_SIZE, SIDE = 32, 64
IMAGES, PIECE = 512, 400
"""Number of images, and the side of each in pixels; they are shrunk to `SIDE`."""
PHOTOGRAPHS = ("china", "flower")
DESCRIPTION = """\
Trains a small convolutional network on pieces of two photographs: first with the input pipeline
that most people write first, then with the verdict's advice applied. Takes less than a minute on
two cores, and needs no GPU."""


# The demo's two input pipelines: the same images, prepared in two ways.


def as_written(files: Any, batch_size: int) -> Any:
    """As many people write it: everything is repeated in each epoch."""
    return files.shuffle(len(files)).map(load).map(augment).batch(batch_size)


def as_advised(files: Any, batch_size: int) -> Any:
    """In parallel, cached where nothing is random, and prefetched."""
    import tensorflow as tf

    return (
        files.map(load, num_parallel_calls=tf.data.AUTOTUNE)
        .cache()
        .shuffle(len(files))
        .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size)
        .prefetch(tf.data.AUTOTUNE)
    )


def load(path: Any, label: Any) -> Any:
    """Reads, decodes and shrinks an image: expensive, and the same each time."""
    import tensorflow as tf

    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (SIDE, SIDE), antialias=True), label


def augment(image: Any, label: Any) -> Any:
    """Changes an image at random, differently each time."""
    import tensorflow as tf

    image = tf.image.random_flip_left_right(image)
    return tf.image.random_brightness(image, max_delta=20.0), label


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "demo", help="find and fix a slow input pipeline, in a minute", description=DESCRIPTION
    )
    parser.add_argument(
        "--log-dir",
        type=folder,
        default=Path("logs", "demo"),
        help="folder for the runs (default: %(default)s)",
    )
    parser.add_argument(
        "--data-dir",
        type=folder,
        default=Path("~", ".cache", "keras-gpukit"),
        help="folder for the images (default: %(default)s)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Runs the demo and prints each part as it happens."""
    if importlib.util.find_spec("sklearn") is None:
        needed = f"the photographs come from scikit-learn: {install_command('demo')}"
        return fail("demo", needed, code=1)
    with quiet_tensorflow():
        importlib.import_module("tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # the demo is about tf.data pipelines
    try:
        paths, labels = image_files(args.data_dir.expanduser())
    except OSError as error:
        return fail("demo", f"the images cannot be written to --data-dir: {error}", code=1)
    import tensorflow as tf
    from rich.console import Console

    import keras_gpukit as gpukit
    from keras_gpukit.reports.terminal import print_anywhere

    console, log_dir = Console(highlight=False), args.log_dir.expanduser()
    setup = gpukit.configure_gpus()
    files = tf.data.Dataset.from_tensor_slices((paths, labels))
    # One folder per demo: TensorBoard would draw two runs in one folder as a single line.
    logs = log_dir / time.strftime("%Y%m%d-%H%M%S")
    console.print(f"\n{len(paths)} images: {Path(paths[0]).parent}", soft_wrap=True)
    written, advised = (
        _train(title, pipeline, epochs, files, setup, logs, console)
        for title, pipeline, epochs in (
            ("1. As beginners write it", as_written, 10),
            # A profile of its steps takes more than ten seconds, and its epochs are quick.
            ("2. With the advice applied", as_advised, 80),
        )
    )
    console.print()
    print_anywhere(_comparison(written, advised), console)
    console.print("\nBoth runs in TensorBoard:", style="bold")
    console.print(f"  tensorboard --logdir {log_dir}", soft_wrap=True)
    return 0


def image_files(data_dir: Path) -> tuple[list[str], list[int]]:
    """Returns image files, written once, and for each its photograph's index in `PHOTOGRAPHS`."""
    images = data_dir / f"photographs-{IMAGES}x{PIECE}"
    labels = [index % len(PHOTOGRAPHS) for index in range(IMAGES)]
    names = [f"{index:03d}-{PHOTOGRAPHS[label]}.jpg" for index, label in enumerate(labels)]
    if not images.is_dir():
        data_dir.mkdir(parents=True, exist_ok=True)
        # Written elsewhere and renamed, so that an interrupted demo leaves no incomplete folder.
        with tempfile.TemporaryDirectory(dir=data_dir) as aside:
            _write_images([Path(aside, images.name, name) for name in names], labels)
            os.replace(Path(aside, images.name), images)
    return [str(images / name) for name in names], labels


def _write_images(paths: list[Path], labels: list[int]) -> None:
    """Writes pieces cut at random places of the photographs."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    samples = load_sample_images()
    names = (Path(path).stem for path in samples.filenames)
    by_name = dict(zip(names, samples.images, strict=True))
    paths[0].parent.mkdir()
    random = np.random.default_rng(seed=0)
    for path, label in zip(paths, labels, strict=True):
        image = by_name[PHOTOGRAPHS[label]]
        height, width = image.shape[:2]
        top, left = random.integers(height - PIECE), random.integers(width - PIECE)
        piece = image[top : top + PIECE, left : left + PIECE]
        path.write_bytes(tf.io.encode_jpeg(piece, quality=90).numpy())


def _train(
    title: str,
    pipeline: Callable[[Any, int], Any],
    epochs: int,
    files: Any,
    setup: GPUSetup,
    logs: Path,
    console: Console,
) -> RunSummary:
    """Shows a pipeline's code, trains a new network with it, and prints the verdict on the run."""
    import keras

    import keras_gpukit as gpukit

    console.print(f"\n{title}", style="bold")
    print_code(pipeline, console)
    console.print(f"\nTraining for {epochs} epochs ...")
    dataset = pipeline(files, setup.global_batch_size(BATCH_SIZE))
    keras.utils.set_random_seed(0)  # both runs start from the same weights
    with setup.scope():
        model = _build_model()
    monitor = gpukit.Monitor(logs / pipeline.__name__, verbose=1)
    # The pipelines shuffle; without shuffle=False Keras warns that it cannot.
    model.fit(dataset, epochs=epochs, shuffle=False, callbacks=[monitor], verbose=0)
    assert monitor.summary is not None
    return monitor.summary


def print_code(function: Callable[..., Any], console: Console) -> None:
    """Prints a function's own source, so that what is shown cannot differ from what runs."""
    from rich.syntax import Syntax

    source = inspect.getsource(function).rstrip()
    highlighted = Syntax(source, "python", theme="ansi_dark").highlight(source)
    console.print(highlighted, soft_wrap=True)


def _build_model() -> Any:
    """Returns a network that predicts which photograph a piece is from."""
    import keras

    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _comparison(written: RunSummary, advised: RunSummary) -> RenderableType:
    """Returns a table of both runs' figures, and the speed-up."""
    from rich.console import Group

    from keras_gpukit.reports import units
    from keras_gpukit.reports.terminal import plain, table

    def row(name: str, text: Callable[[float], str], *values: float | None) -> tuple[str, ...]:
        return (name, *(units.known(value, text) for value in values))

    runs = (written, advised)
    rows = (
        row("examples/s", units.number, *(run.examples_per_s for run in runs)),
        row("step time", units.duration, *(run.step_time_s for run in runs)),
    )
    heads = ("", "as written", "as advised")
    parts: list[RenderableType] = [table(rows, heads, heads[1:])]
    if written.examples_per_s and advised.examples_per_s:
        factor = units.number(round(advised.examples_per_s / written.examples_per_s, 1))
        gain = f"\n{factor}× the examples per second, with the same model."
        note = (
            "The rates exclude each epoch's first step, and with it the first read of all images."
        )
        parts += [plain(gain, style="bold"), plain(note, style="dim")]
    return Group(*parts)
