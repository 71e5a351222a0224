"""Whether a GPU's time goes to many simple kernels that XLA would fuse into few."""

from __future__ import annotations

from collections import Counter

from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import (
    FUSED_KINDS,
    MANY_FUSED,
    PRODUCT_KINDS,
    fused_fraction,
    idle_fraction,
    launches_of,
)
from keras_gpukit.rules.compute.slow_kernels import dtype_of, group_of
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule, Share
from keras_gpukit.rules.savings import of_compute, severity

LEAST_SAVED, IDLE_SAVED = 0.5, 0.5
"""With four models of `benchmarks/results/gpu/compute.all.json`, XLA saved an H100 77 to 91 % of
these kernels' time, and up to half of the time in which it idled. The least is our choice."""
NAMED = 0.2
"""Least share of the GPU's time from which a kind of layer, or one kernel, gives the finding its
name; our choice. A transformer's bias gradient took 24 % on an H100."""


class UnfusedOperations(Rule):
    """Elementwise operations and reductions that each read and write GPU memory."""

    code = "unfused-operations"
    title = "Simple kernels that XLA would fuse take much of the GPU time"
    requires = "a profile of a GPU's steps"
    charts = ("captures", "layers")
    tried_by = ("jit",)
    supersedes = ("dominant-layer",)
    of_a_step_in_kernels_that_XLA_fuses = Share("{value} of a step are kernels that XLA would fuse")
    share_of_the_GPU_time_in = Share("Those of {of} take {value} of the GPU time")

    def judge(self, summary: RunSummary) -> Outcome:
        profile, launches = summary.profile, launches_of(summary)
        share = fused_fraction(summary)
        if profile is None or share is None:
            return self.abstain(None if summary.environment.gpus else NO_GPU)
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        if share < MANY_FUSED:
            return None
        if launches is not None and launches.fraction > share:
            return None  # as `launch-bound` says
        saving = of_compute(
            summary,
            min(share + IDLE_SAVED * idle_fraction(summary), 1.0),
            low=LEAST_SAVED * share,
            basis="kernels that XLA fuses",
        )
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_kernels_that_XLA_fuses(share),
            *(
                self.share_of_the_GPU_time_in(part, name)
                for name, part in _groups(profile).most_common(3)
                if part >= NAMED / 2
            ),
            advice=(
                "`compile(jit_compile=True)`: XLA makes one kernel of many, which reads and writes "
                "each value once",
            ),
            saving=saving,
            title=_title(profile),
        )


def _title(profile: ProfileRecord) -> str:
    computed_s = sum(profile.kinds_s.values()) or 1.0
    biases = profile.kinds_s.get("bias gradient", 0.0) / computed_s
    groups = _groups(profile)
    if biases >= NAMED:
        kernel = next(each.name for each in profile.kernels if each.kind == "bias gradient")
        share, name = biases, f"the bias gradient in {dtype_of(kernel)}"
    elif groups and max(groups.values()) >= NAMED:
        [(name, share)] = groups.most_common(1)
        name += f" in {_dtype(profile)} kernels"
    else:
        share = sum(profile.kinds_s.get(kind, 0.0) for kind in FUSED_KINDS) / computed_s
        name = "simple kernels"
    return f"{100 * share:.0f} % of the GPU time is {name}, which XLA would fuse"


def _groups(profile: ProfileRecord) -> Counter[str]:
    """Returns the share of the GPU time by kind of layer, without products and what they need."""
    computed_s = sum(profile.kinds_s.values()) or 1.0
    groups: Counter[str] = Counter()
    for layer in profile.layers:
        name, time_s = group_of(layer), layer.time_s
        if not layer.kinds_s.keys().isdisjoint(PRODUCT_KINDS):
            time_s = sum(layer.kinds_s.get(kind, 0.0) for kind in FUSED_KINDS)
        if name:
            groups[name] += time_s / computed_s  # type: ignore[assignment]
    return groups


def _dtype(profile: ProfileRecord) -> str:
    times: Counter[str] = Counter()
    for kernel in profile.kernels:
        if kernel.kind in FUSED_KINDS:
            times[dtype_of(kernel.name)] += kernel.share  # type: ignore[assignment]
    return next((name for name, _ in times.most_common(1)), "")
