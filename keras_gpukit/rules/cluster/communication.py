"""Whether workers that arrive together spend much of their time exchanging gradients."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.cluster import lateness
from keras_gpukit.rules.rule import Outcome, Rule, figure, percent
from keras_gpukit.rules.savings import WARNING_FRACTION, of_run


class CommunicationBound(Rule):
    """Collectives that take at least a tenth of the steps' time after every worker has arrived.

    The time of the worker that arrives last counts, since it waits for none of the others: the
    shortest time of all in each compared step. The threshold is 10 %, as for every part of the run
    that deserves a warning. The saving is an upper bound: some exchange remains as long as there
    are several workers.
    """

    code = "communication-bound"
    subject = "workers"
    title = "Exchanging gradients takes much of each step"
    requires = "the same steps of every worker, with their time in collectives"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the exchange with the step time."""
        comparison = summary.workers
        because = lateness.unknown_because(comparison)
        if comparison is None or because is not None:
            return self.abstain(because)
        exchanged_s, of_s = lateness.exchange_s(comparison), lateness.step_s(comparison)
        if exchanged_s is None or not of_s:
            return self.abstain()
        if exchanged_s < WARNING_FRACTION * of_s:
            return None
        link = lateness.slow_link(comparison)
        if lateness.late_member(comparison) is None and link is not None:
            return self.abstain(f"the slow network of worker {link.member.index} explains it")
        all_s = exchanged_s * (summary.steps or 0)
        saving = of_run(summary, 0.0, all_s, basis="collectives", upper_bound=True)
        return self.find(
            "warning",
            percent("exchange_in_a_step", exchanged_s / of_s),
            figure("that_is", 1e3 * exchanged_s, "ms"),
            figure("of_a_step_of", 1e3 * of_s, "ms"),
            advice=(
                f"A larger batch per {comparison.kind}: the same exchange serves more examples",
                "If a larger batch does not fit: `keras_gpukit.accumulate_gradients(model, "
                "micro_batches=4)`, which exchanges gradients once for all parts of a batch",
                "A faster network between the machines; on GPUs, NCCL over it",
            ),
            saving=saving,
        )
