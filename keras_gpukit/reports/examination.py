"""Results of checking a machine's GPU setup, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType

from keras_gpukit.records.installation import (
    CUDALibrary,
    CUDAPackage,
    GPUHealth,
    Machine,
    MissingNames,
    Problem,
)
from keras_gpukit.records.setup import Action, Cause
from keras_gpukit.reports.setup import actions_table, gpu_table, no_gpu_text
from keras_gpukit.reports.terminal import plain, table
from keras_gpukit.reports.units import size

_STYLES = {"ok": "green", "missing": "bold red", "broken": "bold red", "set": ""}
Check = tuple[str, str, str]
"""One line of the output: a mark, the name of the checked item, and the result."""


def render(
    versions: Mapping[str, str | None],
    machine: Machine,
    *,
    health: Sequence[GPUHealth],
    packages: Sequence[CUDAPackage],
    problems: Sequence[Problem],
    not_measured: Sequence[MissingNames] | None,
    uses_gpu: bool,
    actions: tuple[Action, ...],
    causes: tuple[Cause, ...],
    not_applied: tuple[str, ...],
    warnings: tuple[str, ...],
) -> RenderableType:
    """Returns a line with a mark for each checked item, then the conclusions.

    `versions` are those of packages, None for one that is not installed. `not_measured` is None if
    TensorFlow or Keras cannot be loaded. `actions`, `causes`, `not_applied` and `warnings` are what
    `configure_gpus()` would do and say; `uses_gpu` is whether it would use a GPU.
    """
    checks = (
        *_checks(versions, machine),
        *_package_checks(packages),
        *_gpus(machine, health),
        *_measurements(versions, not_measured),
    )
    facts = table([(plain(mark, style=_STYLES[mark]), name, found) for mark, name, found in checks])
    if uses_gpu:
        heading = plain("\nconfigure_gpus() would set:", style="bold")
        setup = [gpu_table(machine.gpus), heading, actions_table(actions)]
    else:
        setup = [no_gpu_text(causes, not_applied)]
    found = [
        plain(f"Blocked: {problem}", style="bold red")
        if problem.blocks
        else plain(f"Problem: {problem}", style="yellow")
        for problem in problems
    ]
    notes = [plain(f"Warning: {each}", style="yellow") for each in warnings if uses_gpu]
    return Group(facts, "", *setup, *found, *notes)


def _checks(versions: Mapping[str, str | None], machine: Machine) -> Iterator[Check]:
    for package, number in versions.items():
        yield _found(package, number, "not installed")
    driver = machine.driver
    yield _found("NVIDIA driver", driver.version, f"not available ({driver.error})")
    if driver.cuda_version is not None:
        yield "ok", "  runs CUDA up to", "{}.{}".format(*driver.cuda_version)
    backend, build = machine.keras_backend, machine.build
    if backend != "tensorflow":
        advice = "keras_gpukit works on TensorFlow only (set KERAS_BACKEND=tensorflow)"
        yield "missing", "Keras on TensorFlow", f"Keras runs on {backend}; {advice}"
    if build.cuda is not None:
        with_cuda = f"CUDA {build.cuda_version}, cuDNN {build.cudnn_version}"
        yield _found("TensorFlow is built for", with_cuda if build.cuda else None, "CPUs only")
    for library in machine.libraries:
        yield _library(library)
    gpus = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in machine.gpus)
    yield _found("GPUs that TensorFlow sees", gpus or None, "none")
    for name, value in machine.environment.items():
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


def _package_checks(packages: Sequence[CUDAPackage]) -> Iterator[Check]:
    """Yields a line per NVIDIA pip package whose version does not meet TensorFlow's requirement."""
    for each in packages:
        if each.fits is False:
            yield "broken", each.name, f"{each.installed}; TensorFlow asks for {each.needs}"


def _gpus(machine: Machine, health: Sequence[GPUHealth]) -> Iterator[Check]:
    """Yields a line per GPU of the machine: its PCI address, memory in use and TensorFlow index."""
    states = {each.index: each for each in health}
    own = {machine.driver.position_of(gpu.uuid): gpu.index for gpu in machine.gpus}
    for gpu in machine.driver.gpus:
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


def _measurements(
    versions: Mapping[str, str | None], not_measured: Sequence[MissingNames] | None
) -> Iterator[Check]:
    """Yields a line per measurement that lacks private names, or one if all have theirs."""
    if not_measured is None:
        return
    if not not_measured:
        yield "ok", "measurements", "all are available with this TensorFlow and Keras"
    for each in not_measured:
        lacks = []
        for module, _, path in (name.partition(":") for name in each.names):
            package = module.partition(".")[0]
            lacks.append(f"{package} {versions.get(package)} has no {path}")
        yield "missing", each.measurement, f"unknown or less precise: {', '.join(lacks)}"


def _found(name: str, found: str | None, otherwise: str) -> Check:
    return ("missing", name, otherwise) if found is None else ("ok", name, found)
