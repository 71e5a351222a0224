"""What a machine has and lacks for training on its GPUs, as people read it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table

from keras_gpukit.records.installation import Machine
from keras_gpukit.records.setup import Action, Cause
from keras_gpukit.reports.printable import plain
from keras_gpukit.reports.setup import actions_table, gpu_table, no_gpu_text

_STYLES = {"ok": "green", "missing": "bold red", "set": ""}
Line = tuple[str, str, str]
"""A mark, what it is about, and what was found."""


def render(
    versions: Mapping[str, str | None],
    machine: Machine,
    *,
    can_train: bool,
    actions: tuple[Action, ...],
    causes: tuple[Cause, ...],
    not_applied: tuple[str, ...],
    warnings: tuple[str, ...],
) -> RenderableType:
    """A line for each thing that was looked at, marked ok or missing; then what follows from it.

    Args:
        versions: Of packages; None for one that is not installed.
        machine: What was read.
        can_train: Whether a GPU can be used.
        actions: What `configure_gpus()` would set.
        causes: Why no GPU can be used.
        not_applied: What would have no effect.
        warnings: What else there is to know.
    """
    facts = Table(box=None, pad_edge=False, show_header=False)
    for mark, name, found in lines(versions, machine):
        facts.add_row(plain(mark, style=_STYLES[mark]), name, plain(found))
    parts: list[RenderableType] = [facts, ""]
    if not can_train:
        return Group(*parts, no_gpu_text(causes, not_applied))
    parts += [gpu_table(machine.gpus), plain("\nconfigure_gpus() would set:", style="bold")]
    parts.append(actions_table(actions))
    parts += [plain(f"Warning: {warning}", style="yellow") for warning in warnings]
    return Group(*parts)


def lines(versions: Mapping[str, str | None], machine: Machine) -> Iterator[Line]:
    """What was looked at: "ok", "missing", or for an environment variable "set"."""
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
        yield _found(f"  {library.name}", library.path, "not found")
    gpus = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in machine.gpus)
    yield _found("GPUs that TensorFlow sees", gpus or None, "none")
    for name, value in machine.environment.items():
        yield "set", name, repr(value)


def _found(name: str, found: str | None, otherwise: str) -> Line:
    return ("missing", name, otherwise) if found is None else ("ok", name, found)
