"""What a job accepts, by its flags' names, and how GPUs and ports are shared out."""

import dataclasses
import errno
import socket

import pytest

from keras_gpukit.distributed.launching.job import Job, job_name
from keras_gpukit.distributed.launching.local import shared_gpus
from keras_gpukit.distributed.launching.workers import REUSE, is_listening, reserved_ports


def test_a_job_needs_only_a_script():
    job = Job(name="train", command=("train.py", "--epochs", "3"))
    assert (job.workers, job.parameter_servers, job.restarts) == (1, 0, 0)
    assert (job.gpus_per_worker, job.cpus_per_worker, job.log_dir) == (None, None, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.workers = 2


def test_wrong_values_are_refused():
    for values, complaint in (
        ({"workers": 0}, "`--workers` must be a whole number from 1 on"),
        ({"parameter_servers": -1}, "`--ps` must be a whole number from 0 on"),
        ({"restarts": -1}, "`--restarts` must be a whole number from 0 on"),
        ({"gpus_per_worker": -1}, "`--gpus-per-worker` must be"),
        ({"cpus_per_worker": 0}, "`--cpus-per-worker` must be"),
        *(({"log_dir": __file__}, "is a file"), ({"name": ""}, "needs a name")),
        *(({"command": given}, "Give the SCRIPT to run, or -m MODULE") for given in ((), ("-m",))),
    ):
        with pytest.raises(ValueError, match=complaint):
            Job(**{"name": "train", "command": ("train.py",), **values})
    for workers in (2.0, True):
        with pytest.raises(TypeError, match=f"`--workers` must be .*: --workers={workers}"):
            Job(name="train", command=("train.py",), workers=workers)


def test_the_name_is_that_of_the_script():
    assert job_name(("jobs/train.py", "--epochs", "3")) == "train"
    assert job_name(("-m", "package.train", "-x")) == job_name(["-m", "train"]) == "train"
    assert job_name(()) == ""


def shared(workers: int, visible: str | None, each: int | None = None, gpus: int | None = 4):
    job = Job(name="job", command=("x.py",), workers=workers, gpus_per_worker=each)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return shared_gpus(job, environ, lambda: gpus)


def test_each_worker_gets_gpus_of_its_own():
    for workers, visible, expected in (
        (2, None, ["0,1", "2,3"]),
        (4, None, ["0", "1", "2", "3"]),
        (3, None, ["0", "1", "2"]),
        (2, "3,1", ["3", "1"]),
        (2, " GPU-8a , GPU-9b ", ["GPU-8a", "GPU-9b"]),
        (1, "MIG-5c,MIG-6d", ["MIG-5c,MIG-6d"]),
        (2, "2,0,-1,1", ["2", "0"]),  # CUDA does not show what follows an invalid index
        (2, "-1", [None, None]),
        (2, "", [None, None]),
    ):
        assert shared(workers, visible) == expected
    assert shared(2, None, 1) == ["0", "1"]
    assert shared(2, None, 0) == ["-1", "-1"]
    # Without a GPU, or without a driver, nothing is set.
    assert shared(2, None, gpus=0) == shared(2, None, gpus=None) == [None, None]


@pytest.mark.parametrize(
    ("workers", "visible", "each", "complaint"),
    [
        (8, None, None, "8 workers need at least 8 GPUs.*this machine has 4"),
        (2, "1", None, "CUDA_VISIBLE_DEVICES shows 1"),
        (2, None, 3, "2 workers need at least 6 GPUs.*--gpus-per-worker=3"),
        (2, "-1", 1, "at least 2 GPUs.*CUDA_VISIBLE_DEVICES shows 0"),
    ],
)
def test_too_few_gpus_are_an_error(workers, visible, each, complaint):
    with pytest.raises(ValueError, match=complaint):
        shared(workers, visible, each)


def test_no_other_process_can_take_a_reserved_port():
    with reserved_ports(3) as first, reserved_ports(3) as second:
        assert len({*first, *second}) == 6
        for port in first:
            with socket.socket() as stranger, pytest.raises(OSError) as raised:
                stranger.bind(("", port))
            assert raised.value.errno == errno.EADDRINUSE
            assert not is_listening(port)
    with socket.socket() as stranger:
        stranger.bind(("", first[0]))  # it is free once the job has ended
    # One in use is not given.
    with reserved_ports(200) as others, reserved_ports(200) as own:
        assert not {*others} & {*own}


@pytest.mark.tensorflow
def test_tensorflows_server_takes_a_reserved_port(run_script):
    """Fails when TensorFlow no longer reads the variable."""
    with reserved_ports(1) as [port]:
        server = f"""
import socket, tensorflow as tf
tf.distribute.Server({{"worker": ["127.0.0.1:{port}"]}}, job_name="worker", task_index=0)
socket.create_connection(("127.0.0.1", {port}), timeout=60)
print("connected")
"""
        assert "connected" in run_script(server, **REUSE).stdout
