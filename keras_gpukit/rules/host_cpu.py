"""Whether the host's cores are the limit."""

from __future__ import annotations

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.machine import HostUtilization
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input_bound import is_input_bound
from keras_gpukit.rules.rule import Outcome, Rule, host_readings

# With less than this share of the busy time, others use more than the run does; our choice.
OTHERS_SHARE = 0.5


class HostCPUSaturated(Rule):
    """The cores of the host mostly busy, while steps wait for input or a GPU depends on the host.

    From 70 % on average over all cores: where making batches and training share the cores, neither
    uses them all of the time. A run that trains on the CPU keeps the cores busy when all is well,
    so there busy cores count only together with a wait for input.
    """

    code = "host-cpu-saturated"
    title = "The host's cores are mostly busy"
    requires = "readings of the host's cores"

    def judge(self, summary: RunSummary) -> Outcome:
        """Asks whether the cores are busy, then whether that matters."""
        host = host_readings(summary)
        if host is None or host.cpu_percent is None:
            return self.abstain()
        if host.cpu_percent < 100 * CORES_BUSY_FRACTION:
            return None
        waits = is_input_bound(summary)
        if not waits and not summary.environment.gpus:
            return self.abstain("training on the CPU keeps the cores busy")
        return self.find(
            "warning" if waits else "info",
            *_evidence(host, host.cpu_percent),
            advice=_advice(host, host.cpu_percent),
        )


def _advice(host: HostUtilization, cpu_percent: float) -> tuple[str, ...]:
    mine = host.process_cpu_percent
    less_work = (
        "Do less work per example: smaller images, ds.cache(), prepare once",
        "Augment with layers inside the model, which run on the GPU",
    )
    more_cores = "Give the run more cores, or end what else uses them"
    if mine is not None and mine < OTHERS_SHARE * cpu_percent:
        return (more_cores, *less_work)
    return (*less_work, more_cores)


def _evidence(host: HostUtilization, cpu_percent: float) -> tuple[Figure, ...]:
    busy = Figure("cores busy", cpu_percent, "%")
    if host.process_cpu_percent is None:
        return (busy,)
    return busy, Figure("this process", host.process_cpu_percent, "%")
