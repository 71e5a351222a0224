"""Verdicts on people's everyday scripts: the cause, what it costs, and nothing where all is well.

    python benchmarks/everyday.py --json benchmarks/results/everyday.json

Each script in `benchmarks/everyday` is a person's situation. Its docstring names the codes that the
verdict may have ("Finding:"), and patterns of words that its lines must contain ("Names:"), such as
the function and the change that helps. A verdict is right if both hold, vague if only the code
does, else wrong. With `--fix` a script runs without the cause, and must get no verdict. Both
variants run under Python and under `keras-gpukit run`. The time that was really saved must lie in
the promised range. The range is widened by a twentieth of the run, and by as much as runs of the
same variant differ. Where it does not lie there, both variants are measured again, up to three
times in turns, and the means count: freeing an iterator stalls TensorFlow now and then, at each
epoch, for up to as long as the iterator lived. Results, output and exit code must be as under
Python. The panels are in the file, to be read.

The scripts in `benchmarks/unseen` were found and rebuilt without knowing this package, and its
authors did not look at them before they ran once. They name no codes: a reader rates their first
lines by the criteria in `benchmarks/unseen/README.md`, which are older than the runs.

With `--busy`, a loop in another process fills one core meanwhile. With `--watched`, scripts only
run under `keras-gpukit run`: what was saved is measured, but results are not compared.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections import Counter
from multiprocessing import Process
from pathlib import Path
from statistics import fmean
from typing import Any

from harness import argument_parser, print_table
from results_file import save, saved_rows
from unchanged_scripts import PYTHON, RUN, run

SITUATIONS = Path(__file__).parent / "everyday"
TOLERANCE = 0.05
MOST_LINES = 14
BAR = 0.9
MOST_ROUNDS = 3
VARIANTS = {"with": (), "fixed": ("--fix",)}
FINDING, FIT_S = re.compile(r"^Finding: (.*)$", re.MULTILINE), re.compile(r"FIT_S ([\d.]+)")
NAMES = re.compile(r"^Names: (.*)$", re.MULTILINE)
CODE = re.compile(r"\(([a-z][a-z0-9-]*)\)\s*$")
SAVES = re.compile(r"[Ss]aves ((?:up to |at least |about )?[\d.,]+.*?) of [\d.,]+ (ms|s|min)")
AMOUNT = re.compile(r"([\d.,]+)(?: (µs|ms|s|min))?")
UNITS_S = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


def measured(script: Path, ways: dict[str, tuple[str, ...]]) -> dict[str, Any] | None:
    """Runs both variants of a script under each of some commands, and judges.

    Returns None if the script needs a package that is not installed.
    """
    os.environ["COLUMNS"] = "80"
    ran = {
        (variant, how): _run(command, script, arguments)
        for variant, arguments in VARIANTS.items()
        for how, command in ways.items()
    }
    if "ModuleNotFoundError: " in ran["fixed", "watched"]["error"]:
        return None
    doc = ast.get_docstring(ast.parse(script.read_text())) or ""
    codes, names = FINDING.search(doc), NAMES.search(doc)
    expected = codes.group(1).split(", ") if codes else []
    panels = {variant: _of_panel(ran[variant, "watched"]["error"]) for variant in VARIANTS}
    seconds = {f"{variant} {how}": _seconds(result) for (variant, how), result in ran.items()}
    promised_s = panels["with"]["promised_s"]
    rounds = [seconds]
    while _is_kept(promised_s, seconds) is False and len(rounds) < MOST_ROUNDS:
        rounds.append({name: _seconds(_again(name, script)) for name in seconds})
        measured_s = {name: [round_[name] for round_ in rounds if round_[name]] for name in seconds}
        seconds = {name: fmean(times_s) for name, times_s in measured_s.items() if times_s}
    is_named = panels["with"]["code"] in expected
    missing = [
        pattern
        for pattern in (names.group(1).split("; ") if names else ())
        if not re.search(pattern, panels["with"]["words"])
    ]
    return {
        "expected": expected,
        "found": panels["with"]["code"],
        "found_in_fixed": panels["fixed"]["code"],
        "is_named": is_named,
        # Without codes, a reader rates.
        "rating": None
        if not expected
        else "wrong"
        if not is_named
        else "vague"
        if missing
        else "right",
        "missing_words": missing,
        "is_silent": panels["fixed"]["code"] is None,
        "is_unchanged": None
        if "plain" not in ways
        else all(
            ran[variant, "plain"][key] == ran[variant, "watched"][key]
            for variant in VARIANTS
            for key in ("exit_code", "output")
        ),
        "fit_s": seconds,
        "rounds": len(rounds),
        "promised_s": promised_s,
        "is_kept": _is_kept(promised_s, seconds),
        "lines": max(panels[variant]["lines"] for variant in VARIANTS),
        "panels": {variant: panels[variant]["panel"] for variant in VARIANTS},
    }


def _run(command: tuple[str, ...], script: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    os.environ["FIXED"] = str(len(arguments))  # the unseen scripts read this instead of an argument
    with tempfile.TemporaryDirectory() as folder:
        return run(command, script, Path(folder), arguments)


def _again(name: str, script: Path) -> dict[str, Any]:
    variant, how = name.split()
    return _run(PYTHON if how == "plain" else RUN, script, VARIANTS[variant])


def _of_panel(error: str) -> dict[str, Any]:
    """Returns what standard error tells: its panel, and the verdict's code and saving."""
    began, ended = error.find("╭"), error.rfind("╯")
    panel = error[began : ended + 1].splitlines()
    text = " ".join(line.strip("│ ") for line in panel)
    verdict = re.split(r" (?:Why|Next|Also:) ", text)[0]
    code, saves = CODE.search(verdict), SAVES.search(text)
    return {
        "panel": panel,
        "lines": len(panel),
        "code": code.group(1) if code else None,
        "words": text.split(" Also: ")[0],
        "promised_s": _range(*saves.groups()) if saves else None,
    }


def _range(words: str, unit: str) -> list[float | None]:
    """Returns the ends of a saving; "about" stands for two ends up to a quarter apart."""
    amounts = [float(n.replace(",", "")) * UNITS_S[own or unit] for n, own in AMOUNT.findall(words)]
    if words.startswith("up to"):
        return [0.0, amounts[0]]
    if words.startswith("about"):
        return [amounts[0] / 1.125, amounts[0] * 1.25 / 1.125]
    return [amounts[0], None if words.startswith("at least") else amounts[-1]]


def _seconds(ran: dict[str, Any]) -> float | None:
    found = FIT_S.search(ran["error"])
    return float(found.group(1)) if found else None


def _is_kept(promised_s: list[float | None] | None, seconds: dict[str, Any]) -> bool | None:
    """Whether the time that was really saved is in the promised range; None if unknown."""
    if promised_s is None or None in seconds.values():
        return None
    cause, fixed = (
        [time for name, time in seconds.items() if name.startswith(variant)] for variant in VARIANTS
    )
    saved_s = fmean(cause) - fmean(fixed)
    slack_s = TOLERANCE * cause[0] + max(cause) - min(cause) + max(fixed) - min(fixed)
    low_s, high_s = promised_s
    return low_s - slack_s <= saved_s and (high_s is None or saved_s <= high_s + slack_s)


def _fill_a_core() -> None:
    while True:
        pass


def main() -> int:
    """Runs all situations."""
    parser = argument_parser(__doc__)
    parser.add_argument("--only", help="situations whose name has this in it; adds to the file's")
    parser.add_argument("--folder", type=Path, default=SITUATIONS, help="where the scripts are")
    parser.add_argument("--busy", action="store_true", help="fill one core meanwhile")
    parser.add_argument("--watched", action="store_true", help="only under keras-gpukit run")
    options = parser.parse_args()
    ways = {"watched": RUN} if options.watched else {"plain": PYTHON, "watched": RUN}
    if options.busy:
        Process(target=_fill_a_core, daemon=True).start()
    rows: dict[str, Any] = saved_rows(options.json, "situations") if options.only else {}
    for script in sorted(options.folder.resolve().glob("*.py")):
        if options.only is None or options.only in script.stem:
            row = measured(script, ways)
            if row is None:
                print(f"{script.stem}: left out, a package is missing", file=sys.stderr)
                continue
            rows[script.stem] = row
            print("\n".join((script.stem, *row["panels"]["with"])), file=sys.stderr)
    promises = [row["is_kept"] for row in rows.values() if row["is_kept"] is not None]
    shares = {
        "named": sum(row["is_named"] for row in rows.values()) / len(rows),
        "kept": sum(promises) / len(promises) if promises else 1.0,
    }
    counts = Counter(row.get("rating") for row in rows.values())
    always = ("is_silent", "is_unchanged")
    good = all(share >= BAR for share in shares.values())
    good = good and all(row[key] is not False for row in rows.values() for key in always)
    good = good and all(row["lines"] <= MOST_LINES for row in rows.values())
    print_table(
        "everyday scripts",
        ("script", "found", "without the cause", "rating", "kept", "unchanged", "lines"),
        [
            (
                name,
                *(str(row.get(key)) for key in ("found", "found_in_fixed", "rating", "is_kept")),
                *(str(row[key]) for key in ("is_unchanged", "lines")),
            )
            for name, row in rows.items()
        ],
        f"Named {shares['named']:.0%}, kept {shares['kept']:.0%} (bar {BAR:.0%}).",
        f"First line: {counts['right']} right, {counts['vague']} vague, {counts['wrong']} wrong.",
    )
    save(options.json, __file__, **shares, busy=options.busy, ratings=counts, situations=rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
