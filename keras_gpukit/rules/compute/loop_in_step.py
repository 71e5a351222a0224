"""Loops of the script within a step, each turn of which starts small operations."""

from __future__ import annotations

from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import ProfileRule
from keras_gpukit.rules.compute.slow_layers import REQUIRES
from keras_gpukit.rules.rule import Outcome, Share
from keras_gpukit.rules.savings import of_compute

LEAST_BETWEEN = 0.5
"""Least share of the layers' time between operations; our choice. It was 0.76 to 0.9 of two
losses that use `tf.map_fn` over the examples of a batch."""
MOST_LINES = 2


class LoopInStep(ProfileRule):
    """A step whose time passes between small operations, and in which the script makes a loop."""

    code = "loop-in-step"
    title = "A loop within the step starts many small operations"
    requires = REQUIRES
    part = "layers"
    tried_by = ("jit",)
    of_a_step_between_operations = Share("{value} of a step passes between its operations")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        share = profile.between_fraction
        if not profile.loops or share < LEAST_BETWEEN:
            return None
        lines = " and ".join(profile.loops[:MOST_LINES])
        return self.find(
            "warning",
            self.of_a_step_between_operations(share),
            advice=(
                "compute all turns at once, by broadcasting, such as `a[:, None] - b[None]`, or by "
                "`tf.vectorized_map(f, xs)` in place of `tf.map_fn`",
                "`compile(jit_compile=True)`: XLA makes few operations of a turn",
            ),
            saving=of_compute(summary, share, basis="time between operations"),
            title=f"The loop at {lines} runs within each step: {100 * share:.0f} % of the step "
            "passes between small operations",
        )
