"""What nvidia-smi reports about a GPU while something runs."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

QUERIED = ("power.draw", "clocks.sm", "memory.used", "clocks_event_reasons.active")
Table = list[dict[str, str]]
"""A row for each second, by column."""


@contextlib.contextmanager
def watching(uuid: str | None) -> Iterator[dict[str, Table]]:
    """Runs `nvidia-smi dmon` and `nvidia-smi --query-gpu` once a second.

    Args:
        uuid: The GPU.

    Yields:
        A dict that has both tables, "dmon" and "query", once the context has ended; it stays empty
        if there is no GPU or no nvidia-smi.
    """
    tables: dict[str, Table] = {}
    if uuid is None or shutil.which("nvidia-smi") is None:
        yield tables
        return
    query = [f"--query-gpu={','.join(QUERIED)}", "--format=csv,noheader,nounits", "-l", "1"]
    commands = {"dmon": ["dmon", "-s", "pu", "-d", "1"], "query": query}
    with contextlib.ExitStack() as stack:
        outputs = {name: stack.enter_context(tempfile.TemporaryFile("w+")) for name in commands}
        processes = [
            subprocess.Popen(["nvidia-smi", *command, "-i", uuid], stdout=outputs[name])
            for name, command in commands.items()
        ]
        try:
            yield tables
        finally:
            for process in processes:
                process.kill()
                process.wait()
            for name, parse in (("dmon", parse_dmon), ("query", parse_query)):
                outputs[name].seek(0)
                tables[name] = parse(outputs[name].read())


def parse_dmon(text: str) -> Table:
    """Reads dmon's output: a line "# gpu pwr …" with the columns, one with units, then the rows."""
    columns: list[str] = []
    rows = []
    for line in text.splitlines():
        words = line.lstrip("#").split()
        if line.startswith("#"):
            columns = words if "gpu" in words else columns
        elif len(words) == len(columns):
            rows.append(dict(zip(columns, words, strict=True)))
    return rows


def parse_query(text: str) -> Table:
    """Reads what `--query-gpu` printed; the last line may be cut off."""
    rows = [[word.strip() for word in line.split(",")] for line in text.splitlines()]
    return [dict(zip(QUERIED, row, strict=True)) for row in rows if len(row) == len(QUERIED)]


def mean(table: Table, column: str) -> float | None:
    """Returns the mean of a column; None if it has no figures, as for "-" or "[N/A]"."""
    values: list[Any] = []
    for row in table:
        with contextlib.suppress(ValueError):
            values.append(float(row[column]))
    return statistics.fmean(values) if values else None
