"""Whether TensorFlow's allocators on the GPUs are nearly full or mostly unused."""

from __future__ import annotations

from abc import abstractmethod

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule, percent

NEARLY_FULL_FRACTION = 0.9
MOSTLY_UNUSED_FRACTION = 0.3
# A GPU that uses at most this share of its memory has room for twice the batch; our choice.
ROOM_FRACTION = 0.5


class _OfFullestGPU(Rule):
    """A rule on the GPU whose peak is closest to the limit of TensorFlow's allocator on it."""

    requires = "the peak and the limit of TensorFlow's allocator on a GPU"

    def judge(self, summary: RunSummary) -> Outcome:
        """Judges the fullest GPU, if there is one."""
        shares = _shares(summary)
        if not shares:
            return self.abstain(_unknown_because(summary))
        return self.judge_fullest(max(shares, key=lambda share: share.value))

    @abstractmethod
    def judge_fullest(self, share: Figure) -> Outcome:
        """Judges the peak as a percentage of the limit."""


class MemoryNearlyFull(_OfFullestGPU):
    """A GPU whose peak reached 90 % of the memory that TensorFlow may take on it.

    The margin is our choice. A batch size that passed several trial steps was seen to run out of
    memory later, since fragmentation, a longer batch or validation add to the peak.
    """

    code = "memory-nearly-full"
    subject = "GPU memory"
    title = "GPU memory is nearly full"

    def judge_fullest(self, share: Figure) -> Outcome:
        """Compares the share with the threshold."""
        if share.value < 100 * NEARLY_FULL_FRACTION:
            return None
        return self.find(
            "warning",
            share,
            advice=(
                "Leave a margin: a slightly smaller batch",
                "Keep other programs off this GPU while training",
            ),
        )


class MemoryMostlyUnused(_OfFullestGPU):
    """GPUs whose peak stayed at or under 30 % of the memory that TensorFlow may take.

    The threshold is our choice: under a third, a batch twice as large still leaves room. The
    fullest GPU decides, since a batch must fit on each. The finding is a remark: a larger batch
    keeps the GPU busier but may need another learning rate, and a small model is not a fault. It is
    left out if another rule finds more than a remark: then something else limits the run.
    """

    code = "memory-mostly-unused"
    subject = "GPU memory"
    title = "GPU memory is mostly unused"
    yields_to = None  # a larger batch is no remedy for what another rule found
    yields_to_remarks = False

    def judge_fullest(self, share: Figure) -> Outcome:
        """Compares the share with the threshold."""
        if share.value > 100 * MOSTLY_UNUSED_FRACTION:
            return None
        return self.find(
            "info",
            share,
            advice=("Try a batch twice as large, and scale the learning rate with it",),
        )


def fullest_fraction(summary: RunSummary) -> float | None:
    """Returns the peak of the fullest GPU's allocator as a share of its limit; None if unknown."""
    shares = _shares(summary)
    return max(share.value for share in shares) / 100 if shares else None


def _shares(summary: RunSummary) -> list[Figure]:
    """Returns the peak of each GPU as a percentage of its limit, for GPUs that report both."""
    return [
        percent("peak_use_of", memory.needed_bytes / memory.limit_bytes, memory.device)
        for memory in summary.allocators
        if memory.device.startswith("GPU") and memory.limit_bytes
    ]


def _unknown_because(summary: RunSummary) -> str | None:
    if not summary.environment.gpus:
        return NO_GPU
    return summary.memory.unknown_because if summary.memory else None
