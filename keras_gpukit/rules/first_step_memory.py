"""Whether only the first step set the memory peak, by trying algorithms for later steps."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.machine import DeviceMemory
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule

FEWEST_READINGS = 30
LATER_FRACTION = 0.75
"""Later steps must use at most this share of the first step's peak. Readings come at random moments
of a step and only approach its peak: in `benchmarks/sampled_peak.py` the highest of 30 reached at
least 80 % of it, but 28 % with an LSTM, whose peak is short. So the step's prediction must be as
low too, and must not be a lower bound."""
SAME_PEAK = 1.001
LEAST_USE = 0.5
"""Least peak of the first step, as a share of the limit. A lower peak does not decide which batch
fits. Our choice."""


class FirstStepMemory(Rule):
    """A GPU whose peak was reached in the first step, and never approached later.

    In the first step, cuDNN and XLA try several algorithms, each with its own workspace. The need
    of later steps is known only from readings and from the prediction: TensorFlow's peak is not
    reset after the first step, since the run's own code may read it. Untested on a real GPU.
    """

    code = "first-step-memory"
    subject = "GPU memory"
    title = "The first step needed more GPU memory than later steps were seen to need"
    requires = (
        f"the first step's peak on a GPU, {FEWEST_READINGS} later readings, and a predicted step"
    )

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the GPU on which the first step needed the most extra memory."""
        gpus = [each for each in summary.allocators if each.device.startswith("GPU")]
        if not gpus:
            return self.abstain(NO_GPU)
        known = [each for each in gpus if _is_known(each)]
        predicted_bytes = _predicted_bytes(summary)
        if not known or predicted_bytes is None:
            return self.abstain()
        extra = [each for each in known if _is_extra(each, predicted_bytes)]
        if not extra:
            return None
        most = max(extra, key=_extra_bytes)
        return self.find(
            "info",
            Figure(f"first step on {most.device}", most.first_step_peak_bytes or 0, "B"),
            Figure("most seen later", most.later_max_bytes or 0, "B"),
            Figure("in readings", most.later_readings),
            Figure("a step predicted to need at most", predicted_bytes, "B"),
            advice=(
                "The first step decides which batch fits: cuDNN and XLA try algorithms in it",
                "Limit their workspace: TF_CUDNN_WORKSPACE_LIMIT_IN_MB=512",
                "Skip the trials, for slower steps: TF_CUDNN_USE_AUTOTUNE=0 and "
                "XLA_FLAGS=--xla_gpu_autotune_level=0",
            ),
        )


def _is_known(memory: DeviceMemory) -> bool:
    return memory.first_step_peak_bytes is not None and memory.later_readings >= FEWEST_READINGS


def _predicted_bytes(summary: RunSummary) -> int | None:
    """Returns the most that a step is predicted to need; None if that leaves something out."""
    prediction = summary.memory.prediction if summary.memory else None
    if prediction is None or prediction.high is None or prediction.is_lower_bound:
        return None
    return prediction.high.total_bytes


def _is_extra(memory: DeviceMemory, predicted_bytes: int) -> bool:
    first_bytes = memory.first_step_peak_bytes or 0
    later_bytes = max(memory.later_max_bytes or 0, predicted_bytes)
    matters = memory.limit_bytes is None or first_bytes >= LEAST_USE * memory.limit_bytes
    is_peak = memory.peak_bytes <= SAME_PEAK * first_bytes
    return matters and is_peak and later_bytes <= LATER_FRACTION * first_bytes


def _extra_bytes(memory: DeviceMemory) -> int:
    return (memory.first_step_peak_bytes or 0) - (memory.later_max_bytes or 0)
