"""Comparison of two runs: what became slower or faster, and what else differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_gpukit.records.pipeline import StageRecord

MOST_COMPARED = 20
"""Number of newest runs under a folder of which each pair can be compared."""

Mark = Literal["better", "worse", "no difference", "not distinguishable"]
CauseKind = Literal[
    "part",
    "written stage",
    "stage",
    "stage time",
    "setting",
    "callback",
    "layer",
    "placement",
    "page faults",
    "other processes",
]
FigureUnit = Literal["s", "/s", "B", "share", "count"]


@dataclass(frozen=True)
class FigureChange:
    """One figure of both runs. Unknown values are None.

    Attributes:
        a: Value of the whole first run, as in its report, in the unit: seconds, bytes, a share from
            0 to 1.
        change: Relative change, 0.1 for 10 % more; of a share, the difference of the two shares. If
            it is from windows, it leaves out the first fifth of each run.
        low: Lower end of the 95 % interval of the change; None if it is unknown.
        high: Upper end of it.
        has_windows: Whether the interval is from the runs' own windows. Otherwise the figure was
            read once a run, and the interval is a fixed allowance.
        wait_is_bound: Whether there is no interval since the windows of a run show its wait only as
            an upper bound.
        mark: "better" or "worse" if the whole interval is on one side of 0; "not distinguishable"
            if it is not, and so wide that it says little; None if it is unknown, or more of the
            figure is neither.
    """

    name: str
    unit: FigureUnit
    a: float | None
    b: float | None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    has_windows: bool = False
    wait_is_bound: bool = False
    mark: Mark | None = None

    @property
    def is_real(self) -> bool:
        """Whether the whole interval is on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class SettingPair:
    """A setting that differs; None where it was not recorded."""

    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class TimePair:
    """A time in both runs, in seconds; None where it was not measured."""

    name: str
    a_s: float | None
    b_s: float | None

    @property
    def difference_s(self) -> float:
        """Seconds by which it is longer in the second run; an unknown time counts as 0."""
        return (self.b_s or 0.0) - (self.a_s or 0.0)


@dataclass(frozen=True)
class StagePair:
    """A stage of both input pipelines; None in the run that does not have it.

    Attributes:
        is_bottleneck: Whether it is the bottleneck in the first run, and in the second.
    """

    a: StageRecord | None
    b: StageRecord | None
    is_bottleneck: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class ChangeCause:
    """A difference that goes with the change of the step time.

    Attributes:
        kind: Kind of the difference. "part": a part of the step time; "stage time" and "stage":
            time per batch and parallelism of a stage; "written stage": one that only one of the
            scripts has, or each at another place; "callback": seconds per step; "layer": seconds
            per step in a profile; "placement": operations on a device; "page faults": seconds
            of the kernel per step; "other processes": share of the cores that they used.
        name: Name of the differing part, a stage with its place, a setting, a layer, a device.
        share: Share of the change of the step time, for parts.
    """

    kind: CauseKind
    name: str
    a: float | str | None
    b: float | str | None
    share: float | None = None


@dataclass(frozen=True)
class FailCondition:
    """A condition under which a comparison fails, and whether it is met.

    Attributes:
        change: Allowed change: 0.1 for 10 % more, -0.1 for 10 % less.
        is_met: Whether the change is larger and its whole interval is on the same side of 0; None
            if the figure is unknown.
        is_inconclusive: Whether it is not met, and the interval has both 0 and the allowed change
            in it: the change may be larger.
    """

    expression: str
    figure: str
    change: float
    is_met: bool | None = None
    is_inconclusive: bool = False


@dataclass(frozen=True)
class RunComparison:
    """Two runs compared.

    Attributes:
        headline: Name of the figure that says which run is faster: "script_time" if that of the
            whole script changed and a step's did not, else "examples_per_s" if the batch size
            differs, else "step_time".
        layers: Times by layer in a step, the largest difference first; empty unless both runs have
            a profile with layers.
        operations: Number of operations of a step by device, where it differs.
        causes: Differences that go with the change, the most likely first; empty without a change.
        found: Titles of findings of the second run that the first has not.
        gone: Titles of findings of the first run that the second has not.
        runs: Number of repeated runs on each side.
        schema: Version of this layout. It increases when a field changes its meaning or is removed.
    """

    a: str
    b: str
    headline: str
    figures: tuple[FigureChange, ...]
    parts: tuple[TimePair, ...] = ()
    run_parts: tuple[TimePair, ...] = ()
    settings: tuple[SettingPair, ...] = ()
    equal_settings: int = 0
    stages: tuple[StagePair, ...] = ()
    layers: tuple[TimePair, ...] = ()
    operations: tuple[SettingPair, ...] = ()
    causes: tuple[ChangeCause, ...] = ()
    found: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    conditions: tuple[FailCondition, ...] = ()
    runs: tuple[int, int] = (1, 1)
    schema: int = 1

    @property
    def is_repeated(self) -> bool:
        """Whether a side has several runs."""
        return max(self.runs) > 1

    def figure(self, name: str) -> FigureChange:
        """Returns a figure by its name."""
        return next(figure for figure in self.figures if figure.name == name)
