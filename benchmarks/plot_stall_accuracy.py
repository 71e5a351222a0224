"""Draws what `stall_accuracy.py` measured, for the documentation.

pip install matplotlib  # not among `dev`: where it is installed, Keras imports it at its start
python benchmarks/plot_stall_accuracy.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
# Read on white and on black alike.
INK, GRID = "#808890", "#80889040"
COLOURS = {"spe1": "#2f81f7", "spe8": "#d97706"}
LABELS = {"spe1": "1 step an execution", "spe8": "8 steps an execution"}
TRUTHS = {"profile": "in the profile", "constructed": "from construction"}
LIMITS = {"spe1": 2, "spe8": 5}
STYLE = {
    "axes.facecolor": "none",
    "svg.hashsalt": "keras-gpukit",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def points(rows: list[dict], kind: str, truth: str) -> tuple[list[float], list[float]]:
    """What is known and what is reported, in percent."""
    known = [
        row
        for row in rows
        if f"/{kind}/" in row["name"] and None not in (row.get("reported"), row.get(truth))
    ]
    return [100 * row[truth] for row in known], [100 * row["reported"] for row in known]


def draw(rows: list[dict]) -> plt.Figure:
    """Reported against profiled, and by how much it differs from either thing known."""
    figure, (both, *differences) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    both.plot([0, 100], [0, 100], color=INK, linewidth=0.8)
    for kind, colour in COLOURS.items():
        look = {"s": 22, "color": colour, "alpha": 0.75, "linewidths": 0}
        profiled, reported = points(rows, kind, "profile")
        both.scatter(profiled, reported, label=f"{LABELS[kind]} ({len(profiled)})", **look)
        for axes, truth in zip(differences, TRUTHS, strict=True):
            known, reported = points(rows, kind, truth)
            axes.scatter(known, [a - b for a, b in zip(reported, known, strict=True)], **look)
            for limit in (LIMITS[kind], -LIMITS[kind]):
                axes.axhline(limit, color=colour, linewidth=0.8, linestyle="--")
            axes.set(xlabel=f"stall {TRUTHS[truth]}, %")
    both.set(xlabel="stall in the profile, %", ylabel="stall reported, %")
    both.set_aspect("equal")
    both.legend(loc="upper left")
    differences[1].sharey(differences[0])
    differences[0].set(ylabel="reported too much, points")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws how exact the input stall is.")
    parser.add_argument("--json", type=Path, default=HERE / "results" / "stall_accuracy.json")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "images")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure = draw(json.loads(arguments.json.read_text())["rows"])
        figure.savefig(
            arguments.out / "stall_accuracy.svg", transparent=True, metadata={"Date": None}
        )


if __name__ == "__main__":
    main()
