"""Whether the first step set the memory peak, by trying algorithms for later steps."""

from __future__ import annotations

from keras_gpukit.records.machine import DeviceMemory
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule, figure

LATER_FRACTION = 0.9
"""Later steps must need at most this share of the first step's peak. Our choice: on an H100 it was
0.51 to 0.89 with five of seven convolutional models, and at least 0.95 with the others."""
LEAST_USE = 0.5
"""Least peak of the first step, as a share of the limit. Below it, a batch twice as large fits in
any case. Our choice."""


class FirstStepMemory(Rule):
    """A GPU whose peak was reached in the first step, and never approached later.

    In the first step, cuDNN and XLA try several algorithms for a convolution, each with its own
    workspace.
    """

    code = "first-step-memory"
    subject = "GPU memory"
    title = "The first step took more GPU memory than later steps need"
    requires = "the peaks of the first step and of later steps on a GPU"

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the GPU on which the first step took the most extra memory."""
        gpus = [each for each in summary.allocators if each.device.startswith("GPU")]
        if not gpus:
            return self.abstain(NO_GPU)
        if all(each.later_peak_bytes is None for each in gpus):
            return self.abstain()
        extra = [each for each in gpus if _is_extra(each)]
        if not extra:
            return None
        most = max(extra, key=_extra_bytes)
        return self.find(
            "info",
            figure("first_step_on", most.first_step_peak_bytes or 0, "B", most.device),
            figure("later_steps_at_most", most.later_peak_bytes or 0, "B"),
            advice=(
                "Judge by the later steps whether a larger batch fits: in the first step cuDNN "
                "and XLA try algorithms, and make do with less memory where less is free",
                "TensorFlow keeps the memory for itself. To leave it to other processes, limit the "
                "trials: `TF_CUDNN_WORKSPACE_LIMIT_IN_MB=512`",
            ),
        )


def _is_extra(memory: DeviceMemory) -> bool:
    first_bytes = memory.first_step_peak_bytes
    if first_bytes is None or memory.later_peak_bytes is None:
        return False
    matters = memory.limit_bytes is None or first_bytes >= LEAST_USE * memory.limit_bytes
    return matters and memory.later_peak_bytes <= LATER_FRACTION * first_bytes


def _extra_bytes(memory: DeviceMemory) -> int:
    return (memory.first_step_peak_bytes or 0) - (memory.later_peak_bytes or 0)
