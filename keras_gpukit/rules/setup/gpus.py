"""Whether GPUs are short of memory, or limited by heat, power or other processes."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.machine import DeviceMemory, ThrottleReason
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import (
    NO_GPU,
    Measure,
    Outcome,
    Rule,
    Share,
    gpu_readings,
    gpu_readings_unknown_because,
)

NEARLY_FULL_FRACTION = 0.9
MOSTLY_UNUSED_FRACTION = 0.3
ROOM_FRACTION = 0.5
"""A GPU that uses at most this share of its memory has room for twice the batch; our choice."""


class MemoryNearlyFull(Rule):
    """A GPU whose peak reached 90 % of the memory that TensorFlow may take on it."""

    code = "memory-nearly-full"
    title = "GPU memory is nearly full"
    requires = "the peak and the limit of TensorFlow's allocator on a GPU"
    charts = ("device-memory",)
    peak_use_of = Share("{of} uses {value} of its memory at most")

    def judge(self, summary: RunSummary) -> Outcome:
        share = _fullest(summary)
        if share is None:
            return self.abstain(_unknown_because(summary))
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


class MemoryMostlyUnused(Rule):
    """GPUs whose peak stayed at or under 30 % of the memory that TensorFlow may take."""

    code = "memory-mostly-unused"
    title = "GPU memory is mostly unused"
    yields_to_all = True  # a larger batch is no remedy for what another rule found
    yields_to_remarks = False
    requires = MemoryNearlyFull.requires
    charts = ("device-memory",)
    tried_by = ("batch-size",)
    peak_use_of = MemoryNearlyFull.peak_use_of

    def judge(self, summary: RunSummary) -> Outcome:
        share = _fullest(summary)
        if share is None:
            return self.abstain(_unknown_because(summary))
        if share.value > 100 * MOSTLY_UNUSED_FRACTION:
            return None
        advice = ("Try a batch twice as large, and scale the learning rate with it",)
        return self.find("info", share, advice=advice)


def fullest_fraction(summary: RunSummary) -> float | None:
    """Returns the peak of the fullest GPU's allocator as a share of its limit; None if unknown."""
    fullest = _fullest(summary)
    return None if fullest is None else fullest.value / 100


def _fullest(summary: RunSummary) -> Figure | None:
    """Returns the highest peak of a GPU as a percentage of its limit; None if unknown."""
    shares = (
        MemoryNearlyFull.peak_use_of(memory.needed_bytes / memory.limit_bytes, memory.device)
        for memory in summary.allocators
        if memory.device.startswith("GPU") and memory.limit_bytes
    )
    return max(shares, key=lambda share: share.value, default=None)


def _unknown_because(summary: RunSummary) -> str | None:
    if not summary.environment.gpus:
        return NO_GPU
    return summary.memory.unknown_because if summary.memory else None


LATER_FRACTION = 0.9
"""Later steps must need at most this share of the first step's peak. Our choice: on an H100 it was
0.51 to 0.89 with five of seven convolutional models, and at least 0.95 with the others."""
LEAST_USE = 0.5
"""Least peak of the first step, as a share of the limit. Below it, a batch twice as large fits in
any case. Our choice."""


class FirstStepMemory(Rule):
    """A GPU whose peak was reached in the first step, and never approached later."""

    code = "first-step-memory"
    title = "The first step took more GPU memory than later steps need"
    requires = "the peaks of the first step and of later steps on a GPU"
    charts = ("device-memory",)
    first_step_on = Measure("On {of} the first step took {value}", "B")
    later_steps_at_most = Measure("Later steps took at most {value}", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        gpus = [allocator for allocator in summary.allocators if allocator.device.startswith("GPU")]
        if not gpus:
            return self.abstain(NO_GPU)
        if all(gpu.later_peak_bytes is None for gpu in gpus):
            return self.abstain()
        most = max(gpus, key=_extra_bytes)
        if not _extra_bytes(most):
            return None
        return self.find(
            "info",
            self.first_step_on(most.first_step_peak_bytes or 0, most.device),
            self.later_steps_at_most(most.later_peak_bytes or 0),
            advice=(
                "Judge by the later steps whether a larger batch fits: in the first step cuDNN "
                "and XLA try algorithms, and make do with less memory where less is free",
                "TensorFlow keeps the memory for itself. To leave it to other processes, limit the "
                "trials: `TF_CUDNN_WORKSPACE_LIMIT_IN_MB=512`",
            ),
        )


def _extra_bytes(memory: DeviceMemory) -> int:
    """Returns how much more the first step took than later ones; 0 if that is unknown or little."""
    first_bytes, later_bytes = memory.first_step_peak_bytes, memory.later_peak_bytes
    if first_bytes is None or later_bytes is None or later_bytes > LATER_FRACTION * first_bytes:
        return 0
    return first_bytes - later_bytes if first_bytes >= LEAST_USE * (memory.limit_bytes or 0) else 0


THROTTLED_FRACTION = 0.10
POWER_CAP: ThrottleReason = "software power cap"
LIMITS: set[ThrottleReason] = {
    POWER_CAP,
    "hardware slowdown",
    "hardware power brake",
    "software thermal slowdown",
    "hardware thermal slowdown",
}


class Throttled(Rule):
    """GPUs whose clocks were limited by heat or power in at least a tenth of the readings."""

    code = "throttled"
    title = "GPU clocks held down"
    requires = "the GPUs' throttle reasons"
    charts = ("timeline", "busy")
    readings_with = Share("{value} of the readings show {of}")

    def judge(self, summary: RunSummary) -> Outcome:
        known = [gpu for gpu in gpu_readings(summary) if gpu.throttle_fractions is not None]
        if not known:
            return self.abstain(gpu_readings_unknown_because(summary))
        limited = [
            (gpu.index, reason, fraction)
            for gpu in known
            for reason, fraction in (gpu.throttle_fractions or {}).items()
            if reason in LIMITS and fraction >= THROTTLED_FRACTION
        ]
        if not limited:
            return None
        reasons = sorted({reason for _, reason, _ in limited})
        advice, slowed = [], "hardware slowdown" in reasons
        if slowed or any("thermal" in reason for reason in reasons):
            advice.append("Cool the GPU: fans, dust, and the air between cards")
        if slowed or any("power" in reason for reason in reasons):
            advice.append("Compare the power limits: `nvidia-smi -q -d POWER`")
        return self.find(
            "info" if reasons == [POWER_CAP] else "warning",
            *(
                self.readings_with(fraction, f"{reason} on GPU:{index}")
                for index, reason, fraction in limited
            ),
            advice=advice,
            title=f"GPU clocks held down: {', '.join(reasons)}",
        )


SIZEABLE_FRACTION = 0.10


class OtherProcessesOnGPU(Rule):
    """Other processes that hold a tenth or more of a GPU's memory."""

    code = "other-processes-on-gpu"
    title = "Other processes use the same GPU"
    requires = "the GPUs' memory by process"
    charts = ("device-memory", "busy")
    memory_held_by_others_on = Share("Other processes use {value} of the memory of {of}")

    def judge(self, summary: RunSummary) -> Outcome:
        shares = {
            gpu.index: gpu.memory_others_max_bytes / gpu.memory_total_bytes
            for gpu in gpu_readings(summary)
            if gpu.memory_others_max_bytes is not None and gpu.memory_total_bytes
        }
        if not shares:
            record = summary.utilization
            by_process = None if record is None else record.processes_unknown_because
            return self.abstain(gpu_readings_unknown_because(summary) or by_process)
        shared = [
            self.memory_held_by_others_on(share, f"GPU:{index}")
            for index, share in shares.items()
            if share >= SIZEABLE_FRACTION
        ]
        if not shared:
            return None
        return self.find(
            "warning",
            *shared,
            advice=(
                "`nvidia-smi` names them: end those that are left over",
                "Or train on another GPU: `configure_gpus(devices=...)`",
            ),
        )
