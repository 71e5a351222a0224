"""Whether there is a GPU at all."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule


class NoGPU(Rule):
    """A run on the CPU because TensorFlow has no GPU to use. A remark: it may well be meant so."""

    code = "no-gpu"
    title = "TensorFlow had no GPU: the run used the CPU"
    requires = "the list of TensorFlow's GPUs"

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks at the list of GPUs."""
        if summary.environment.gpus:
            return None
        return self.find(
            "info",
            advice=("keras-gpukit doctor: says why, and what to install",),
        )
