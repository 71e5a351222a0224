"""Whether heat, power or other processes take the GPUs from training."""

from __future__ import annotations

from keras_gpukit.records.machine import ThrottleReason
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule, Share, gpu_readings, gpu_readings_unknown_because

THROTTLED_FRACTION = 0.10
POWER_CAP: ThrottleReason = "software power cap"
_OF_HEAT: set[ThrottleReason] = {
    "hardware slowdown",
    "software thermal slowdown",
    "hardware thermal slowdown",
}
_OF_POWER: set[ThrottleReason] = {POWER_CAP, "hardware slowdown", "hardware power brake"}
LIMITS = _OF_HEAT | _OF_POWER


class Throttled(Rule):
    """GPUs whose clocks were limited by heat or power in at least a tenth of the readings."""

    code = "throttled"
    subject = "GPU clocks"
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
        return self.find(
            "info" if reasons == [POWER_CAP] else "warning",
            *(
                self.readings_with(fraction, f"{reason} on GPU:{index}")
                for index, reason, fraction in limited
            ),
            advice=_advise(reasons),
            title=f"GPU clocks held down: {', '.join(reasons)}",
        )


def _advise(reasons: list[ThrottleReason]) -> tuple[str, ...]:
    advice = []
    if _OF_HEAT.intersection(reasons):
        advice.append("Cool the GPU: fans, dust, and the air between cards")
    if _OF_POWER.intersection(reasons):
        advice.append("Compare the power limits: `nvidia-smi -q -d POWER`")
    return tuple(advice)


SIZEABLE_FRACTION = 0.10


class OtherProcessesOnGPU(Rule):
    """Other processes that hold a tenth or more of a GPU's memory."""

    code = "other-processes-on-gpu"
    subject = "other processes on the GPU"
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
        shared = {index: share for index, share in shares.items() if share >= SIZEABLE_FRACTION}
        if not shared:
            return None
        return self.find(
            "warning",
            *(
                self.memory_held_by_others_on(share, f"GPU:{index}")
                for index, share in shared.items()
            ),
            advice=(
                "`nvidia-smi` names them: end those that are left over",
                "Or train on another GPU: `configure_gpus(devices=...)`",
            ),
        )
