"""Writes what is known of real GPUs into the documentation.

    python -m benchmarks.gpu.page

Makes docs/gpu-evidence.md from the results, and the boxes in README.md and docs/index.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Outcome, Part, load_part, part_names
from benchmarks.gpu.results import (
    FOLDER,
    NOT_RUN,
    ROOT,
    Result,
    counts,
    load_all,
    outcomes,
)

PAGE = "docs/gpu-evidence.md"
LINKS = {"README.md": "docs/gpu-evidence.md", "docs/index.md": "gpu-evidence.md"}
MARKERS = re.compile("(<!-- GPU evidence -->\n).*?(<!-- /GPU evidence -->)", re.DOTALL)
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

Anyone with an NVIDIA GPU can run the checks, in about eleven minutes on a large card and without
network access:

```
python -m benchmarks.gpu --out benchmarks/results/gpu --minutes 11
python -m benchmarks.gpu.page
```

The first command runs the parts below in slices, each in its own process with a time limit, and
writes one JSON file per slice. `python -m benchmarks.gpu stall:8-steps memory` runs one slice and
one part. Started again, it continues with the cases that are missing. The second command makes this
page from these files. On a CPU the parts run as well, to test themselves, but prove nothing.
"""


def page(folder: Path) -> str:
    """Returns the page in Markdown, from the results in a folder."""
    parts = [load_part(name) for name in part_names()]
    sections = [_section(part, load_all(folder, part)) for part in parts]
    rows = [_count(part, load_all(folder, part)) for part in parts if part.claims]
    table = ["| question | held | wrong | open |", "|---|---|---|---|", *rows, ""]
    return "\n".join([INTRODUCTION, f"{_summary(folder)}\n", *table, APPENDIX, *sections])


def box(folder: Path, link: str) -> str:
    """Returns the sentence of README and first page, with a link to the page as seen from there."""
    judged = _judged(folder).values()
    seen = [
        each.headline
        for _, outcomes in judged
        for each in outcomes
        if each.headline and each.holds is not False
    ]
    if not seen:
        return f"{_summary(folder)} See [the evidence]({link}).\n"
    devices = sorted({_name(one["device"]) for results, _ in judged for one in results})
    return (
        f"On an {' and an '.join(devices)}, {', and '.join(seen)}. "
        f"[What held there, and what did not]({link}).\n"
    )


def with_box(text: str, new: str) -> str:
    """Returns a text with the content between its markers replaced.

    Raises:
        ValueError: If it has no markers.
    """
    replaced, count = MARKERS.subn(lambda markers: markers[1] + new + markers[2], text)
    if count != 1:
        raise ValueError(f"The text must have one pair of markers. Received: {count} pairs")
    return replaced


def documents(root: Path = ROOT, folder: Path = FOLDER) -> dict[Path, str]:
    """Returns each file that this module writes, with its content."""
    texts = {root / PAGE: page(folder)}
    for name, link in LINKS.items():
        texts[root / name] = with_box((root / name).read_text(), box(folder, link))
    return texts


def _judged(folder: Path) -> dict[str, tuple[list[Result], list[Outcome]]]:
    found = {}
    for name in part_names():
        part = load_part(name)
        results = load_all(folder, part)
        found[name] = list(filter(counts, results)), list(outcomes(part, results).values())
    return found


def _summary(folder: Path) -> str:
    judged = _judged(folder)
    verdicts = [outcome.holds for _, outcomes in judged.values() for outcome in outcomes]
    corrected = sum(bool(one.corrected) for _, outcomes in judged.values() for one in outcomes)
    count = "all" if corrected == verdicts.count(False) else ""
    fixed = f"{count} {corrected} {'is' if corrected == 1 else 'are'}".strip()
    since = f" ({fixed} fixed, but not yet run again on a GPU)" if corrected else ""
    devices = sorted({_name(one["device"]) for results, _ in judged.values() for one in results})
    if not devices:
        return (
            f"Nothing has run on a GPU yet. All {len(verdicts)} claims about GPUs are open; "
            "their checks were only tried on a CPU."
        )
    missing = ", ".join(name for name, (results, _) in judged.items() if not results) or "nothing"
    return (
        f"Of {len(verdicts)} claims about GPUs, {verdicts.count(True)} held on "
        f"{' and '.join(devices)}, {verdicts.count(False)} were wrong{since}, and "
        f"{verdicts.count(None)} are open. Not run there: {missing}."
    )


def _name(device: dict[str, Any]) -> str:
    return ", ".join(gpu["name"] for gpu in device["gpus"]) or "a GPU that NVML does not show"


def _count(part: Part, results: list[Result]) -> str:
    judged = [outcome.holds for outcome in outcomes(part, results).values()]
    held, wrong, open_ = (judged.count(each) for each in (True, False, None))
    return f"| [{_cell(part.question)}](#{part.name}) | {held} | {wrong} | {open_} |"


def _section(part: Part, results: list[Result]) -> str:
    judged = outcomes(part, results)
    rows = [f"| {_cell(each.expected)} | {_verdict(judged[each.name])} |" for each in part.claims]
    table = ["| expected | verdict |", "|---|---|", *rows] if rows else [FIGURES_ALONE]
    return "\n".join(
        [
            f"## {part.name.capitalize().replace('-', ' ')}",
            "",
            f"{part.question} {_circumstances(results)}",
            "",
            *table,
            "",
        ]
    )


def _verdict(outcome: Outcome) -> str:
    if outcome.holds is None and outcome.evidence in NOT_RUN:
        return VERDICTS[None]  # the section says why
    since = f" **Corrected since**: {outcome.corrected}" if outcome.corrected else ""
    return f"{VERDICTS[outcome.holds]}: {_cell(outcome.evidence)}{since}"


def _circumstances(results: list[Result]) -> str:
    runs: dict[str, list[str]] = {}
    for result in filter(counts, results):
        device, complete = result["device"], result["status"] == "complete"
        run = (
            f"{result['date'][:10]} on {_name(device)}, driver {device['driver']}, "
            f"TensorFlow {device['versions']['tensorflow']} for CUDA {device['cuda']}, "
            f"Keras {device['versions']['keras']} (code {result['code']})"
        )
        runs.setdefault(run, []).append(f"{result['slice']}{'' if complete else ' (incomplete)'}")
    runs_made = "; ".join(f"{', '.join(slices)} on {run}" for run, slices in runs.items())
    return f"Run: {runs_made}." if runs_made else "Not run on a GPU yet."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> None:
    for path, text in documents().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
