"""What `pip install keras-gpukit` adds to TensorFlow and Keras, on disk.

    python benchmarks/install_size.py --json benchmarks/results/install_size.json

The files of each installed package that `pyproject.toml` requires, directly or not, and that
TensorFlow and Keras do not. An extra counts what it adds to all before; what is not installed
counts nothing. Compiled files (`.pyc`) count, since pip makes them. Needs Python 3.11.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import tomllib
from harness import argument_parser, print_table
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from results_file import save

from keras_gpukit.reports.units import size

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("demo", "nvtx")


def required(requirements: list[str]) -> set[str]:
    """Names of the installed packages that requirements lead to."""
    found: set[str] = set()
    waiting: list[tuple[Requirement, tuple[str, ...]]]
    waiting = [(Requirement(each), ()) for each in requirements]
    seen = set()
    while waiting:
        requirement, wanted = waiting.pop()
        environments = [{"extra": extra} for extra in (*wanted, "")]
        marker = requirement.marker
        if marker is not None and not any(map(marker.evaluate, environments)):
            continue
        name, own = canonicalize_name(requirement.name), tuple(sorted(requirement.extras))
        if (name, own) in seen:
            continue
        seen.add((name, own))
        try:
            listed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [(Requirement(each), own) for each in listed]
    return found


def size_bytes(package: str) -> int:
    files = metadata.files(package) or []
    paths = {path.locate().resolve() for path in files}
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
    args = argument_parser(__doc__).parse_args()
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    known = required(["tensorflow", "keras"])
    before = sum(map(size_bytes, known))
    rows = []
    for extra in ("", *EXTRAS):
        requirements = project["optional-dependencies"][extra] if extra else project["dependencies"]
        added = required(requirements) - known
        known |= added
        sizes = sorted(((size_bytes(each), each) for each in added), reverse=True)
        rows.append(
            {
                "extra": extra or None,
                "bytes": sum(each for each, _ in sizes),
                "packages": {name: each for each, name in sizes},
            }
        )
    print_table(
        f"TensorFlow and Keras take {size(before)}",
        ("what", "adds", "of which"),
        [
            (
                f"the extra {row['extra']}" if row["extra"] else "keras-gpukit",
                size(row["bytes"]),
                ", ".join(f"{name} {size(each)}" for name, each in row["packages"].items()),
            )
            for row in rows
        ],
    )
    if args.json:
        save(args.json, __file__, tensorflow_and_keras_bytes=before, added=rows)


if __name__ == "__main__":
    main()
