"""What `keras-gpukit doctor` looks at."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from keras_gpukit.configure.plan import Plan, plan
from keras_gpukit.configure.settings import Settings
from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.installation import Machine
from keras_gpukit.rules.no_gpu import import_fails
from keras_gpukit.sensors.installation import read_environment, read_machine
from keras_gpukit.sensors.nvml import read_driver

_PACKAGES = ("keras", "tensorflow", "tensorboard", "xprof", "keras-gpukit")


def examine() -> tuple[Machine, Plan]:
    """Reads the machine, and plans for it what `configure_gpus()` would do."""
    try:
        machine = read_machine()
    except Exception as error:  # TensorFlow or Keras is broken, which is what a doctor is for
        machine = Machine(driver=read_driver(), environment=read_environment())
        return machine, Plan(causes=(import_fails(error),))
    return machine, plan(Settings(), machine)


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of packages; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def as_dict(found: dict[str, str | None], machine: Machine, planned: Plan) -> dict[str, Any]:
    """Everything that was found, ready for JSON."""
    return {
        "can_train_on_gpu": bool(planned.gpus),
        "versions": found,
        "gpus": [to_dict(gpu) for gpu in machine.gpus],
        "driver": to_dict(machine.driver),
        "tensorflow_build": to_dict(machine.build),
        "libraries": [to_dict(library) for library in machine.libraries],
        "environment": dict(machine.environment),
        "plan": planned.to_dict(),
    }
