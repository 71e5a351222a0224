"""Whether other processes use the GPUs."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import (
    Outcome,
    Rule,
    gpu_readings,
    gpu_readings_unknown_because,
    percent,
)

SIZEABLE_FRACTION = 0.10


class OtherProcessesOnGPU(Rule):
    """Other processes that hold a tenth or more of a GPU's memory.

    The threshold is our choice: a desktop or an idle notebook takes less on most cards, another
    training run more. A process that holds memory probably computes too, and then shares the GPU's
    time.
    """

    code = "other-processes-on-gpu"
    subject = "other processes on the GPU"
    title = "Other processes use the same GPU"
    requires = "the GPUs' memory by process"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares each GPU's share with the threshold."""
        shares = {
            gpu.index: gpu.memory_others_max_bytes / gpu.memory_total_bytes
            for gpu in gpu_readings(summary)
            if gpu.memory_others_max_bytes is not None and gpu.memory_total_bytes
        }
        if not shares:
            record = summary.utilization
            by_process = None if record is None else record.processes_unknown_because
            return self.abstain(gpu_readings_unknown_because(summary) or by_process)
        shared = {index: share for index, share in shares.items() if share >= SIZEABLE_FRACTION}
        if not shared:
            return None
        return self.find(
            "warning",
            *(
                percent("memory_held_by_others_on", share, f"GPU:{index}")
                for index, share in shared.items()
            ),
            advice=(
                "`nvidia-smi` names them: end those that are left over",
                "Or train on another GPU: `configure_gpus(devices=...)`",
            ),
        )
