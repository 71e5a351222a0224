"""The input stall that `InputStall` reports, against the time in which the GPU really idled."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Claim, Measured, Outcome, Part

CASES = (
    *(("serial", percent) for percent in (0, 25, 50, 90)),
    *((name, 50) for name in ("prefetched", "bursty", "parallel", "interleaved")),
    *((name, 50) for name in ("generator", "pydataset", "decode", "copy")),
)
"""Pipelines, and how much of a step each is to stall, in percent."""
FEW = (("serial", 0), ("serial", 50), ("prefetched", 50), ("generator", 50))
SMALL = {1: (("decode", 50), ("copy", 50)), 8: (("serial", 50),)}
WAYS = {"1 step": (1, False), "8 steps": (8, False)}
JIT_WAYS = {"1 step, jit": (1, True), "8 steps, jit": (8, True)}
STEP_S = 0.01
STEPS = {1: 60, 8: 96}
"""Steps of a fit by steps per execution: one to two seconds."""
TINY_OPERATIONS = 500

POINTS = {1: 3.0, 8: 5.0}
"""By how many percentage points a stall may be wrong, by steps per execution."""
READY_POINTS = 1.0
IDLE_ENOUGH = 0.3
"""Share of the time in which a GPU idles that waits for launches."""
LAUNCH_FINDINGS = {"launch-bound", "tiny-steps"}


class Way:
    """Fits of one model, compiled in one way.

    Args:
        busy: Returns the layer that takes a step's time.
        steps_per_execution: Steps that Keras starts together.
        jit: Whether XLA compiles the step.
        small: Whether fits are short.
    """

    def __init__(
        self, busy: Callable[[], Any], steps_per_execution: int, *, jit: bool, small: bool
    ) -> None:
        self._busy = busy
        self._options = {"steps_per_execution": steps_per_execution, "jit_compile": jit}
        self._each = steps_per_execution
        self._steps = 4 * steps_per_execution if small else STEPS[steps_per_execution]
        self._model: Any = None

    def ready(self) -> dict[str, Any]:
        """Fits batches that are ready: how long the GPU idles though nothing is waited for."""
        from benchmarks.gpu.work import compiled
        from benchmarks.planted.known_times import FEATURES, READY

        self._model = compiled(self._busy(), FEATURES, **self._options)
        self._model.fit(READY.make(2 * self._each, 0.0), verbose=0)  # traces
        row = self._fit(self._model, READY.make(self._steps, 0.0))
        self._step_s = row["step_ms"] / 1e3
        return row

    def stalled(self, pipeline: str, percent: int, *, to_device: bool = False) -> dict[str, Any]:
        """Fits batches that take so long that a given part of each step is stalled."""
        import tensorflow as tf

        from benchmarks.gpu.producers import make

        batch_s = self._step_s / (1 - percent / 100) if percent else self._step_s / 2
        data = make(pipeline, self._steps, batch_s)
        if to_device:
            device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"
            data = data.apply(tf.data.experimental.prefetch_to_device(device))
        return self._fit(self._model, data)

    def transferred(self, features: int) -> dict[str, Any]:
        """Fits large batches that are ready on the host, and take long to reach the GPU."""
        from benchmarks.gpu.producers import transferred
        from benchmarks.gpu.work import compiled

        model = compiled(self._busy(), features, **self._options)
        model.fit(transferred(2 * self._each, features), verbose=0)
        return self._fit(model, transferred(self._steps, features))

    def _fit(self, model: Any, data: Any) -> dict[str, Any]:
        import keras_gpukit as gpukit
        from benchmarks.gpu.kernel_gaps import KernelGaps

        stall, gaps = gpukit.InputStall(None), KernelGaps()
        model.fit(data, verbose=0, callbacks=[stall, gaps])
        record = stall.summary
        return {
            "reported": record.stall_fraction,
            "confidence": record.confidence,
            "mechanism": record.mechanism,
            "unknown_because": record.unknown_because,
            "step_ms": 1e3 * gaps.execution_s / self._each,
            "idle_ms": 1e3 * gaps.idle_s / self._each if gaps.on_gpu else None,
            "idle_while_fetching": gaps.idle_while_fetching if gaps.on_gpu else None,
            "host_spans": gaps.stall(overlapping=self._each > 1),
        }


def measure(small: bool, folder: Path) -> Iterator[tuple[str, Any]]:
    """Fits the cases in each way of running, the most important ones first."""
    from benchmarks.gpu.work import MatrixProducts, products_of

    chain = products_of(STEP_S / 4 if small else STEP_S)

    def busy() -> Any:
        return MatrixProducts(chain.size, chain.count)

    for name, (each, jit) in (WAYS | (JIT_WAYS if not small else {})).items():
        way = Way(busy, each, jit=jit, small=small)
        yield f"{name}/ready", way.ready()
        for pipeline, percent in SMALL[each] if small else FEW if jit else CASES:
            yield f"{name}/{pipeline} {percent}", attempt(way.stalled, pipeline, percent)
        if not (small or jit):
            for percent in (0, 50):
                row = attempt(way.stalled, "serial", percent, to_device=True)
                yield f"{name}/serial {percent} to device", row
        if (each, jit) == (1, False):
            yield f"{name}/transferred", attempt(way.transferred, 2**10 if small else 2**20)
            yield "launches", attempt(launches, 40 if small else 400)


def attempt(function: Callable[..., dict[str, Any]], *arguments: Any, **named: Any) -> Any:
    """Returns the result; where it fails the reason, so that the other cases are measured."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:300]}"}


def launches(steps: int) -> dict[str, Any]:
    """Monitors a model whose operations take less time than their launch."""
    import keras_gpukit as gpukit
    from benchmarks.gpu.kernel_gaps import idle_between_kernels
    from benchmarks.gpu.work import TinyOperations, compiled
    from benchmarks.planted.known_times import FEATURES, READY
    from keras_gpukit.profiling import find_profiles, read_profile

    model = compiled(TinyOperations(TINY_OPERATIONS), FEATURES)
    with tempfile.TemporaryDirectory() as logs:
        monitor = gpukit.Monitor(logs, verbose=0)
        profiler = gpukit.Profiler(logs, at_steps=(steps // 2,))
        model.fit(READY.make(steps, 0.0), verbose=0, callbacks=[monitor, profiler])
        [path] = find_profiles(logs)
        idle, profile = idle_between_kernels(path), read_profile(path)
    summary = monitor.summary
    return {
        "findings": [finding.code for finding in summary.findings],
        "reported": summary.input_stall_fraction,
        "step_ms": 1e3 * summary.step_time_s,
        "idle": idle,
        "parts_ms": {part: 1e3 * part_s for part, part_s in profile.parts_s.items()},
    }


@dataclass(frozen=True)
class Case:
    """What was reported of a fit, and what the GPU did; all in percent of the step."""

    name: str
    each: int
    reported: float | None
    idle: float
    """Idle time above that of the same step with batches that are ready: the true stall."""
    fetching: float
    """Idle time while a batch was fetched, as a profile shows it."""


def cases_of(measured: Measured) -> list[Case]:
    """Returns the cases that show what the GPU did."""
    cases = []
    for name, row in measured.items():
        way, _, case = name.partition("/")
        ready_ms = measured.get(f"{way}/ready", {}).get("idle_ms")
        if case in ("", "ready", "transferred") or ready_ms is None or row.get("idle_ms") is None:
            continue
        reported = row["reported"]
        cases.append(
            Case(
                name=name,
                each=(WAYS | JIT_WAYS)[way][0],
                reported=None if reported is None else 100 * reported,
                idle=100 * (row["idle_ms"] - ready_ms) / row["step_ms"],
                fetching=100 * row["idle_while_fetching"],
            )
        )
    return cases


def judge(measured: Measured) -> dict[str, Outcome]:
    """Compares what was reported with what the GPU did."""
    cases = cases_of(measured)
    ready = {
        name: 100 * row["reported"]
        for name, row in measured.items()
        if name.endswith(("/ready", "/transferred")) and row.get("reported") is not None
    }
    readings = {case.name: abs(case.idle - case.fetching) for case in cases}
    outcomes = {
        "1 step per execution": stall_outcome(cases, 1),
        "8 steps per execution": stall_outcome(cases, 8),
        "ready batches": largest("reported", ready, READY_POINTS),
        "profile reading": largest("the two readings differ by", readings, POINTS[1]),
    }
    if "failed" not in (row := measured.get("launches", {"failed": ""})):
        outcomes["launch-bound"] = launch_outcome(row)
    return outcomes


def stall_outcome(cases: list[Case], each: int) -> Outcome:
    """Judges the reported stalls of one number of steps per execution."""
    those = [case for case in cases if case.each == each]
    known = {
        case.name: abs(case.reported - case.idle) for case in those if case.reported is not None
    }
    outcome = largest("off by", known, POINTS[each])
    if outcome.holds and len(known) < len(CASES):
        missing = f"{len(known)} of {len(CASES)} cases are known. {outcome.evidence}"
        return Outcome(False if len(those) >= len(CASES) else None, missing)
    return outcome


def largest(what: str, points: dict[str, float], limit: float) -> Outcome:
    """Judges whether the largest of some percentages is within a limit."""
    if not points:
        return Outcome(None, "No case was measured.")
    worst = max(points, key=lambda name: points[name])
    evidence = f"Of {len(points)} cases, {what} at most {points[worst]:.1f} points ({worst})."
    return Outcome(points[worst] <= limit, evidence)


def launch_outcome(row: Measured) -> Outcome:
    """Judges what `Monitor` and a capture say of a model that waits for launches."""
    if row["idle"] is None or row["idle"] < IDLE_ENOUGH:
        return Outcome(None, f"The GPU did not wait for launches: idle for {row['idle']}.")
    waits = {part: ms for part, ms in row["parts_ms"].items() if part != "device compute"}
    longest = max(waits, key=lambda part: waits[part])
    found = LAUNCH_FINDINGS & set(row["findings"])
    no_stall = "input-bound" not in row["findings"] and 100 * (row["reported"] or 0) <= READY_POINTS
    return Outcome(
        bool(found) and no_stall,
        f"The GPU idled {100 * row['idle']:.0f} % of the time; findings: "
        f"{', '.join(row['findings']) or 'none'}; reported stall: {row['reported']}; the longest "
        f"part of the captured step besides compute: {longest}.",
    )


PART = Part(
    name="stall",
    question="Is the reported input stall the time in which the GPU idles for want of a batch?",
    minutes=6,
    claims=(
        Claim(
            "1 step per execution",
            "On twelve input pipelines with known delays, `InputStall` reports the GPU's idle time "
            "to within 3 percentage points, with and without jit, with prefetching to the device.",
            "A case that is further off, or fewer than twelve cases with a figure.",
        ),
        Claim(
            "8 steps per execution",
            "The same, to within 5 percentage points, with 8 steps per execution.",
            "A case that is further off, or fewer than twelve cases with a figure.",
        ),
        Claim(
            "ready batches",
            "If batches are ready, at most 1 percentage point is reported, also if each takes long "
            "to be copied to the GPU.",
            "More than 1 percentage point.",
        ),
        Claim(
            "profile reading",
            "In a profile, the time in which a batch is fetched and the GPU idles is the time that "
            "the GPU idles longer than with ready batches, to within 3 percentage points.",
            "A case in which the two differ by more.",
        ),
        Claim(
            "launch-bound",
            "For a model whose operations take less time than their launch, a finding says so, and "
            "no input stall is reported although the GPU idles.",
            "No such finding, a finding of an input bottleneck, or a stall above 1 percentage "
            "point.",
        ),
    ),
    measure=measure,
    judge=judge,
)
