"""Changes figures that users act on, one at a time, and checks that a test notices each change.

    python benchmarks/mutants.py --json benchmarks/results/mutants.json

The changes are in `benchmarks/mutants.toml`: for each file of the package the tests that should
notice, and the old text, the new one, and what users would get. A change that no test notices is a
missing test, and makes the exit status 1.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from shutil import copy2
from typing import NamedTuple

from harness import argument_parser
from results_file import save, saved_rows

ROOT = Path(__file__).parents[1]
# Before Python 3.11, pytest brings it under its old name.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class Change(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    users_get: str
    tests: Sequence[str]


def read_changes() -> list[Change]:
    """Returns all changes; the old text of each must be exactly once in its file."""
    changes = []
    for room in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["file"]:
        file = f"keras_gpukit/{room['path']}"
        for old, new, users_get in room["changes"]:
            name = f"{file}: {old} → {new}"
            if (ROOT / file).read_text(encoding="utf-8").count(old) != 1 or old == new:
                raise SystemExit(f"{name}\nThe old text is not exactly once in the file.")
            changes.append(Change(name, file, old, new, users_get, room["tests"]))
    return changes


def copied(to: Path) -> Path:
    """Copies the repository, with what is not committed yet."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, to / name)
    return to


def failure(tree: Path, tests: Sequence[str], **variables: str) -> str | None:
    """Runs tests in a copy; returns the first one that fails, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), **variables}
    ran = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    found = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", ran.stdout, re.M)
    if ran.returncode not in (0, 1) or (ran.returncode and found is None):
        raise SystemExit(f"pytest could not run: {ran.stdout[-3000:]}{ran.stderr[-1000:]}")
    return found[1] if found and ran.returncode else None


def noticed_by(change: Change, tree: Path) -> str | None:
    """Makes a change in a copy, and returns the test that notices it."""
    file = tree / change.file
    text, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(text.replace(change.old, change.new), encoding="utf-8")
    try:
        return failure(tree, change.tests, PYTHONDONTWRITEBYTECODE="1")
    finally:  # what Python compiled of the file has its old time, and is valid again
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", help="changes with any of these texts in their names")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    arguments, changes = parser.parse_args(), read_changes()
    only = arguments.only or [""]
    chosen = [change for change in changes if any(text in change.name for text in only)]

    def judge(change: Change) -> str | None:
        by = noticed_by(change, tree := trees.pop())
        trees.append(tree)
        print(f"{by or f'NOT NOTICED, users get {change.users_get}'}: {change.name}", flush=True)
        return by

    tests = sorted({test for change in chosen for test in change.tests})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        trees = [copied(Path(folder, str(number))) for number in range(arguments.jobs)]
        if failed := failure(trees[0], tests):
            raise SystemExit(f"{failed} fails without a change")
        rows = dict(zip((change.name for change in chosen), pool.map(judge, chosen), strict=True))
    noticed = sum(by is not None for by in rows.values())
    print(f"{noticed} of {len(rows)} noticed")
    if arguments.json:
        known = {**(saved_rows(arguments.json, "noticed_by") if arguments.only else {}), **rows}
        known = {change.name: known[change.name] for change in changes if change.name in known}
        figures = {"date": f"{date.today()}", "noticed": sum(map(bool, known.values()))}
        save(arguments.json, __file__, **figures, noticed_by=known)
    return int(noticed < len(rows))


if __name__ == "__main__":
    sys.exit(main())
