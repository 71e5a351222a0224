"""Results of checking a machine's GPU setup, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from keras_gpukit.records.gpu_health import CUDAPackage, GPUHealth, Problem
from keras_gpukit.records.installation import CUDALibrary, Machine
from keras_gpukit.records.setup import Action, Cause
from keras_gpukit.reports.printable import plain
from keras_gpukit.reports.setup import actions_table, gpu_table, no_gpu_text
from keras_gpukit.reports.units import size

_STYLES = {"ok": "green", "missing": "bold red", "broken": "bold red", "set": ""}
Line = tuple[str, str, str]
"""One line of the output: a mark, the name of the checked item, and the result."""


def render(
    versions: Mapping[str, str | None],
    machine: Machine,
    *,
    health: Sequence[GPUHealth],
    packages: Sequence[CUDAPackage],
    problems: Sequence[Problem],
    uses_gpu: bool,
    actions: tuple[Action, ...],
    causes: tuple[Cause, ...],
    not_applied: tuple[str, ...],
    warnings: tuple[str, ...],
) -> RenderableType:
    """Returns a line with a mark for each checked item, then the conclusions.

    Args:
        versions: Version by package name; None if the package is not installed.
        machine: Facts that were read about the machine.
        health: State of each GPU.
        packages: NVIDIA's pip packages that TensorFlow can use.
        problems: Problems that block a GPU or put it at risk.
        uses_gpu: Whether TensorFlow lists a GPU that would be used.
        actions: Settings that `configure_gpus()` would make.
        causes: Reasons why no GPU can be used.
        not_applied: Arguments that have no effect without a GPU.
        warnings: Further warnings; shown only if a GPU is used.
    """
    facts = Table(box=None, pad_edge=False, show_header=False)
    found = (*lines(versions, machine), *package_lines(packages), *health_lines(machine, health))
    for mark, name, text in found:
        facts.add_row(plain(mark, style=_STYLES[mark]), name, plain(text))
    parts: list[RenderableType] = [facts, ""]
    if not uses_gpu:
        parts.append(no_gpu_text(causes, not_applied))
    else:
        parts += [gpu_table(machine.gpus), plain("\nconfigure_gpus() would set:", style="bold")]
        parts.append(actions_table(actions))
    parts += [
        plain(
            f"{'Blocked' if problem.blocks else 'Problem'}: {problem}",
            style="bold red" if problem.blocks else "yellow",
        )
        for problem in problems
    ]
    if uses_gpu:
        parts += [plain(f"Warning: {warning}", style="yellow") for warning in warnings]
    return Group(*parts)


def lines(versions: Mapping[str, str | None], machine: Machine) -> Iterator[Line]:
    """Yields a line per checked item, marked "ok", "missing", "broken" or (variables) "set"."""
    for package, number in versions.items():
        yield _found(package, number, "not installed")
    driver = machine.driver
    yield _found("NVIDIA driver", driver.version, f"not available ({driver.error})")
    if driver.cuda_version is not None:
        yield "ok", "  runs CUDA up to", "{}.{}".format(*driver.cuda_version)
    build = machine.build
    if build.cuda is not None:
        with_cuda = f"CUDA {build.cuda_version}, cuDNN {build.cudnn_version}"
        yield _found("TensorFlow is built for", with_cuda if build.cuda else None, "CPUs only")
    for library in machine.libraries:
        yield _library(library)
    gpus = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in machine.gpus)
    yield _found("GPUs that TensorFlow sees", gpus or None, "none")
    for name, value in machine.environment.items():
        yield "set", name, repr(value)


def _library(library: CUDALibrary) -> Line:
    name = f"  {library.name}"
    if library.path is None:
        return "missing", name, _about_another(library) or "not found"
    version = "" if library.version is None else f"{library.version}, "
    source = "" if library.source != "LD_LIBRARY_PATH" else " (LD_LIBRARY_PATH)"
    if library.error is not None:
        return "broken", name, f"{library.path}{source}: {library.error}"
    return "ok", name, f"{version}{library.path}{source}"


def _about_another(library: CUDALibrary) -> str | None:
    """Returns the loader's message if it is about a file other than the library; else None."""
    if library.error is None or library.error.startswith(f"{library.name}: cannot open"):
        return None
    return library.error


def package_lines(packages: Sequence[CUDAPackage]) -> Iterator[Line]:
    """Yields a line per NVIDIA pip package whose version does not meet TensorFlow's requirement."""
    for package in packages:
        if package.fits is False:
            found = f"{package.installed}; TensorFlow asks for {package.needs}"
            yield "broken", package.name, found


def health_lines(machine: Machine, health: Sequence[GPUHealth]) -> Iterator[Line]:
    """Yields a line per GPU of the machine: its PCI address, memory in use and TensorFlow index."""
    states = {each.index: each for each in health}
    own = {machine.driver.position_of(gpu.uuid): gpu.index for gpu in machine.gpus}
    for gpu in machine.driver.gpus:
        if gpu.error is not None:
            yield "broken", f"GPU {gpu.index} of the machine", f"does not answer ({gpu.error})"
            continue
        state = states.get(gpu.index, GPUHealth(gpu.index))
        used, total = state.memory_used_bytes, gpu.memory_bytes
        memory = "" if used is None or total is None else f", {size(used)} of {size(total)} in use"
        parts = "" if gpu.mig is None else f", {len(gpu.mig)} MIG instances"
        where = gpu.pci_bus_id or "unknown place"
        listed = f", TensorFlow's GPU {own[gpu.index]}" if gpu.index in own else ""
        found = f"{gpu.name or 'unknown name'} at {where}{memory}{parts}{listed}"
        yield "ok", f"GPU {gpu.index} of the machine", found


def _found(name: str, found: str | None, otherwise: str) -> Line:
    return ("missing", name, otherwise) if found is None else ("ok", name, found)
