"""Python code in README and docs: finds it, and runs it as a script of its own.

A comment above a block says what a reader has already, or why the block cannot run here:

    <!-- given: dataset = dataset.unbatch() -->
    <!-- not run: takes minutes -->
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_ELSEWHERE = {"nan-mixed-precision.md", "slurm.md"}
"""Pages whose code tests of their own run, which look at more than that it ends."""
BLOCK = re.compile(
    r"(?:^ *<!-- (?P<kind>given|not run): (?P<note>.*?) -->\n+)?"
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$"
    r"(?:\n+prints `(?P<printed>[^`]+)`)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A block of code, where it is, what comes before it, and what it prints."""

    place: str
    code: str
    given: str
    is_run: bool
    printed: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        kind, note = found["kind"], found["note"]
        yield Block(
            f"{page.relative_to(ROOT)}:{line}",
            # As many lines before it as on the page, so that tracebacks show the page's lines.
            "\n" * (line - 1) + textwrap.dedent(found["code"]),
            note if kind == "given" else "",
            kind != "not run",
            found["printed"],
        )


def prepared() -> dict[str, Any]:
    """The names that pages use without defining them: a small model and its data."""
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_gpukit as gpukit

    def build_model() -> Any:
        model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        return model

    def load(number: Any) -> Any:
        return tf.fill([32], tf.cast(number, tf.float32) / 64), tf.ones([1])

    files = tf.data.Dataset.range(64)
    return {
        "__name__": "page",
        "augment": lambda *example: example,
        "batch_size": 16,
        "build_model": build_model,
        "dataset": files.map(load).batch(16),
        "ds": files,
        "fetch": load,
        "files": files,
        "gpukit": gpukit,
        "inputs": np.ones((64, 32), "float32"),
        "keras": keras,
        "load": load,
        "model": build_model(),
        "np": np,
        "targets": np.ones((64, 1), "float32"),
        "tf": tf,
    }


def failures(page: Path, names: dict[str, Any]) -> Iterator[str]:
    """Runs the blocks of a page in order, and yields what goes wrong."""
    for block in blocks(page):
        if not block.is_run:
            continue
        output = io.StringIO()
        began_s = time.perf_counter()
        try:
            with contextlib.redirect_stdout(output):
                exec(block.given, names)
                exec(compile(block.code, block.place, "exec", dont_inherit=True), names)
        except Exception:
            yield f"{block.place}: {traceback.format_exc(limit=-3)}"
            return
        finally:
            print(f"{block.place} {time.perf_counter() - began_s:.2f} s", file=sys.stderr)
        if block.printed is not None and block.printed not in output.getvalue():
            yield f"{block.place} prints {output.getvalue()!r}, not {block.printed!r}"


def main() -> None:
    import keras
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # Pages that make two devices do it at their start; a process can do it once.
    tf.config.set_logical_device_configuration = lambda device, configurations: None
    found = []
    names = prepared()
    monitor = names["gpukit"].Monitor("logs", verbose=0)
    names["model"].fit(names["dataset"], epochs=2, verbose=0, callbacks=[monitor])
    for page in (each for each in PAGES if each.name not in RUN_ELSEWHERE):
        found += failures(page, prepared() | {"monitor": monitor})
        keras.config.set_dtype_policy("float32")
        tf.config.set_soft_device_placement(True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
