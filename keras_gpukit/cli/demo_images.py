"""The demo's images: pieces of two real photographs, as JPEG files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

COUNT = 512
SIDE = 400
FOLDER = f"photographs-{COUNT}x{SIDE}"
PHOTOGRAPHS = ("china", "flower")


def image_files(data_dir: Path) -> tuple[list[str], list[int]]:
    """Returns the image files, and writes them if they do not exist yet.

    Returns:
        The paths of the images, and for each image the index in `PHOTOGRAPHS` of the photograph it
        is cut from.
    """
    folder = data_dir / FOLDER
    if not folder.is_dir():
        data_dir.mkdir(parents=True, exist_ok=True)
        # Written elsewhere and renamed, so that an interrupted demo leaves no incomplete folder.
        with tempfile.TemporaryDirectory(dir=data_dir) as aside:
            _write_images(Path(aside) / FOLDER)
            os.replace(Path(aside) / FOLDER, folder)
    labels = [index % len(PHOTOGRAPHS) for index in range(COUNT)]
    return [str(folder / _name(index)) for index in range(COUNT)], labels


def _write_images(folder: Path) -> None:
    """Writes pieces cut at random places, from each photograph in turn."""
    import numpy as np
    import tensorflow as tf
    from sklearn.datasets import load_sample_images

    samples = load_sample_images()
    names = (Path(path).stem for path in samples.filenames)
    by_name = dict(zip(names, samples.images, strict=True))
    folder.mkdir()
    random = np.random.default_rng(seed=0)
    for index in range(COUNT):
        image = by_name[PHOTOGRAPHS[index % len(PHOTOGRAPHS)]]
        height, width = image.shape[:2]
        top, left = random.integers(height - SIDE), random.integers(width - SIDE)
        piece = image[top : top + SIDE, left : left + SIDE]
        (folder / _name(index)).write_bytes(tf.io.encode_jpeg(piece, quality=90).numpy())


def _name(index: int) -> str:
    return f"{index:03d}-{PHOTOGRAPHS[index % len(PHOTOGRAPHS)]}.jpg"
