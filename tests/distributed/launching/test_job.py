"""What a job accepts; the messages name the flag by which a value was given."""

from __future__ import annotations

import dataclasses

import pytest

from keras_gpukit.distributed.launching.job import Job, job_name


def test_a_job_needs_only_a_script():
    job = Job(name="train", command=("train.py", "--epochs", "3"))
    assert (job.workers, job.parameter_servers, job.restarts) == (1, 0, 0)
    assert (job.gpus_per_worker, job.cpus_per_worker, job.log_dir) == (None, None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.workers = 2


@pytest.mark.parametrize(
    ("values", "error", "complaint"),
    [
        ({"workers": 0}, ValueError, "`--workers` must be a whole number from 1 on"),
        ({"workers": 2.0}, TypeError, "`--workers` must be .* Received: --workers=2.0"),
        ({"workers": True}, TypeError, "`--workers`"),
        ({"parameter_servers": -1}, ValueError, "`--ps` must be a whole number from 0 on"),
        ({"restarts": -1}, ValueError, "`--restarts` must be a whole number from 0 on"),
        ({"gpus_per_worker": -1}, ValueError, "`--gpus-per-worker` must be"),
        ({"cpus_per_worker": 0}, ValueError, "`--cpus-per-worker` must be"),
        ({"log_dir": __file__}, ValueError, "is a file"),
        ({"command": ()}, ValueError, "Give the SCRIPT to run, or -m MODULE"),
        ({"command": ("-m",)}, ValueError, "Give the SCRIPT to run, or -m MODULE"),
        ({"name": ""}, ValueError, "needs a name"),
    ],
)
def test_wrong_values_are_refused(values, error, complaint):
    with pytest.raises(error, match=complaint):
        Job(**{"name": "train", "command": ("train.py",), **values})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("jobs/train.py", "--epochs", "3"), "train"),
        (("-m", "package.train", "-x"), "train"),
        (["-m", "train"], "train"),
        ((), ""),
    ],
)
def test_the_name_is_that_of_the_script(command, name):
    assert job_name(command) == name
