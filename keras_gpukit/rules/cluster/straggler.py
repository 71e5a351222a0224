"""Whether one worker of a synchronous run makes all others wait."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.worker_comparison import WorkerComparison
from keras_gpukit.rules.cluster import lateness
from keras_gpukit.rules.rule import Outcome, Rule, figure
from keras_gpukit.rules.savings import of_run, severity

_TITLES = {
    "input": "{name} is a straggler: it waits for its input",
    "compute": "{name} is a straggler: its own compute takes longer",
    "network": "{name} is a straggler: its network is slow",
    None: "{name} is a straggler: it arrives last at the collectives",
}
_ADVICE = {
    "input": (
        "Fix the input pipeline of {name}: its own record names the slow stage",
        "Compare its disk, its cores and its share of the files with those of the others",
    ),
    "compute": (
        "Look for other programs, throttling and a slower device on {name}; its own record has "
        "their figures",
        "Give every {kind} the same work: equal devices, equal batches, no extra callbacks",
    ),
    None: (
        "Compare the input wait and the GPU of {name} with those of the others in its own record",
    ),
    "network": (
        "Check the link of {name}: interface, cable or switch port, a proxy, a distant rack",
        "Train without {name} if the link cannot be fixed",
    ),
}


class Straggler(Rule):
    """One worker, or replica, that arrives last at the collectives, and what makes it late.

    Its median delay behind the last of the others is at least 10 % of the step time, it arrives
    last in two thirds of the compared steps, and the run would save at least 10 % of its time. On a
    busy machine, some worker is always the last. If no worker is late, the links of one may be
    slow: their round trips take three times as long as other links', and cost at least 5 % of a
    step.
    """

    code = "straggler"
    subject = "workers"
    title = "One worker makes the others wait"
    requires = "the same steps of every worker, with their time in collectives"

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for the worker that waits least for the others, then for slow links."""
        comparison = summary.workers
        if comparison is None or not comparison.is_complete:
            return self.abstain(lateness.unknown_because(comparison))
        late = lateness.late_member(comparison)
        if late is not None:
            return self._late(summary, comparison, late)
        link = lateness.slow_link(comparison)
        if link is not None:
            return self._slow_link(summary, comparison, link)
        because = lateness.unknown_because(comparison)
        return None if because is None else self.abstain(because)

    def _late(
        self, summary: RunSummary, comparison: WorkerComparison, late: lateness.Late
    ) -> Outcome:
        name = f"{comparison.kind} {late.member.index}"
        steps = summary.steps or late.steps
        saving = of_run(
            summary, late.low_s * steps, late.high_s * steps, basis="how late it arrives"
        )
        how_severe = severity(saving, summary)
        if how_severe == "info":
            return None
        what = {"input": "input_wait_of", "compute": "compute_of", None: "time_to_arrive_of"}[
            late.cause
        ]
        return self.find(
            how_severe,
            figure("delay_of", 1e3 * late.median_s, "ms", name),
            figure("of_a_step_of", 1e3 * late.step_s, "ms"),
            figure(what, 1e3 * late.own_s, "ms", name),
            figure("of_the_others", 1e3 * late.others_s, "ms"),
            figure("steps_compared", late.steps),
            title=_TITLES[late.cause].format(name=name.capitalize()),
            advice=_advice(late.cause, name, comparison),
            saving=saving,
        )

    def _slow_link(
        self, summary: RunSummary, comparison: WorkerComparison, link: lateness.SlowLink
    ) -> Outcome:
        name = f"{comparison.kind} {link.member.index}"
        steps = summary.steps or 0
        exchanged_s = lateness.exchange_s(comparison)
        saving = of_run(
            summary,
            min(link.ring_s, link.ring_s if exchanged_s is None else exchanged_s) * steps,
            None if exchanged_s is None else exchanged_s * steps,
            basis="round trips and collectives",
        )
        figures = [
            figure("round_trip_to", 1e3 * link.round_trip_s, "ms", name),
            figure("among_the_others", 1e3 * link.others_s, "ms"),
        ]
        if exchanged_s is not None:
            figures.append(figure("exchange_in_a_step", 1e3 * exchanged_s, "ms"))
            figures.append(figure("of_a_step_of", 1e3 * (lateness.step_s(comparison) or 0.0), "ms"))
        return self.find(
            severity(saving, summary),
            *figures,
            title=_TITLES["network"].format(name=name.capitalize()),
            advice=_advice("network", name, comparison),
            saving=saving,
        )


def _advice(cause: str | None, name: str, comparison: WorkerComparison) -> tuple[str, ...]:
    return tuple(line.format(name=name, kind=comparison.kind) for line in _ADVICE[cause])
