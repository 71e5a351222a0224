"""Writes what is known of real GPUs into the documentation.

    python -m benchmarks.gpu.page

Makes docs/gpu-evidence.md from the results.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Outcome, load_part, part_names
from benchmarks.gpu.results import FOLDER, NOT_RUN, ROOT, Result, counts, load_all, outcomes

PAGE = ROOT / "docs" / "gpu-evidence.md"
FIGURES_ALONE = "Claims nothing: its figures are in `benchmarks/results/gpu`."
VERDICTS = {True: "holds", False: "**false**", None: "open"}

INTRODUCTION = """\
<!-- Made by `python -m benchmarks.gpu.page`; do not edit. -->
# Evidence from real GPUs

Which of the claims about GPUs hold on a real GPU, which are false, and which are open because
nothing has measured them. Every other test of this project runs on CPUs.
"""
APPENDIX = """\
A verdict is about the code that ran. Where that has been corrected since, the row says so; the
claim stays false until it runs again. The rest of this page has each claim with its figures.

## Run it again

Anyone with an NVIDIA GPU can run the checks, without network access:

```
python -m benchmarks.gpu --out benchmarks/results/gpu --minutes 11
python -m benchmarks.gpu.page
```

The first command runs the parts below in slices, each in its own process with a time limit, and
writes one JSON file per slice. It starts with claims that are false or open, and ends when the
minutes are over; started again, it runs the slices that are not complete.
`python -m benchmarks.gpu stall:8-steps setup` runs one slice and one part. The second command
makes this page from these files. On a CPU the parts run as well, to test themselves, but prove
nothing. Where a row names a commit, its check is no longer kept, and is only there.
"""


@dataclass
class Section:
    """What the page says of a part: each claim with its outcome, and the runs that count."""

    name: str
    question: str
    rows: list[tuple[str, Outcome]]
    results: list[Result]


def sections(folder: Path) -> list[Section]:
    """Returns the parts, with the claims of checks that are no longer kept."""
    found = {}
    for part in map(load_part, part_names()):
        results = load_all(folder, part.name)
        judged = outcomes(part, results)
        rows = [(claim.expected, judged[claim.name]) for claim in part.claims]
        found[part.name] = Section(part.name, part.question, rows, [*filter(counts, results)])
    path = folder / "settled.json"
    settled = json.loads(path.read_text()) if path.exists() else {"parts": {}}
    for name, more in settled["parts"].items():
        if name not in found:
            results = [*filter(counts, load_all(folder, name))]
            found[name] = Section(name, more["question"], [], results)
        for expected, holds, evidence in more["claims"]:
            evidence = f"{evidence} Its check is at commit {settled['commit']}."
            found[name].rows.append((expected, Outcome(holds, evidence)))
    return list(found.values())


def page(folder: Path) -> str:
    """Returns the page in Markdown, from the results in a folder."""
    found = sections(folder)
    rows = [_count(section) for section in found if section.rows]
    table = ["| question | held | wrong | open |", "|---|---|---|---|", *rows, ""]
    return "\n".join(
        [INTRODUCTION, f"{_summary(found)}\n", *table, APPENDIX, *map(_section, found)]
    )


def _summary(found: list[Section]) -> str:
    judged = [outcome for section in found for _, outcome in section.rows]
    verdicts, devices = [outcome.holds for outcome in judged], _devices(found)
    if not devices:
        return (
            f"Nothing has run on a GPU yet. All {len(verdicts)} claims about GPUs are open; "
            "their checks were only tried on a CPU."
        )
    corrected = sum(bool(outcome.corrected) for outcome in judged)
    count = "all" if corrected == verdicts.count(False) else ""
    fixed = f"{count} {corrected} {'is' if corrected == 1 else 'are'}".strip()
    since = f" ({fixed} fixed, but not yet run again on a GPU)" if corrected else ""
    missing = [section.name for section in found if not section.results]
    return (
        f"Of {len(verdicts)} claims about GPUs, {verdicts.count(True)} held on "
        f"{' and '.join(devices)}, {verdicts.count(False)} were wrong{since}, and "
        f"{verdicts.count(None)} are open. Not run there: {', '.join(missing) or 'nothing'}."
    )


def _devices(found: list[Section]) -> list[str]:
    return sorted({_name(result["device"]) for section in found for result in section.results})


def _name(device: dict[str, Any]) -> str:
    return ", ".join(gpu["name"] for gpu in device["gpus"]) or "a GPU that NVML does not show"


def _count(section: Section) -> str:
    verdicts = [outcome.holds for _, outcome in section.rows]
    counted = " | ".join(str(verdicts.count(verdict)) for verdict in (True, False, None))
    return f"| [{_cell(section.question)}](#{section.name}) | {counted} |"


def _section(section: Section) -> str:
    rows = [f"| {_cell(expected)} | {_verdict(outcome)} |" for expected, outcome in section.rows]
    table = ["| expected | verdict |", "|---|---|", *rows] if rows else [FIGURES_ALONE]
    run = _circumstances(section.results)
    title = section.name.capitalize().replace("-", " ")
    return "\n".join([f"## {title}", "", f"{section.question} {run}", "", *table, ""])


def _verdict(outcome: Outcome) -> str:
    if outcome.holds is None and outcome.evidence in NOT_RUN:
        return VERDICTS[None]  # the section says why
    since = f" **Corrected since**: {outcome.corrected}" if outcome.corrected else ""
    return f"{VERDICTS[outcome.holds]}: {_cell(outcome.evidence)}{since}"


def _circumstances(results: list[Result]) -> str:
    runs: dict[str, list[str]] = {}
    for result in results:
        device, complete = result["device"], result["status"] == "complete"
        run = (
            f"{result['date'][:10]} on {_name(device)}, driver {device['driver']}, "
            f"TensorFlow {device['versions']['tensorflow']} for CUDA {device['cuda']}, "
            f"Keras {device['versions']['keras']} (code {result['code']})"
        )
        runs.setdefault(run, []).append(f"{result['slice']}{'' if complete else ' (incomplete)'}")
    made = "; ".join(f"{', '.join(slices)} on {run}" for run, slices in runs.items())
    return f"Run: {made}." if made else "Not run on a GPU yet."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    PAGE.write_text(page(FOLDER))
