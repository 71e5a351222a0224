"""A tf.data service of real processes: its elements, tuning with it, and its end."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import kubernetes_validate
import psutil
import pytest
import tensorflow as tf
import yaml
from helpers.processes import environment

from keras_gpukit import tune_input
from keras_gpukit.cli.main import main
from keras_gpukit.tuning.reading import Readings

NUMBERS = tf.data.Dataset.range(99)
COMMAND = [sys.executable, "-m", "keras_gpukit", "input-service", "--port", "0", "--workers"]


@contextmanager
def started(workers, **variables):
    """A service and its address; whatever happens, it is ended."""
    env, command = environment(TF_CPP_MIN_LOG_LEVEL="3", **variables), [*COMMAND, str(workers)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as running:
        try:
            addresses = (re.search(r"grpc://\S+", line) for line in running.stdout)
            yield running, next(filter(None, addresses))[0]
        finally:
            running.terminate()


def processes_of(running):
    return psutil.Process(running.pid).children(recursive=True)


@pytest.fixture(scope="module")
def service():
    with started(workers=1) as (running, address):  # each imports TensorFlow
        yield address
        children = processes_of(running)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 128 + signal.SIGINT
        assert not psutil.wait_procs(children, timeout=60)[1]


def triple(value):
    return 3 * value


def in_python(value):
    return tf.numpy_function(lambda given: 3 * given, [value], tf.int64)


@pytest.mark.slow
def test_each_element_comes_once_in_each_epoch(service):
    distribute = tf.data.experimental.service.distribute("distributed_epoch", service)
    dataset = tf.data.Dataset.range(64).map(triple).apply(distribute)
    for _ in range(2):
        assert sorted(dataset.as_numpy_iterator()) == list(range(0, 192, 3))


@pytest.mark.long
@pytest.mark.slow
def test_tuning_tries_it_and_keeps_batches_as_they_were(service):
    dataset = tf.data.Dataset.range(1000).map(triple).batch(32)
    tuned = tune_input(
        dataset, seconds=6, cache=False, allow_reorder=True, service=service, verbose=False
    )
    (trial,) = [each for each in tuned.trials if each.change == "input-service"]
    assert trial.gain is not None
    assert "triple in the tf.data service" in trial.description
    batches = list(tuned.dataset.as_numpy_iterator())
    assert [len(batch) for batch in batches] == [32] * 31 + [8]
    assert sorted(value for batch in batches for value in batch) == list(range(0, 3000, 3))
    assert ("service.distribute(" in tuned.code) is trial.kept


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (lambda: NUMBERS.map(in_python).batch(9), "calls Python code"),
        (lambda: NUMBERS.take(9).batch(9), "no work lies between"),
        (lambda: tf.data.Dataset.zip((NUMBERS, NUMBERS)).map(tf.add).batch(9), "cannot be split"),
    ],
)
def test_what_cannot_be_moved_is_said(service, dataset, reason, monkeypatch):
    monkeypatch.setattr(Readings, "of", lambda *arguments: lambda: 10.0)  # no time goes by
    tuned = tune_input(dataset(), cache=False, service=service, verbose=False)
    (trial,) = [each for each in tuned.trials if each.change == "input-service"]
    assert reason in trial.note
    assert trial.gain is None


@pytest.mark.heavy
def test_a_process_that_dies_ends_all():
    # Servers that only listen.
    packages = (str(Path(__file__).parent / "stand_ins"), environment()["PYTHONPATH"])
    with started(workers=2, PYTHONPATH=os.pathsep.join(packages)) as (running, _):
        children = processes_of(running)
        next(each for each in children if "dispatcher" in each.cmdline()).kill()
        assert running.wait(60) == 1
        assert not psutil.wait_procs(children, timeout=60)[1]


def test_an_address_that_leads_nowhere_is_refused():
    for service, error, words in (
        ("localhost:5050", ValueError, "must be the address"),
        ("grpc://localhost:1", ValueError, "Nothing answers"),
        (5050, TypeError, "must be the address"),
    ):
        with pytest.raises(error, match=rf"{words}[^$]*Received: service="):
            tune_input(NUMBERS.batch(2), service=service, verbose=False)


def test_the_manifests_are_valid_and_mistakes_exit_with_2(capsys):
    assert main(["input-service", "--kubernetes", "--image", "repo/image:1", "--workers", "5"]) == 0
    manifests = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["kind"] for each in manifests] == ["Service", "Deployment", "Deployment"]
    for each in manifests:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    worker = manifests[2]["spec"]
    assert worker["replicas"] == 5
    assert "input-service:5050" in worker["template"]["spec"]["containers"][0]["command"]
    assert main(["input-service", "--kubernetes"]) == 2
    assert "needs --image" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["input-service", "--workers", "0"])
    assert ended.value.code == 2
