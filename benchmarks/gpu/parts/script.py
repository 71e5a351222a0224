"""A training script under `keras-gpukit run`: is what it promises saved by making the change?"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu.findings import findings_of, in_percent, judge_promise, promised
from benchmarks.gpu.part import Cases, Claim, Outcome, Part, Slice
from benchmarks.gpu.results import ROOT

SCRIPT = ROOT / "benchmarks" / "gpu" / "image_training.py"
IMAGES, SIDE, EPOCHS = 1024, 224, 12
SMALL = 64, 32, 2
CODE = "input-bound"


def cases(small: bool, folder: Path) -> Cases:
    """Runs the script as written, then with the advice followed."""
    images = TemporaryDirectory()
    yield "as written", partial(run, images, small, ())
    yield "as advised", partial(run, images, small, ("fixed",))


def run(images: TemporaryDirectory[str], small: bool, more: tuple[str, ...]) -> dict[str, Any]:
    """Returns what the record of a run of the script says."""
    from keras_gpukit.saved_runs import load_report

    with TemporaryDirectory() as logs:
        sizes = [str(each) for each in (SMALL if small else (IMAGES, SIDE, EPOCHS))]
        command = [sys.executable, "-m", "keras_gpukit", "run", "--log-dir", logs, str(SCRIPT)]
        ended = subprocess.run(
            [*command, images.name, *sizes, *more], capture_output=True, text=True, cwd=ROOT
        )
        if ended.returncode:
            return {"error": ended.stderr[-1000:]}
        [found] = load_report(logs).runs
    summary = found.summary
    return {
        "wall_s": summary.throughput.wall_s,
        "step_ms": 1e3 * summary.step_time_s,
        "reported": summary.input_stall_fraction,
        "findings": findings_of(summary),
        "parts_s": summary.breakdown and summary.breakdown.parts,
        "callbacks_s": summary.breakdown and summary.breakdown.by_callback,
        "overhead_us": 1e6 * (summary.overhead_s or 0.0),
        "said": ended.stderr[-4000:],
    }


def judge_first(row: dict[str, Any]) -> Outcome:
    codes = [finding["code"] for finding in row["findings"]]
    return Outcome(
        codes[:1] == [CODE],
        f"Findings: {', '.join(codes) or 'none'}; input stall {in_percent(row['reported'])}.",
    )


def judge_saving(written: dict[str, Any], advised: dict[str, Any]) -> Outcome:
    saved_s = written["wall_s"] - advised["wall_s"]
    evidence = (
        f"A step took {written['step_ms']:.1f} ms as written and {advised['step_ms']:.1f} ms as "
        f"advised; the change saved {saved_s:.1f} s."
    )
    return judge_promise(promised(written["findings"], CODE), saved_s, evidence)


PART = Part(
    "script",
    "Is what `keras-gpukit run` promises for a training script saved by the change?",
    {"all": Slice(cases, 75)},
    (
        Claim(
            "first",
            f"for a script that decodes image files one by one, the first finding is `{CODE}`",
            judge_first,
            ("as written",),
        ),
        Claim(
            "promise",
            "decoding in parallel and prefetching saves what the finding promises, within 3 % of "
            "the run",
            judge_saving,
            ("as written", "as advised"),
        ),
    ),
)
