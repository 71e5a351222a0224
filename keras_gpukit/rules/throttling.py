"""Whether heat or power held the GPUs' clocks down."""

from __future__ import annotations

from keras_gpukit.records.machine import GPUUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.evidence import gpu_readings, gpu_readings_unknown_because, percent
from keras_gpukit.rules.rule import Outcome, Rule

THROTTLED_FRACTION = 0.10
POWER_CAP = "software power cap"
LIMITS = frozenset(
    {
        POWER_CAP,
        "hardware slowdown",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "hardware power brake",
    }
)


class Throttled(Rule):
    """GPUs whose clocks were held down by heat or power in a tenth of the readings.

    NVML says that its hardware slowdown may also show for a moment when clocks change, so single
    readings prove nothing; the tenth is our choice. Clocks that somebody set, or that follow
    another GPU, are no fault: where such reasons are mixed with real limits, the share of each is
    not known and the rule gives no answer. A software power cap alone is a remark, for it is how
    many data-centre GPUs spend their busiest hours.
    """

    code = "throttled"
    title = "GPU clocks held down"
    requires = "the GPUs' throttle reasons"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares each GPU's throttled share with the threshold."""
        told = [gpu for gpu in gpu_readings(summary) if gpu.throttle_reasons is not None]
        if not told:
            return self.abstain(gpu_readings_unknown_because(summary))
        suspects = [gpu for gpu in told if _limits(gpu) and _share(gpu) >= THROTTLED_FRACTION]
        throttled = [gpu for gpu in suspects if LIMITS.issuperset(gpu.throttle_reasons or ())]
        if suspects and not throttled:
            return self.abstain("real limits are mixed with clocks that somebody set")
        if not throttled:
            return None
        reasons = sorted(set().union(*(_limits(gpu) for gpu in throttled)))
        return self.find(
            "info" if reasons == [POWER_CAP] else "warning",
            *(percent(f"throttled readings of GPU:{gpu.index}", _share(gpu)) for gpu in throttled),
            advice=_advise(reasons),
            title=f"GPU clocks held down: {', '.join(reasons)}",
        )


def _limits(gpu: GPUUtilization) -> frozenset[str]:
    return LIMITS.intersection(gpu.throttle_reasons or ())


def _share(gpu: GPUUtilization) -> float:
    return gpu.throttled_fraction or 0.0


def _advise(reasons: list[str]) -> tuple[str, ...]:
    advice = []
    if any("thermal" in reason or reason == "hardware slowdown" for reason in reasons):
        advice.append("Cool the GPU: fans, dust, and the air between cards")
    if any("power" in reason or reason == "hardware slowdown" for reason in reasons):
        advice.append("Compare the power limits: nvidia-smi -q -d POWER")
    return tuple(advice)
