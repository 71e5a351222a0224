"""The strategy of several processes that train asynchronously, each at its own pace."""

from __future__ import annotations

from typing import Any

from keras_gpukit.distributed.coordinating.serving import serve
from keras_gpukit.distributed.coordinating.trainer import train_by_coordinator
from keras_gpukit.distributed.meeting import wait_for_tasks
from keras_gpukit.distributed.repairs import install
from keras_gpukit.distributed.strategies import of_this_process
from keras_gpukit.distributed.strategies.kind import Choice, Resources, StrategyKind
from keras_gpukit.distributed.strategies.multi_worker import NO_CLUSTER, ClusterTask

_MEANING = (
    "Asynchronous: each of the {workers} workers takes a whole batch of the dataset and updates "
    "the shared weights as soon as it has finished, from weights that others have changed since. "
    "The effective batch is that of the dataset, not {workers} times as large, and up to "
    "{at_once} steps are under way together. The reported loss is an average over such steps: it "
    "differs a little from run to run and from training on one device."
)


class ParameterServer(StrategyKind):
    """Trains asynchronously: the chief coordinates workers, parameter servers hold the weights."""

    name = "parameter_server"

    def choose(self, there: Resources) -> Choice:
        """Chooses asynchronous training with the cluster, and names this process's place in it.

        Raises:
            ValueError: If there is no cluster, or if it does not have one chief, and at least one
                worker and one parameter server.
        """
        cluster = there.machine.cluster
        if cluster is None:
            raise ValueError(NO_CLUSTER.format(name=self.name))
        counts = {role: len(cluster.addresses.get(role, ())) for role in ("chief", "worker", "ps")}
        if counts["chief"] != 1 or not counts["worker"] or not counts["ps"]:
            raise ValueError(
                "strategy='parameter_server' needs one chief, and at least one worker and one "
                "parameter server. `keras-gpukit launch --workers 2 --ps 1 script.py` starts them. "
                f"Received: {cluster}"
            )
        meaning = _MEANING.format(workers=counts["worker"], at_once=2 * counts["worker"])
        return Choice(
            ClusterTask(cluster, there.gpus, there.worker_timeout_s),
            f"training asynchronously on {counts['worker']} workers, recognized from "
            f"{cluster.kind}",
            meaning=meaning,
            must_come_first=there.machine.cluster_strategy is None,
        )

    def make(self, value: ClusterTask) -> Any:
        """Returns this process's `tf.distribute.ParameterServerStrategy`, on the chief.

        A worker or a parameter server serves the chief until the chief ends, and then exits.

        Raises:
            WorkerError: If another process does not come in time.
            SystemExit: On a worker or a parameter server, with status 0.
        """

        def new() -> Any:
            import tensorflow as tf

            cluster, timeout_s = value.cluster, value.worker_timeout_s
            if cluster.task_type != "chief":
                wait_for_tasks(cluster.address, value.others("chief"), timeout_s)
                serve(cluster)
                raise SystemExit(0)
            wait_for_tasks(cluster.address, value.others("worker", "ps"), timeout_s)
            strategy = tf.distribute.ParameterServerStrategy(value.resolver())
            install.repair_parameter_server()
            train_by_coordinator(strategy, cluster, timeout_s)
            return strategy

        return of_this_process.over_cluster(self.name, new)
