"""Writes what is known of real GPUs into the documentation.

    python -m benchmarks.gpu.page

Makes docs/gpu-evidence.md from the results, and the boxes in README.md and docs/index.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.gpu.own_process import ROOT
from benchmarks.gpu.part import ORDER, Part, load_part
from benchmarks.gpu.results import FOLDER, Result, load, outcomes

PAGE = "docs/gpu-evidence.md"
LINKS = {"README.md": "docs/gpu-evidence.md", "docs/index.md": "gpu-evidence.md"}
MARKERS = re.compile("(<!-- GPU evidence -->\n).*?(<!-- /GPU evidence -->)", re.DOTALL)
VERDICTS = {True: "holds", False: "**falsified**", None: "unproven"}

INTRODUCTION = """\
<!-- Made by `python -m benchmarks.gpu.page`; do not edit. -->
# Evidence from real GPUs

Which of the claims about GPUs were checked on a GPU, and which are still unproven. Every other test
of this project runs on CPUs. Anyone with an NVIDIA GPU can run the checks, in less than twenty
minutes and without network access:

```
python -m benchmarks.gpu --out benchmarks/results/gpu --minutes 18
python -m benchmarks.gpu.page
```

The first command runs the parts below in this order, each in its own process with a time limit, and
writes one JSON file per part. Started again, it continues with the parts that are missing. The
second command makes this page from these files. On a CPU the parts run as well, to test
themselves, but prove nothing.
"""


def page(folder: Path) -> str:
    """Returns the page in Markdown.

    Args:
        folder: Where the results are.
    """
    judged = {name: (load_part(name), load(folder, name)) for name in ORDER}
    sections = [_section(part, result) for part, result in judged.values()]
    return "\n".join([INTRODUCTION, f"{_summary(folder)}\n", *sections])


def box(folder: Path, link: str) -> str:
    """Returns what README and first page say.

    Args:
        folder: Where the results are.
        link: The page, as seen from there.
    """
    return f"> **On real GPUs:** {_summary(folder)} See [the evidence]({link}).\n"


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


def _summary(folder: Path) -> str:
    parts = [(load_part(name), load(folder, name)) for name in ORDER]
    verdicts = [each.holds for part in parts for each in outcomes(*part).values()]
    if not any(verdict is not None for verdict in verdicts):
        return (
            f"Nothing has run on a GPU yet; all {len(verdicts)} claims about GPUs are unproven, "
            "and were only tested on CPUs."
        )
    gpus = sorted({gpu["name"] for _, result in parts for gpu in _gpus(result)})
    run = [part.name for part, result in parts if _gpus(result)]
    missing = [name for name in ORDER if name not in run]
    counts = (verdicts.count(True), verdicts.count(False), verdicts.count(None))
    return (
        "On {}, {} claims hold, {} are falsified and {} are unproven. ".format(
            ", ".join(gpus), *counts
        )
        + f"Run on a GPU: {', '.join(run)}; not yet: {', '.join(missing) or 'nothing'}."
    )


def _gpus(result: Result | None) -> list[dict[str, str]]:
    if result is None or result["device"]["kind"] != "gpu":
        return []
    return list(result["device"]["gpus"])


def _section(part: Part, result: Result | None) -> str:
    judged = outcomes(part, result)
    rows = [
        f"| {_cell(claim.expected)} | {_cell(claim.falsified_by)} "
        f"| {VERDICTS[judged[claim.name].holds]}: {_cell(judged[claim.name].evidence)} |"
        for claim in part.claims
    ]
    return "\n".join(
        [
            f"## {part.name.capitalize()}",
            "",
            f"{part.question} {_circumstances(result)}",
            "",
            "| expected | falsified by | verdict |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _circumstances(result: Result | None) -> str:
    if not _gpus(result):
        return "Not run on a GPU yet."
    assert result is not None
    device = result["device"]
    return (
        f"Run on {result['date'][:10]} on {', '.join(gpu['name'] for gpu in device['gpus'])}, "
        f"driver {device['driver']}, CUDA {device['cuda']}, "
        f"TensorFlow {device['versions']['tensorflow']}, "
        f"Keras {device['versions']['keras']}; {result['status']} "
        f"after {result.get('took_s', 0):.0f} s (code {result['code']})."
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> None:
    for path, text in documents().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
