"""`keras-gpukit doctor`: can this machine train on its GPUs, and if not, why."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_gpukit.cli.quiet import load_tensorflow_quietly
from keras_gpukit.configure.plan import Plan, plan
from keras_gpukit.configure.settings import Settings
from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.installation import Machine
from keras_gpukit.reports.setup import actions_table, gpu_table, no_gpu_text
from keras_gpukit.rules.no_gpu import import_fails
from keras_gpukit.sensors.installation import read_environment, read_machine
from keras_gpukit.sensors.nvml import read_driver

_PACKAGES = ("keras", "tensorflow", "tensorboard", "xprof", "keras-gpukit")


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="say whether this machine can train on its GPUs, and if not, why",
        description="Looks at versions, driver, CUDA libraries and GPUs, and says what "
        "configure_gpus() would do. Changes nothing. Exits with 0 if a GPU can be used, else 1.",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Examines the machine and prints what it found.

    Returns:
        0 if training can use a GPU, else 1.
    """
    versions = _versions()
    with contextlib.suppress(Exception):  # examine() reports what is broken
        load_tensorflow_quietly()
    machine, planned = examine()
    if args.json:
        print(json.dumps(_as_dict(versions, machine, planned), indent=2))
    else:
        _print(Console(), versions, machine, planned)
    return 0 if planned.gpus else 1


def examine() -> tuple[Machine, Plan]:
    """Reads the machine, and plans for it what `configure_gpus()` would do."""
    try:
        machine = read_machine()
    except Exception as error:  # TensorFlow or Keras is broken, which is what a doctor is for
        machine = Machine(driver=read_driver(), environment=read_environment())
        return machine, Plan(causes=(import_fails(error),))
    return machine, plan(Settings(), machine)


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def _as_dict(versions: dict[str, str | None], machine: Machine, planned: Plan) -> dict[str, Any]:
    return {
        "can_train_on_gpu": bool(planned.gpus),
        "versions": versions,
        "gpus": [to_dict(gpu) for gpu in machine.gpus],
        "driver": to_dict(machine.driver),
        "tensorflow_build": to_dict(machine.build),
        "libraries": [to_dict(library) for library in machine.libraries],
        "environment": dict(machine.environment),
        "plan": planned.to_dict(),
    }


def _print(
    console: Console, versions: dict[str, str | None], machine: Machine, planned: Plan
) -> None:
    facts = Table(box=None, pad_edge=False, show_header=False)
    for package, number in versions.items():
        facts.add_row(package, number or "not installed")
    driver = machine.driver
    facts.add_row("NVIDIA driver", driver.version or f"not available ({driver.error})")
    if driver.cuda_version is not None:
        facts.add_row("  runs CUDA up to", "{}.{}".format(*driver.cuda_version))
    build = machine.build
    if build.cuda is not None:
        versions_built = f"CUDA {build.cuda_version}, cuDNN {build.cudnn_version}"
        facts.add_row("TensorFlow is built for", versions_built if build.cuda else "CPUs only")
    for library in machine.libraries:
        facts.add_row(f"  {library.name}", Text(library.path or "missing"))
    for name, value in machine.environment.items():
        facts.add_row(name, Text(repr(value)))
    console.print(facts)
    console.print()
    if not planned.gpus:
        console.print(no_gpu_text(planned.causes, planned.not_applied))
        return
    console.print(gpu_table(machine.gpus))
    console.print(Text("\nconfigure_gpus() would set:", style="bold"))
    console.print(actions_table(planned.actions))
    for warning in planned.warnings:
        console.print(Text(f"Warning: {warning}", style="yellow"))
