"""Fails if a room of the repository has more Python than its budget in `pyproject.toml` allows.

    python .ci/check_budgets.py [--lower]

With `--lower`, budgets above what their rooms have now are lowered to that.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "pyproject.toml"
BUDGET = re.compile(r'^"?([\w/]+)"? = \[(\d+), (\d+)\]$', re.M)
KINDS = ("lines", "files")
# Scripts as people write them, whose length is no choice of ours.
EXEMPT = ("benchmarks/unseen/", "benchmarks/public_threads/")
ADVICE = """Take out what is superfluous. To raise a budget, the commit needs a line that says which
sentence a user gets for it."""


def sizes() -> dict[str, list[int]]:
    """Returns the lines and files of the package, of each of its rooms, tests and benchmarks."""
    found: dict[str, list[int]] = {}
    for top in ("keras_gpukit", "tests", "benchmarks"):
        for path in (ROOT / top).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            inner = "/".join(name.split("/")[:2]) if name.count("/") > 1 else f"{top}/modules"
            for room in (top, inner) if top == "keras_gpukit" else (top,):
                if not name.startswith(EXEMPT):
                    size = found.setdefault(room, [0, 0])
                    size[0] += len(path.read_text(encoding="utf-8").splitlines())
                    size[1] += 1
    return found


def main(lower: bool) -> int:
    """Returns 1 if a room is over its budget, or has none, else 0."""
    text, over = TABLE.read_text(encoding="utf-8"), []
    budgets = {room: (int(lines), int(files)) for room, lines, files in BUDGET.findall(text)}
    for room, size in sorted(sizes().items()):
        budget = budgets.get(room, (0, 0))
        for has, most, kind in zip(size, budget, KINDS, strict=True):
            if has > most:
                over.append(f"{room}: {has:,} {kind}, {has - most:,} over its budget of {most:,}")
        least = [*map(min, size, budget)]
        text = re.sub(rf'^("?{room}"?) = \[\d+, \d+\]$', rf"\1 = {least}", text, flags=re.M)
    if lower:
        TABLE.write_text(text, encoding="utf-8")
    sys.stderr.write("".join(f"{line}\n" for line in [*over, ADVICE] if over))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main("--lower" in sys.argv[1:]))
