"""`doctor` over NVIDIA's binding: one GPU is full, the other lost; then the first is free again."""

import argparse
import contextlib
import io
import json
import sys

from helpers.fake_nvml import GIB, FakeGPU, FakeNVML
from stand_in import pretend, uuid

from keras_gpukit.cli import doctor, examination
from keras_gpukit.sensors import gpu_health

pretend(2)
examination.packages_distributions = dict  # whatever is installed here
gpu_health.in_first_namespace = lambda: True
gpus = [
    FakeGPU(uuid(0), memory_used=80 * GIB - 1, processes={2**22 + 1: 79 * GIB}, ecc_uncorrected=1),
    FakeGPU(uuid(1), lost=True),
]
sys.modules["pynvml"] = FakeNVML(gpus)


def examined():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = doctor.run(argparse.Namespace(json=True))
    return code, json.loads(printed.getvalue())


code, found = examined()
assert code == 1
assert not found["can_train_on_gpu"]
assert [(each["code"], each["gpu"]) for each in found["problems"]] == [
    ("memory_held", 0),
    ("gpu_lost", 1),
    ("ecc_errors", 0),
]
assert found["health"][0]["processes"] == [{"pid": 2**22 + 1, "used_bytes": 79 * GIB, "name": None}]

gpus[0].memory_used = GIB
code, found = examined()
assert code == 0
assert [each["code"] for each in found["problems"]] == ["gpu_lost", "ecc_errors"]
