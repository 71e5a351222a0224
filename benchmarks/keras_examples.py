"""What `keras-gpukit run` says of examples that Keras publishes, and what its advice brings.

    git clone https://github.com/keras-team/keras && git -C keras checkout 2588a15440a1
    pip install pandas matplotlib
    python benchmarks/keras_examples.py keras/examples/keras_io

The scripts run unchanged, on data made up in the format that they load, so that nothing is
downloaded; there are fewer of them where a script would train for an hour. A copy has what the
verdict advises, and takes turns with the script.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import argument_parser, in_turns, print_table
from results_file import save, saved_rows
from unchanged_scripts import RUN

from keras_gpukit import load_report
from keras_gpukit.reports.evidence import saved
from keras_gpukit.saved_runs.script_verdict import main_run

FEATURES = (
    "p (mbar),T (degC),Tpot (K),Tdew (degC),rh (%),VPmax (mbar),VPact (mbar),VPdef (mbar),"
    "sh (g/kg),H2OC (mmol/mol),rho (g/m**3),wv (m/s),max. wv (m/s),wd (deg)"
)
WINDOWS = """
def windows(data, targets, sequence_length, sampling_rate, batch_size):
    import tensorflow as tf

    count = min(len(data) - (sequence_length - 1) * sampling_rate, len(targets))
    data, targets = tf.constant(data), tf.constant(targets)
    offsets = sampling_rate * tf.range(sequence_length, dtype="int64")
    starts = tf.data.Dataset.range(count).batch(batch_size)
    cut = lambda start: (tf.gather(data, start[:, None] + offsets), tf.gather(targets, start))
    return starts.map(cut, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

"""


def archive(path: Path, files: dict[str, Iterable[str]]) -> None:
    """Writes lines as the files of a zip archive."""
    with zipfile.ZipFile(path, "w") as file:
        for name, lines in files.items():
            file.writestr(name, "\n".join((*lines, "")))


def weather(datasets: Path) -> None:
    """Four months of measurements every ten minutes, of eight years."""
    rows, random = 16_000, np.random.default_rng(0)
    days = 10 * np.sin(2 * np.pi * np.arange(rows) / 144)
    values = days[:, None] * random.uniform(0.5, 1.5, 14) + random.normal(20, 1, (rows, 14))
    lines = (",".join(("01.01.2009 00:10:00", *map("{:.2f}".format, row))) for row in values)
    files = {"jena_climate_2009_2016.csv": [f"Date Time,{FEATURES}", *lines]}
    archive(datasets / "jena_climate_2009_2016.csv.zip", files)


def ratings(datasets: Path) -> None:
    """As many ratings, users and films as the real ones."""
    count, films, random = 100_836, 9_724, np.random.default_rng(0)
    rated = np.concatenate([np.arange(films), random.zipf(1.3, count - films) % films])
    users, rated = random.integers(1, 611, count), 1 + random.permutation(rated)
    rows = zip(users, rated, random.integers(1, 11, count) / 2, strict=True)
    lines = ("{},{},{},964982703".format(*row) for row in rows)
    titles = (f"{film},Film {film} (1999),Drama" for film in range(1, films + 1))
    files = {
        "ml-latest-small/ratings.csv": ["userId,movieId,rating,timestamp", *lines],
        "ml-latest-small/movies.csv": ["movieId,title,genres", *titles],
    }
    archive(datasets / "ml-latest-small.zip", files)


def sentences(datasets: Path) -> None:
    """100 pairs of sentences, of which the script takes up to 10,000."""
    random = np.random.default_rng(0)

    def letters(most: int) -> str:
        words = random.choice(list("abcdefghijklmnopqrstuvwxyzéè    "), random.integers(4, most))
        return "".join(words)

    lines = [f"{letters(16)}.\t{letters(30)}.\tmade up" for _ in range(100)]
    archive(datasets / "fra-eng.zip", {"fra.txt": lines})


class Example(NamedTuple):
    """A script, what makes its data, and what to replace in it as advised."""

    path: str
    make: Callable[[Path], None]
    pattern: str
    advised: str
    before: str = ""


EXAMPLES = {
    "weather": Example(
        "timeseries/timeseries_weather_forecasting.py",
        weather,
        r"keras\.preprocessing\.timeseries_dataset_from_array",
        "windows",
        WINDOWS,
    ),
    "ratings": Example(
        "structured_data/collaborative_filtering_movielens.py",
        ratings,
        r"optimizers\.Adam\(",
        "optimizers.SGD(",
    ),
    "translation": Example(
        "nlp/lstm_seq2seq.py",
        sentences,
        r"\.predict\(\s*([^()]*?),\s*verbose=0\s*\)",
        r".predict_on_batch(\1)",
    ),
}


def measure(script: str, home: Path) -> dict[str, Any]:
    """Runs a script under `keras-gpukit run`, and returns its verdict and how long it took."""
    variables = {"KERAS_HOME": str(home), "KERAS_BACKEND": "tensorflow", "MPLBACKEND": "Agg"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "script.py").write_text(script, encoding="utf-8")
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [*RUN, "script.py"],
            cwd=folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        run, _ = main_run(load_report(Path(folder, "logs")).runs)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    finding = next((each for each in run.summary.findings if each.severity != "info"), None)
    found: dict[str, Any] = {"wall_s": wall_s, "cpu_s": cpu_s}
    if finding is not None:
        promised = finding.saving and saved(finding.saving)
        found |= {"code": finding.code, "says": finding.title, "promised": promised}
    return found


def compare(example: Example, folder: Path, rounds: int) -> dict[str, Any]:
    """Runs a script and its copy with the advice in turns; gains are those within a round."""
    script = (folder / example.path).read_text(encoding="utf-8")
    fixed = example.before + re.sub(example.pattern, example.advised, script)
    with tempfile.TemporaryDirectory() as home:
        datasets = Path(home, "datasets")
        datasets.mkdir()
        example.make(datasets)
        variants = {"as_written": script, "as_advised": fixed}
        runs = in_turns(
            {name: partial(measure, text, Path(home)) for name, text in variants.items()}, rounds
        )
    medians = {
        f"{name}_{key}": statistics.median(each[key] for each in found)
        for name, found in runs.items()
        for key in ("wall_s", "cpu_s")
    }
    pairs = zip(runs["as_written"], runs["as_advised"], strict=True)
    gains = sorted(written["wall_s"] - advised["wall_s"] for written, advised in pairs)
    medians |= {"saved_low_s": gains[0], "saved_high_s": gains[-1]}
    return {"path": example.path, **runs["as_written"][0], **medians, "runs": runs}


def main() -> int:
    """Compares all examples."""
    parser = argument_parser(__doc__)
    parser.add_argument("folder", type=Path, help="examples/keras_io of the clone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="an example; the file keeps the others")
    arguments = parser.parse_args()
    rows = saved_rows(arguments.json, "examples") if arguments.only else {}
    for name, example in EXAMPLES.items():
        if arguments.only in (None, name):
            rows[name] = compare(example, arguments.folder, arguments.rounds)
    print_table(
        "scripts of Keras, unchanged and as advised: medians",
        ("script", "first line", "promised", "whole script", "as advised"),
        (
            (
                name,
                row.get("says", "nothing found"),
                row.get("promised") or "",
                *(f"{row[f'{each}_wall_s']:.1f} s" for each in ("as_written", "as_advised")),
            )
            for name, row in rows.items()
        ),
    )
    if arguments.json:
        save(arguments.json, __file__, rounds=arguments.rounds, examples=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
