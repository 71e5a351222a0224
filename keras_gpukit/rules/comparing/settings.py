"""The settings of a run as they are shown and compared."""

from __future__ import annotations

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary


def setup(environment: Environment) -> dict[str, str]:
    """Returns versions, devices and execution settings as they are shown, by name."""
    facts: dict[str, object] = {**environment.versions}
    for gpu in environment.gpus:
        memory = "" if gpu.memory_bytes is None else f", {gpu.memory_bytes / 2**30:.3g} GiB"
        facts[f"GPU {gpu.index}"] = f"{gpu.name or 'of unknown name'}{memory}"
    if environment.versions and not environment.gpus:
        facts["GPUs"] = "none"
    facts |= {
        "TensorFlow built with CUDA": environment.cuda_build,
        "cores": environment.cpu_count,
        "precision": environment.precision,
        "jit_compile": environment.jit_compile,
        "run_eagerly": environment.run_eagerly,
        "steps_per_execution": environment.steps_per_execution,
        "strategy": environment.strategy,
        "replicas": environment.replicas,
        "worker": _worker(environment),
        "TensorFloat-32 allowed": environment.tf32,
    }
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in facts.items()
        if value is not None
    }


def settings_of(run: RunReport) -> dict[str, str]:
    """Returns a run's settings by name, the most frequently changed ones first."""
    environment = run.summary.environment
    versions, trainable = environment.versions, environment.trainable_bytes
    preprocessing = ", ".join(environment.preprocessing)
    known = {
        "call": run.phase,
        "examples per step": examples_per_step(run.summary),
        "trainable weights": None if trainable is None else f"{trainable:,} bytes",
        "preprocessing in the model": preprocessing or None,
        **{name: text for name, text in setup(environment).items() if name not in versions},
        **{key: text if text != key else "on" for key, text in environment.settings.items()},
        **versions,
    }
    return {name: value for name, value in known.items() if value is not None}


def examples_per_step(summary: RunSummary) -> str | None:
    """Returns the batch size of a step, computed from examples per second and the step time."""
    rate, step_s = summary.examples_per_s, summary.step_time_s
    if not rate or not step_s:
        return None
    examples = rate * step_s
    # A smaller last batch lowers the mean slightly below the batch size.
    whole = abs(examples - round(examples)) <= 0.01 * examples
    return f"{examples:,.0f}" if whole or examples >= 100 else f"{examples:.3g}"


def _worker(environment: Environment) -> str | None:
    worker = environment.worker
    if worker is None or worker.task_type is None:
        return None
    index = "" if worker.index is None else f", index {worker.index}"
    together = " that train together"
    how = ", trains alone: it made no strategy" if environment.trains_alone else together
    count = "" if worker.count is None else f" of {worker.count:,}{how}"
    return f"{worker.task_type}{index}{count}"
