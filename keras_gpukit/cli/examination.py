"""Examination of the machine by `keras-gpukit doctor`."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from keras_gpukit.configure.plan import Plan, plan
from keras_gpukit.configure.settings import Settings
from keras_gpukit.records.codec import SCHEMA
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.gpu_health import CUDAPackage, GPUHealth, Problem
from keras_gpukit.records.installation import (
    Build,
    CUDALibrary,
    Driver,
    Machine,
    MissingNames,
)
from keras_gpukit.rules.setup.gpu_problems import gpu_problems, library_problems
from keras_gpukit.rules.setup.no_gpu import import_fails
from keras_gpukit.sensors.compilations import compilations
from keras_gpukit.sensors.cuda_libraries import read_packages, try_loading
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.gpu_health import read_health, read_xids
from keras_gpukit.sensors.installation import read_environment, read_machine
from keras_gpukit.sensors.private_names import missing_names
from keras_gpukit.version import __version__

COUNTERS = "tensorflow:counters in the layout of 2.21"
_PACKAGES = ("keras", "tensorflow", "tensorboard", "xprof")


@dataclass(frozen=True)
class Examination:
    """Results of the examination.

    Attributes:
        versions: Versions of Python and of packages; None for a package that is not installed.
        machine: GPUs, driver, libraries and settings of the machine.
        planned: Plan of what `configure_gpus()` would do.
        health: State of each GPU.
        packages: NVIDIA's pip packages.
        problems: Problems of libraries and GPUs, which block a GPU or put it at risk.
        not_measured: Measurements that lack private names of the installed TensorFlow and Keras;
            None if these cannot be loaded.
    """

    versions: dict[str, str | None]
    machine: Machine
    planned: Plan
    health: tuple[GPUHealth, ...] = ()
    packages: tuple[CUDAPackage, ...] = ()
    problems: tuple[Problem, ...] = ()
    not_measured: tuple[MissingNames, ...] | None = ()

    @property
    def can_train(self) -> bool:
        """Whether one of the GPUs that would be used is not blocked."""
        machine = self.machine
        blocking = {each.gpu for each in self.problems if each.blocks}
        used = {machine.driver.position_of(machine.gpus[i].uuid) for i in self.planned.gpus}
        if None in used:  # it could be any GPU of the machine, or the driver lists none
            used |= {gpu.index for gpu in machine.driver.gpus}
            used -= {None} if machine.driver.gpus else set()
        return bool(used - blocking) and None not in blocking


@dataclass(frozen=True)
class DoctorFindings:
    """Findings of `keras-gpukit doctor`, as `--json` prints them.

    Attributes:
        can_train_on_gpu: Whether one of the GPUs that would be used is not blocked.
        versions: Versions of Python and of packages; None for a package that is not installed.
        gpus: GPUs that TensorFlow lists.
        environment: Environment variables that matter to GPUs.
        problems: Problems of libraries and GPUs, which block a GPU or put it at risk.
        not_measured: Measurements that lack private names of the installed TensorFlow and Keras;
            None if these cannot be loaded.
        plan: Plan of `configure_gpus()`.
        schema: Version of the layout.
    """

    can_train_on_gpu: bool
    versions: dict[str, str | None]
    gpus: tuple[GPUInfo, ...]
    driver: Driver
    tensorflow_build: Build
    libraries: tuple[CUDALibrary, ...]
    packages: tuple[CUDAPackage, ...]
    environment: dict[str, str]
    health: tuple[GPUHealth, ...]
    problems: tuple[Problem, ...]
    not_measured: tuple[MissingNames, ...] | None
    plan: Plan
    schema: int = SCHEMA


def examine() -> Examination:
    """Reads the machine, and plans what `configure_gpus()` would do on it."""
    not_measured = None
    try:
        machine = read_machine()
        machine = replace(machine, libraries=try_loading(machine.libraries))
        planned = plan(Settings(), machine)
        not_measured = missing_names()
        if compilations() is None:
            not_measured += (MissingNames("compilations by XLA", (COUNTERS,)),)
    except Exception as error:  # TensorFlow or Keras is broken, which is what a doctor is for
        machine = Machine(driver=read_driver(), environment=read_environment())
        planned = Plan(causes=(import_fails(error),))
    health = read_health(machine.driver.gpus, read_xids())
    packages = read_packages() if machine.libraries else ()
    problems = (
        *library_problems(machine.libraries, packages),
        *gpu_problems(machine.driver.gpus, health),
    )
    return Examination(
        versions(), machine, planned, health, packages, problems, not_measured=not_measured
    )


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of packages; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    # Not the installed distribution's: this may run from its sources.
    return {**found, "keras-gpukit": __version__}


def findings_of(found: Examination) -> DoctorFindings:
    """Returns all findings, ready for JSON."""
    machine = found.machine
    return DoctorFindings(
        can_train_on_gpu=found.can_train,
        versions=found.versions,
        gpus=machine.gpus,
        driver=machine.driver,
        tensorflow_build=machine.build,
        libraries=machine.libraries,
        packages=found.packages,
        environment=dict(machine.environment),
        health=found.health,
        problems=found.problems,
        not_measured=found.not_measured,
        plan=found.planned,
    )
