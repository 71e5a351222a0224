"""How GPUs are shared out among the workers of a machine."""

from __future__ import annotations

import pytest

from keras_gpukit.distributed.launching.job import Job
from keras_gpukit.distributed.launching.local import shared_gpus


def shared(workers: int, visible: str | None, *, each: int | None = None, gpus: int | None = 4):
    job = Job(name="job", command=("x.py",), workers=workers, gpus_per_worker=each)
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return shared_gpus(job, environ, lambda: gpus)


@pytest.mark.parametrize(
    ("workers", "visible", "each", "expected"),
    [
        (2, None, None, ["0,1", "2,3"]),
        (4, None, None, ["0", "1", "2", "3"]),
        (3, None, None, ["0", "1", "2"]),
        (2, None, 1, ["0", "1"]),
        (2, "3,1", None, ["3", "1"]),
        (2, " GPU-8a , GPU-9b ", None, ["GPU-8a", "GPU-9b"]),
        (1, "MIG-5c,MIG-6d", None, ["MIG-5c,MIG-6d"]),
        (2, "2,0,-1,1", None, ["2", "0"]),  # CUDA does not show what follows an invalid index
        (2, None, 0, ["-1", "-1"]),
        (2, "-1", None, [None, None]),
        (2, "", None, [None, None]),
    ],
)
def test_each_worker_gets_its_own(workers, visible, each, expected):
    assert shared(workers, visible, each=each) == expected


def test_without_a_gpu_or_driver_nothing_is_set():
    assert shared(2, None, gpus=None) == [None, None]
    assert shared(2, None, gpus=0) == [None, None]


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
        shared(workers, visible, each=each)
