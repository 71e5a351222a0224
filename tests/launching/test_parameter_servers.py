"""A job with parameter servers, whose worker is killed while it trains."""

from __future__ import annotations

import pytest
from helpers.launches import Launch

COORDINATOR = """
import psutil
import tensorflow as tf

strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.TFConfigClusterResolver()
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)

@tf.function
def step():
    total.assign_add(1.0)

def servers(type):
    for process in psutil.Process().parent().parent().children(recursive=True):
        task = json.loads(process.environ().get("TF_CONFIG", "{}")).get("task", {})
        if task.get("type") == type and "launching.servers" in " ".join(process.cmdline()):
            if "keeper.py" not in " ".join(process.cmdline()):
                yield process

for number in range(20):
    coordinator.schedule(step)
    if number == 10:
        coordinator.join()
        [worker] = servers("worker")
        worker.kill()
coordinator.join()  # ends once the worker is back, since there is no other
[replaced] = servers("worker")
print("replaced", replaced.pid != worker.pid)
print("steps", total.numpy())
print("GPUs", os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_no_step_is_lost(tmp_path):
    result = Launch(tmp_path, COORDINATOR, "--workers=1", "--ps=1").run(timeout_s=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "[chief] replaced True\n" in result.stdout
    assert "[chief] steps 20.0\n" in result.stdout
    assert "[chief] GPUs -1\n" in result.stdout
    assert "keras-gpukit launch: worker 0 was killed by SIGKILL" in result.stderr
    assert "It is started again; training continues." in result.stderr
