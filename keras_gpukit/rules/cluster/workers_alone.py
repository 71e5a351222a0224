"""Whether the processes of a cluster train one model, or each a model of its own."""

from __future__ import annotations

from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_CLUSTER, Outcome, Rule, figure


class WorkersTrainAlone(Rule):
    """A process that is a worker of a cluster but has no strategy that connects the workers.

    TensorFlow reads `TF_CONFIG` only for such a strategy. Without one, each process trains the
    whole model on all of the data, and no message says so.
    """

    code = "workers-train-alone"
    subject = "workers"
    title = "No strategy connects the workers: each trained the whole model alone"
    requires = "the process's place in its cluster, and its strategy"

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the process's place in its cluster with its strategy."""
        environment = summary.environment
        worker = environment.worker
        if worker is None or environment.replicas is None:
            return self.abstain(NO_CLUSTER if worker is None else None)
        if not environment.trains_alone:
            return None
        return self.find(
            "warning",
            *(() if worker.count is None else (figure("workers", worker.count),)),
            advice=(
                '`keras_gpukit.configure_gpus(strategy="auto")` before TensorFlow starts its '
                "devices, and the model made and compiled in `with setup.scope():`",
                "Without a change of the script: `keras-gpukit launch --workers "
                f"{worker.count or 'N'} -m keras_gpukit run --strategy auto SCRIPT`",
            ),
        )
