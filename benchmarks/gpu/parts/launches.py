"""A model whose operations take less time than their launch: the finding, and its promise."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.findings import findings_of, in_percent, judge_promise, promised
from benchmarks.gpu.part import Cases, Claim, Outcome, Part, Slice

OPERATIONS = 500
STEPS = 6000
"""Half a minute, so that `Monitor` captures a profile by itself."""
CURED_STEPS = 1200
CURES: dict[str, dict[str, Any]] = {
    "jit": {"jit_compile": True},
    "8 steps": {"steps_per_execution": 8},
}
IDLE_ENOUGH = 0.3
"""Share of the time in which a GPU idles that waits for launches."""
CODE = "launch-bound"


def cases(small: bool, folder: Path) -> Cases:
    """Monitors the model as it is, then with each fix."""
    yield "plain", partial(monitor, 40 if small else STEPS, {})
    yield "idle", partial(idle, 40 if small else 400)
    for name, options in CURES.items():
        yield name, partial(monitor, 40 if small else CURED_STEPS, options)


def tiny(options: dict[str, Any]) -> Any:
    from benchmarks.gpu.work import TinyOperations, compiled
    from benchmarks.planted.known_times import FEATURES

    return compiled(TinyOperations(OPERATIONS), FEATURES, **options)


def monitor(steps: int, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the findings and the step time of a monitored fit."""
    import keras_gpukit as gpukit
    from benchmarks.planted.known_times import READY

    with tempfile.TemporaryDirectory() as logs:
        watching = gpukit.Monitor(logs, verbose=0)
        tiny(options).fit(READY.make(steps, 0.0), verbose=0, callbacks=[watching])
    summary = watching.summary
    return {
        "steps": steps,
        "step_ms": 1e3 * summary.step_time_s,
        "reported": summary.input_stall_fraction,
        "findings": findings_of(summary),
        "captures": len(summary.captures.captures),
    }


def idle(steps: int) -> dict[str, Any]:
    """Returns how long the GPU idles in a captured part of a fit."""
    import keras_gpukit as gpukit
    from benchmarks.gpu.kernel_gaps import idle_between_kernels
    from benchmarks.planted.known_times import READY
    from keras_gpukit.profiling import find_profiles, read_profile

    with tempfile.TemporaryDirectory() as logs:
        profiler = gpukit.Profiler(logs, at_steps=(steps // 2,))
        tiny({}).fit(READY.make(steps, 0.0), verbose=0, callbacks=[profiler])
        [path] = find_profiles(logs)
        parts_s = read_profile(path).parts_s
        return {
            "idle": idle_between_kernels(path),
            "parts_ms": {part: 1e3 * part_s for part, part_s in parts_s.items()},
        }


def judge_named(plain: dict[str, Any], idle: dict[str, Any]) -> Outcome:
    if idle["idle"] is None or idle["idle"] < IDLE_ENOUGH:
        return Outcome(
            None, f"The GPU did not wait for launches: it idled {in_percent(idle['idle'])}."
        )
    codes = [finding["code"] for finding in plain["findings"]]
    no_stall = "input-bound" not in codes and (plain["reported"] or 0) <= 0.01
    return Outcome(
        CODE in codes and no_stall,
        f"The GPU idled {100 * idle['idle']:.0f} % of the time; findings: "
        f"{', '.join(codes) or 'none'}; reported stall: {in_percent(plain['reported'])}.",
    )


def judge_saving(plain: dict[str, Any], *cured: dict[str, Any]) -> Outcome:
    steps_ms = {name: row["step_ms"] for name, row in zip(CURES, cured, strict=True)}
    best = min(steps_ms, key=lambda name: steps_ms[name])
    saved_s = 1e-3 * plain["steps"] * (plain["step_ms"] - steps_ms[best])
    took = ", ".join(f"{ms:.2f} ms with {name}" for name, ms in steps_ms.items())
    evidence = f"A step takes {plain['step_ms']:.2f} ms, {took}; the best saves {saved_s:.1f} s."
    return judge_promise(promised(plain["findings"], CODE), saved_s, evidence)


PART = Part(
    "launches",
    "Is a model that waits for kernel launches recognized, and is its promise kept?",
    {"all": Slice(cases, 120)},  # XLA compiles the model for over half a minute
    (
        Claim(
            "named",
            f"for a model of {OPERATIONS} operations that take less time than their launch, "
            f"`{CODE}` is found, and no input stall is reported although the GPU idles",
            judge_named,
            ("plain", "idle"),
        ),
        Claim(
            "promise",
            "the better one of jit and 8 steps per execution saves what the finding promises, "
            "within 3 % of the run",
            judge_saving,
            ("plain", *CURES),
            (
                "all:29a3492594e7",
                "the kernels that XLA fuses and the time between launches count too. From these "
                "figures, 8.2 s to 29.5 s are promised today "
                "(`tests/rules/compute/test_planted_causes.py`).",
            ),
        ),
    ),
)
