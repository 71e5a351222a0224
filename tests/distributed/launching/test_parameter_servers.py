"""A job with parameter servers, whose worker is killed while it trains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.launches import Launch

SERVERS = """
import psutil

def servers(type):
    for process in psutil.Process().parent().parent().children(recursive=True):
        task = json.loads(process.environ().get("TF_CONFIG", "{}")).get("task", {})
        if task.get("type") == type and "launching.servers" in " ".join(process.cmdline()):
            if "keeper.py" not in " ".join(process.cmdline()):
                yield process
"""
# With servers that only listen.
REPLACED = (
    SERVERS
    + """
from contextlib import suppress

def running_worker(but=None):
    while True:
        with suppress(psutil.NoSuchProcess):
            for process in servers("worker"):
                if process != but:
                    return process
        time.sleep(0.01)

worker = running_worker()
worker.kill()
replaced = running_worker(but=worker)
print("parameter servers", len(list(servers("ps"))))
print("GPUs", os.environ["CUDA_VISIBLE_DEVICES"])
"""
)
COORDINATOR = (
    SERVERS
    + """
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
"""
)


@pytest.mark.heavy
def test_a_worker_that_dies_is_replaced_and_the_job_goes_on(tmp_path):
    launch = Launch(tmp_path, REPLACED, "--workers=1", "--ps=1")
    stand_ins = str(Path(__file__).parent / "stand_ins")
    launch.environment["PYTHONPATH"] = stand_ins + os.pathsep + launch.environment["PYTHONPATH"]
    result = launch.run(timeout_s=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "[chief] parameter servers 1\n" in result.stdout
    assert "[chief] GPUs -1\n" in result.stdout
    assert_told(result)


def assert_told(result):
    assert "keras-gpukit launch: worker 0 was killed by SIGKILL" in result.stderr
    assert "It is started again; training continues." in result.stderr


# In `make test`, the test above shows that the worker comes back, and
# distributed/test_parameter_servers.py that TensorFlow goes on without it.
@pytest.mark.tensorflow
@pytest.mark.long
def test_no_step_is_lost_with_a_worker_that_dies(tmp_path):
    result = Launch(tmp_path, COORDINATOR, "--workers=1", "--ps=1").run(timeout_s=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "[chief] replaced True\n" in result.stdout
    assert "[chief] steps 20.0\n" in result.stdout
    assert_told(result)
