"""Known faults of versions of Keras and TensorFlow that explain what a run shows.

A fault is one entry of `KNOWN_FAULTS`. It explains a finding that another rule made: so it is named
only where the run suffers from it, and only in versions that have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from keras_gpukit.records.finding import Finding
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import advise
from keras_gpukit.rules.whole_run.steady_growth import THIS_PROCESS
from keras_gpukit.rules.whole_run.time_parts import TENSORBOARD, tensorboard_costs_s

ON_EPOCH_BEGIN = "PyDataset.on_epoch_begin"
"""Key, in `Environment.settings`, of the lines of a dataset with several workers that read what its
`on_epoch_begin` sets."""
PACKAGES = {"keras": "Keras", "tensorflow": "TensorFlow"}
_CAUSES = {"kept_in", "models_alive", "traced_again"}


@dataclass(frozen=True)
class KnownFault:
    """One fault of a package.

    Attributes:
        versions: Versions that have it, as in requirements: "<3.15".
        explains: Code of the rule whose finding it explains.
        shows: Whether the run, with that finding, shows this fault; its docstring says how.
        says: Behaviour of the version, in words that follow its name.
        advice: Change that avoids it; code is between backquotes.
        thread: Public thread on it.
        python: Versions of Python with which it occurs, as in requirements; "" for all.
    """

    package: str
    versions: str
    explains: str
    shows: Callable[[RunSummary, Finding], bool]
    says: str
    advice: str
    thread: str
    python: str = ""


def explained(finding: Finding, summary: RunSummary) -> Finding:
    """Returns a finding with the known fault that explains it, if there is one."""
    versions = summary.environment.versions
    for fault in KNOWN_FAULTS:
        version = versions.get(fault.package)
        if (
            fault.explains == finding.code
            and _is_in(version, fault.versions)
            and (not fault.python or _is_in(versions.get("python"), fault.python))
            and fault.shows(summary, finding)
        ):
            what_to_do = advise(f"{fault.advice} ({fault.thread})")
            return replace(
                finding,
                title=f"{finding.title}: {PACKAGES[fault.package]} {version} {fault.says}",
                advice=(what_to_do.text, *finding.advice),
                actions=(what_to_do, *finding.actions),
            )
    return finding


def _is_in(version: str | None, versions: str) -> bool:
    try:
        return version is not None and Version(version) in SpecifierSet(versions, prereleases=True)
    except InvalidVersion:
        return False


def _reads_too_early(summary: RunSummary, finding: Finding) -> bool:
    """Several workers, and an exception on a line that reads what `on_epoch_begin` sets."""
    reads = summary.environment.settings.get(ON_EPOCH_BEGIN, "")
    line, is_of_input = summary.error_line, summary.ended_kind == "input"
    return line is not None and is_of_input and line in re.split(r", | |;", reads)


def _is_gradient_of_dense(summary: RunSummary, finding: Finding) -> bool:
    """The backward pass of a `Dense` layer asked for a tensor of three axes or more."""
    record = summary.out_of_memory
    if record is None or not record.backward or record.layer_class != "Dense":
        return False
    return record.shape is not None and len(record.shape) > 2


def _writes_each_batch(summary: RunSummary, finding: Finding) -> bool:
    """`TensorBoard(update_freq=N)`, above 1, which takes its time between steps."""
    setting = summary.environment.settings.get(f"{TENSORBOARD}.update_freq", "")
    given = re.search(r"update_freq=(\d+)", setting)
    is_rare = given is not None and int(given[1]) > 1
    is_costly = "update_freq" in tensorboard_costs_s(summary)
    return is_rare and is_costly and finding.about == TENSORBOARD


def _compiles_each_model(summary: RunSummary, finding: Finding) -> bool:
    """`jit_compile`; the process grows with each fit, and each fit traces."""
    traces = any(figure.key == "traced_again" for figure in finding.evidence)
    return bool(summary.environment.jit_compile) and traces and finding.about == THIS_PROCESS


def _has_generator(summary: RunSummary, finding: Finding) -> bool:
    """A generator in the pipeline, and no other known cause of the process's growth."""
    is_known = any(figure.key in _CAUSES for figure in finding.evidence)
    stages = summary.pipeline.stages if summary.pipeline else ()
    generates = any(stage.kind == "generator" for stage in stages)
    return generates and not is_known and finding.about == THIS_PROCESS


_KERAS = "https://github.com/keras-team/keras"
_TENSORFLOW = "https://github.com/tensorflow/tensorflow"
KNOWN_FAULTS = (
    KnownFault(
        "keras",
        ">=3.5,<3.16",
        "ended-by-error",
        _reads_too_early,
        "starts the workers before on_epoch_begin, which sets what this line reads",
        "Set it in `__init__` and again in `on_epoch_end`, or use `workers=1`",
        f"{_KERAS}/issues/23283",
    ),
    KnownFault(
        "keras",
        ">=3.0,<3.15",
        "out-of-memory",
        _is_gradient_of_dense,
        "makes the gradient of Dense on more than two axes once for each example",
        "`pip install 'keras>=3.15'`, or flatten to two axes before the layer",
        f"{_KERAS}/issues/22823",
    ),
    KnownFault(
        "keras",
        ">=3.0,<3.15",
        "slow-callbacks",
        _writes_each_batch,
        "ignores the number and writes at each batch",
        "`pip install 'keras>=3.15'`, or `TensorBoard(update_freq='epoch')`",
        f"{_KERAS}/pull/22357",
    ),
    KnownFault(
        "tensorflow",
        ">=2.15",
        "memory-grows",
        _compiles_each_model,
        "keeps each program that XLA compiles for a new model",
        "`compile(jit_compile=False)`, or train each model in a process of its own",
        f"{_TENSORFLOW}/issues/64170",
    ),
    KnownFault(
        "tensorflow",
        "<2.21",
        "memory-grows",
        _has_generator,
        "may keep what `from_generator` yields, with Python 3.11 and newer",
        "Yield batches in place of examples, read files by a `map`, or use Python 3.10",
        f"{_TENSORFLOW}/issues/65675",
        python=">=3.11",
    ),
)
"""All known faults, from which the reference makes its table."""
