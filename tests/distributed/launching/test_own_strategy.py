"""The strategy that a script makes itself, as in TensorFlow's tutorial, or none at all."""

import json
import subprocess
import sys

import pytest
from helpers import prepared
from helpers.clusters import free_addresses
from helpers.launches import Launch
from helpers.processes import environment

from keras_gpukit.distributed.launching.job import RUNNER

MAKES_IT = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
scope = strategy.scope()
"""
FIT = """
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
data = np.random.default_rng(0)
x, y = data.normal(size=(256, 4)).astype("float32"), data.integers(0, 3, 256)
batches = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32)
with scope:
    layers = keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")
    model = keras.Sequential(layers)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
fit = model.fit(batches, epochs=2, steps_per_epoch=10, verbose=0)
print(json.dumps(fit.history))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    script = tmp_path_factory.mktemp("alone") / "script.py"
    script.write_text("import contextlib, json\nscope = contextlib.nullcontext()\n" + FIT)
    history = json.loads(prepared.run(script).stdout)
    return {name: pytest.approx(values, rel=1e-4) for name, values in history.items()}


# In `make test`, an example trains on several workers that `launch` starts, with our strategy.
@pytest.mark.tensorflow
@pytest.mark.long
def test_it_trains_as_one_process(tmp_path, alone):
    done = Launch(tmp_path, MAKES_IT + FIT, "--workers=2", "--monitor").run(timeout_s=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "PerReplica" not in done.stderr
    histories = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines()]
    assert len(histories) == 2
    assert histories == [alone, alone]
    assert "Report: " in done.stderr
    assert "workers-not-connected" not in done.stderr


def elsewhere(addresses, index):
    """Variables as Kubernetes sets them for a job that `launch --kubernetes` has written."""
    given = {"GPUKIT_WORKERS": "2", "GPUKIT_ADDRESSES": ",".join(addresses)}
    return given | {"JOB_COMPLETION_INDEX": str(index)}


def by_hand(addresses, index):
    task = {"type": "worker", "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}


@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "variables"),
    [(RUNNER, elsewhere), (("-m", "keras_gpukit", "run"), by_hand)],
    ids=["on a cluster", "under run"],
)
def test_it_trains_as_one_process_in_a_cluster(tmp_path, alone, command, variables):
    (tmp_path / "script.py").write_text("import json\n" + MAKES_IT + FIT)
    addresses = free_addresses(2)
    plain = {name: text for name, text in environment().items() if name != "TF_CONFIG"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    full = [sys.executable, *command, "script.py"]
    environments = [plain | variables(addresses, index) for index in range(2)]
    workers = [subprocess.Popen(full, env=each, **options) for each in environments]
    printed, errors = zip(*(each.communicate(timeout=240) for each in workers), strict=True)
    assert [each.returncode for each in workers] == [0, 0], errors
    assert [json.loads(line) for line in printed] == [alone, alone]
    if variables is by_hand:
        [report] = tmp_path.glob("logs/script-2-workers-*/report.html")
        assert "2 of 2 workers" in report.read_text() or "2 workers compared" in report.read_text()
        assert errors[0].count("Report: ") == 1
        assert "the chief reports on all workers" in errors[1]


ALONE = """
import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.zeros((256, 4), "float32")
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
print(sys.argv)
"""


# In `make test`, an example trains on several workers, each monitored.
@pytest.mark.tensorflow
@pytest.mark.long
def test_without_one_all_processes_are_in_one_report_which_says_so(tmp_path):
    launch = Launch(tmp_path, ALONE, "--workers=2", "--monitor", arguments=("--epochs", "2"))
    result = launch.run(timeout_s=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.count("['script.py', '--epochs', '2']") == 2
    [report] = tmp_path.glob("logs/script-*/report.html")
    assert f"Report: {report.relative_to(tmp_path)}\n" in result.stderr
    assert result.stderr.count("Report: ") == 1
    assert "workers-not-connected" in report.read_text()
    assert "workers compared" not in result.stderr
    assert "2, trains alone: it made no strategy" in report.read_text()
    assert "fits were monitored" not in result.stderr  # both workers run the same one
    records = sorted(tmp_path.glob("logs/script-*/*/gpukit/run-*.jsonl"))
    assert [record.name for record in records] == ["run-0.jsonl", "run-1.jsonl"]
    for record in records:
        last = json.loads(record.read_text().splitlines()[-1])
        assert last["record"]["throughput"]["steps"] == 64, last


def test_a_job_that_recorded_nothing_names_no_report(tmp_path):
    done = Launch(tmp_path, "raise SystemExit(3)", "--workers=2", "--monitor").run()
    assert done.returncode == 3
    assert "keras-gpukit report" not in done.stderr
