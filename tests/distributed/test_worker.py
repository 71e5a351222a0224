"""Which process of a cluster this one is."""

import json
from types import SimpleNamespace

import pytest

from keras_gpukit.distributed.clusters import this_worker
from keras_gpukit.records import Environment, RunReport, Worker
from keras_gpukit.saved_runs.log_folder import load_report

WORKERS = {"worker": ["a:1", "b:1", "c:1"]}
WITH_CHIEF = {"chief": ["x:1"], "worker": ["a:1", "b:1"]}


def tf_config(cluster, task_type, index) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": task_type, "index": index}})


def test_the_place_in_the_cluster_is_read_from_tf_config(monkeypatch):
    for config, *place in (
        (tf_config(WORKERS, "worker", 2), "worker", 2, 3),
        (tf_config(WITH_CHIEF, "chief", 0), "chief", 0, 3),
        (tf_config(WITH_CHIEF, "worker", 1), "worker", 2, 3),
        (tf_config(WITH_CHIEF, "evaluator", 0), "evaluator", None, 3),
        (tf_config({**WITH_CHIEF, "ps": ["p:1"]}, "chief", 0), "chief", None, 2),
        (json.dumps({"cluster": WORKERS}), None, None, 3),
        (tf_config(WORKERS, "worker", None), "worker", None, 3),
    ):
        monkeypatch.setenv("TF_CONFIG", config)
        assert this_worker() == Worker(*place)
    alone = tf_config({}, "worker", 0), "", "{", "[]", tf_config(WORKERS, "worker", "first")
    for config in alone:
        monkeypatch.setenv("TF_CONFIG", config)
        assert this_worker() is None
    monkeypatch.delenv("TF_CONFIG")
    assert this_worker() is None  # a process of its own


def test_one_process_of_a_cluster_speaks_for_all():
    coordinator = Worker("chief", None, 2)  # of parameter servers
    speak = None, Worker("worker", 0, 3), Worker("chief", 0, 3), coordinator
    others = Worker("worker", 1, 3), Worker("evaluator", None, 3), Worker("ps", None, 3)
    for worker in (*speak, *others):
        assert Environment({}, worker=worker).is_chief is (worker in speak)
        assert RunReport("logs", "completed", worker=worker).is_chief is (worker in speak)


@pytest.mark.tensorflow
def test_what_the_strategys_cluster_resolver_knows_takes_precedence(monkeypatch):
    import tensorflow as tf

    monkeypatch.setenv("TF_CONFIG", tf_config(WORKERS, "worker", 2))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(WITH_CHIEF), task_type="worker", task_id=0
    )
    model = SimpleNamespace(distribute_strategy=SimpleNamespace(cluster_resolver=resolver))
    assert this_worker(model) == Worker("worker", 1, 3)


@pytest.mark.tensorflow
@pytest.mark.parametrize("cluster", [WORKERS, WITH_CHIEF])
def test_workers_are_counted_as_tensorflow_does(cluster, monkeypatch):
    from tensorflow.python.distribute import multi_worker_util as util

    for task_type, hosts in cluster.items():
        for index in range(len(hosts)):
            monkeypatch.setenv("TF_CONFIG", tf_config(cluster, task_type, index))
            worker = this_worker()
            assert worker.index == util.id_in_cluster(cluster, task_type, index)
            assert worker.count == util.worker_count(cluster, task_type)


@pytest.mark.tensorflow
def test_a_workers_run_says_which_worker_it_is(tmp_path, monkeypatch):
    from helpers.training import fast_dataset, small_model

    from keras_gpukit import Monitor

    monkeypatch.setenv("TF_CONFIG", tf_config(WORKERS, "worker", 1))
    monitor = Monitor(tmp_path / "logs")
    small_model().fit(fast_dataset(4), verbose=0, callbacks=[monitor])
    (run,) = load_report(tmp_path).runs
    assert (run.name, run.worker) == ("logs, worker 1", Worker("worker", 1, 3))
    assert run.summary.environment.worker == monitor.summary.environment.worker == run.worker
    assert list((tmp_path / "logs" / "gpukit" / "run-1").glob("events.*"))
