"""`launch --monitor`: a record of each process, and one report on all of them."""

from __future__ import annotations

import json

import pytest
from helpers.launches import Launch

FIT = """
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
def test_all_processes_are_in_one_report(tmp_path):
    launch = Launch(tmp_path, FIT, "--workers=2", "--monitor", arguments=("--epochs", "2"))
    result = launch.run(timeout_s=240)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.count("['script.py', '--epochs', '2']") == 2
    [report] = tmp_path.glob("logs/script-*/report.html")
    assert f"Report: {report.relative_to(tmp_path)}\n" in result.stderr
    assert result.stderr.count("Report: ") == 1
    # The script made no strategy, so there is nothing to compare.
    assert "workers-not-connected" in report.read_text()
    assert "workers compared" not in result.stderr
    assert "2, trains alone: it made no strategy" in report.read_text()
    assert "fits were monitored" not in result.stderr  # both workers run the same one
    records = sorted(tmp_path.glob("logs/script-*/*/gpukit/run-*.jsonl"))
    assert [record.name for record in records] == ["run-0.jsonl", "run-1.jsonl"]
    for record in records:
        last = json.loads(record.read_text().splitlines()[-1])
        assert last["record"]["throughput"]["steps"] == 64, last
