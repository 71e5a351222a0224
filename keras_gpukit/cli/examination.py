"""Examination of the machine by `keras-gpukit doctor`, and how a terminal shows it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version
from rich.console import Group, RenderableType

from keras_gpukit.cli.tried_fit import TriedFit
from keras_gpukit.configure.plan import Plan, plan
from keras_gpukit.configure.settings import Settings
from keras_gpukit.frameworks.private_names import missing_names
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import (
    Build,
    CUDALibrary,
    CUDAPackage,
    Driver,
    GPUHealth,
    Machine,
    MissingNames,
    Problem,
)
from keras_gpukit.records.names import SCHEMA
from keras_gpukit.reports.setup import actions_table, gpu_table, no_gpu_text
from keras_gpukit.reports.terminal import plain, table
from keras_gpukit.reports.units import size
from keras_gpukit.rules.setup.gpu_problems import gpu_problems, library_problems, newer_gpus
from keras_gpukit.rules.setup.no_gpu import import_fails
from keras_gpukit.sensors.compilations import compilations
from keras_gpukit.sensors.driver import read_driver
from keras_gpukit.sensors.gpu_health import read_health, read_xids
from keras_gpukit.sensors.installation import (
    read_environment,
    read_machine,
    read_packages,
    try_loading,
)
from keras_gpukit.version import __version__

COUNTERS = "tensorflow:counters in the layout of 2.21"
_PACKAGES = ("keras", "tensorflow", "tensorboard", "xprof")
_STYLES = {"ok": "green", "missing": "bold red", "broken": "bold red", "set": ""}
Check = tuple[str, str, str]
"""A checked item: a mark, its name, and the result."""


@dataclass(frozen=True)
class DoctorFindings:
    """Findings of `keras-gpukit doctor`, as `--json` prints them.

    Attributes:
        can_train_on_gpu: Whether one of the GPUs that would be used is not blocked.
        versions: Versions of Python and of packages; None for a package that is not installed.
        gpus: GPUs that TensorFlow lists.
        environment: Environment variables that matter to GPUs.
        problems: Problems of libraries, GPUs and TensorBoard; those that block a GPU say so.
        not_measured: Measurements that lack private names of the installed TensorFlow and Keras, or
            found nothing in a trial; None if these cannot be loaded.
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


def examine() -> tuple[DoctorFindings, str]:
    """Reads the machine, and plans what `configure_gpus()` would do on it.

    Returns:
        The findings, and the framework that Keras runs on.
    """
    not_measured, tried = None, TriedFit()
    try:
        machine = read_machine()
        machine = replace(machine, libraries=try_loading(machine.libraries))
        planned = plan(Settings(), machine)
        not_measured = missing_names()
        if compilations() is None:
            not_measured += (MissingNames("compilations by XLA", (COUNTERS,)),)
        not_measured += tuple(MissingNames(measurement) for measurement in tried.lacks() or ())
    except Exception as error:  # TensorFlow or Keras is broken, which is what a doctor is for
        machine = Machine(driver=read_driver(), environment=read_environment())
        planned = Plan(causes=(import_fails(error, os.environ.get("KERAS_BACKEND")),))
        tried.stop()
    health = read_health(machine.driver.gpus, read_xids())
    packages = read_packages() if machine.libraries else ()
    problems = (
        *library_problems(machine.libraries, packages),
        *newer_gpus(machine.driver.gpus, machine.build),
        *gpu_problems(machine.driver.gpus, health),
        *_tensorboard_problems(installed := versions()),
        *_two_keras(),
    )
    found = DoctorFindings(
        can_train_on_gpu=_can_train(machine, planned, problems),
        versions=installed,
        gpus=machine.gpus,
        driver=machine.driver,
        tensorflow_build=machine.build,
        libraries=machine.libraries,
        packages=packages,
        environment=dict(machine.environment),
        health=health,
        problems=problems,
        not_measured=not_measured,
        plan=planned,
    )
    return found, machine.keras_backend


def _can_train(machine: Machine, planned: Plan, problems: Sequence[Problem]) -> bool:
    """Whether one of the GPUs that would be used is not blocked."""
    blocking = {problem.gpu for problem in problems if problem.blocks}
    used = {machine.driver.position_of(machine.gpus[i].uuid) for i in planned.gpus}
    if None in used:  # it could be any GPU of the machine, or the driver lists none
        used |= {gpu.index for gpu in machine.driver.gpus}
        used -= {None} if machine.driver.gpus else set()
    return bool(used - blocking) and None not in blocking


def _tensorboard_problems(installed: dict[str, str | None]) -> tuple[Problem, ...]:
    """Returns a problem if TensorBoard lacks `pkg_resources`, which setuptools 82 removed.

    TensorBoard imports it at its start up to 2.20 (`tensorboard/default.py`).
    """
    number = installed["tensorboard"]
    if number is None or Version(number) >= Version("2.21") or find_spec("pkg_resources"):
        return ()
    text = (
        f"TensorBoard {number} cannot start: it needs pkg_resources, which setuptools 82 removed."
    )
    return (Problem("tensorboard_cannot_start", text, 'pip install "setuptools<82".'),)


def _two_keras() -> tuple[Problem, ...]:
    """Returns a problem if two distributions have put their files into one folder `keras`.

    TensorFlow 2.22.0rc0 requires keras-nightly; pip installs both if another package needs keras.
    """
    distributions = sorted(set(packages_distributions().get("keras", ())))
    if len(distributions) < 2:
        return ()
    names = " and ".join(distributions)
    text = f"{names} are both installed, into one folder: which files are whose is chance."
    advice = f"pip uninstall -y {' '.join(distributions)}, then install one of them."
    return (Problem("two_keras", text, advice),)


def keras_version() -> str | None:
    """Returns the version that Keras' own file says, whatever its distribution is called.

    It is read without importing Keras, which may be broken. None if it is not found.
    """
    found = find_spec("keras")
    if found is None or found.origin is None:
        return None
    try:
        source = Path(found.origin).parent.joinpath("src", "version.py").read_text("utf-8")
    except OSError:
        return None
    number = re.search(r"__version__ = ['\"]([^'\"]+)['\"]", source)
    return number[1] if number else None


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of packages; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    found["keras"] = keras_version() or found["keras"]
    # Not the installed distribution's: this may run from its sources.
    return {**found, "keras-gpukit": __version__}


def view(found: DoctorFindings, backend: str) -> RenderableType:
    """Returns the answer and what `configure_gpus()` would do, then a line for each check."""
    lines = (*_checks(found, backend), *_packages(found), *_gpus(found), *_measurements(found))
    facts = table([(plain(mark, style=_STYLES[mark]), name, said) for mark, name, said in lines])
    planned = found.plan
    shown: list[RenderableType] = [no_gpu_text(planned.causes, planned.not_applied)]
    if planned.gpus:
        heading = plain("\nconfigure_gpus() would set:", style="bold")
        shown = [gpu_table(found.gpus), heading, actions_table(planned.actions)]
    for problem in found.problems:
        kind, style = ("Blocked", "bold red") if problem.blocks else ("Problem", "yellow")
        shown.append(plain(f"{kind}: {problem}", style=style))
    warnings = planned.warnings if planned.gpus else ()
    shown += [plain(f"Warning: {warning}", style="yellow") for warning in warnings]
    return Group(*shown, "", facts)


def _checks(found: DoctorFindings, backend: str) -> Iterator[Check]:
    for package, number in found.versions.items():
        yield _found(package, number, "not installed")
    driver, build = found.driver, found.tensorflow_build
    lacking = "not found" if driver.error == "LibraryNotFound" else f"NVML says {driver.error}"
    yield _found("NVIDIA driver", driver.version, lacking)
    if driver.cuda_version is not None:
        yield "ok", "  runs CUDA up to", "{}.{}".format(*driver.cuda_version)
    if backend != "tensorflow":
        advice = "keras_gpukit works on TensorFlow only (set KERAS_BACKEND=tensorflow)"
        yield "missing", "Keras on TensorFlow", f"Keras runs on {backend}; {advice}"
    if build.cuda is not None:
        known = {"CUDA": build.cuda_version, "cuDNN": build.cudnn_version}
        with_cuda = ", ".join(f"{name} {number}" for name, number in known.items() if number)
        with_cuda = with_cuda or "a CUDA of unknown version"
        yield _found("TensorFlow is built for", with_cuda if build.cuda else None, "CPUs only")
    missing = [library for library in found.libraries if library.path is None]
    if driver.version is None and missing:
        count = f"{len(missing)} of {len(found.libraries)} not found"
        yield "missing", "CUDA libraries", f"{count}; that matters once there is a driver"
    else:
        yield from map(_library, found.libraries)
    gpus = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in found.gpus)
    yield _found("GPUs that TensorFlow sees", gpus or None, "none")
    for name, value in found.environment.items():
        yield "set", name, repr(value)


def _library(library: CUDALibrary) -> Check:
    name, error = f"  {library.name}", library.error
    if library.path is None:
        # The loader's message may be about another file, which the library needs.
        is_own = error is None or error.startswith(f"{library.name}: cannot open")
        return "missing", name, "not found" if is_own else error or ""
    source = "" if library.source != "LD_LIBRARY_PATH" else " (LD_LIBRARY_PATH)"
    if error is not None:
        return "broken", name, f"{library.path}{source}: {error}"
    version = "" if library.version is None else f"{library.version}, "
    return "ok", name, f"{version}{library.path}{source}"


def _packages(found: DoctorFindings) -> Iterator[Check]:
    """Yields a line per NVIDIA pip package whose version does not meet TensorFlow's requirement."""
    for wheel in found.packages:
        if wheel.fits is False:
            yield "broken", wheel.name, f"{wheel.installed}; TensorFlow asks for {wheel.needs}"


def _gpus(found: DoctorFindings) -> Iterator[Check]:
    """Yields a line per GPU of the machine: its PCI address, memory in use and TensorFlow index."""
    states = {health.index: health for health in found.health}
    own = {found.driver.position_of(gpu.uuid): gpu.index for gpu in found.gpus}
    for gpu in found.driver.gpus:
        name = f"GPU {gpu.index} of the machine"
        if gpu.error is not None:
            yield "broken", name, f"does not answer ({gpu.error})"
            continue
        used = states.get(gpu.index, GPUHealth(gpu.index)).memory_used_bytes
        total = gpu.memory_bytes
        memory = "" if used is None or total is None else f", {size(used)} of {size(total)} in use"
        parts = "" if gpu.mig is None else f", {len(gpu.mig)} MIG instances"
        where = gpu.pci_bus_id or "unknown place"
        listed = f", TensorFlow's GPU {own[gpu.index]}" if gpu.index in own else ""
        yield "ok", name, f"{gpu.name or 'unknown name'} at {where}{memory}{parts}{listed}"


def _measurements(found: DoctorFindings) -> Iterator[Check]:
    """Yields a line per measurement that finds nothing or lacks names, or one if all are there."""
    if found.not_measured == ():
        yield "ok", "measurements", "all are available with this TensorFlow and Keras"
    for missing in found.not_measured or ():
        lacks = [] if missing.names else ["a small model was trained, and it found nothing"]
        for module, _, path in (name.partition(":") for name in missing.names):
            package = module.partition(".")[0]
            lacks.append(f"{package} {found.versions.get(package)} has no {path}")
        yield "missing", missing.measurement, f"unknown or less precise: {', '.join(lacks)}"


def _found(name: str, found: str | None, otherwise: str) -> Check:
    return ("missing", name, otherwise) if found is None else ("ok", name, found)
