"""Sentences and figures about a run for the HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keras_gpukit.records.environment import Environment
from keras_gpukit.records.finding import Finding
from keras_gpukit.records.report import RunReport, State
from keras_gpukit.records.run import RunSummary
from keras_gpukit.reports import phrases, units

STATES: dict[State, str] = {
    "completed": "completed",
    "interrupted": "interrupted",
    "running": "running",
    "unfinished": "end unknown",
}


@dataclass(frozen=True)
class Verdict:
    """The headline of a run.

    Attributes:
        severity: "critical", "warning" or "info" with a finding. Without one, "good"; or "unknown"
            if the run was not judged, was interrupted, or its time is not accounted for.
        headline: Summary in one line.
        finding: Finding that the headline states; None without one.
        note: Parts that were not judged, and why; None with a finding, or if all were.
    """

    severity: str
    headline: str
    finding: Finding | None = None
    note: str | None = None


def verdict(run: RunReport) -> Verdict:
    """Returns the worst finding as a headline; without a finding, "good" or "unknown"."""
    told = run.summary.verdict
    worst = phrases.worst(run.summary)
    if worst is not None:
        return Verdict(worst.severity, worst.title, worst)
    if not (told.findings or told.passed or told.not_applicable):
        return Verdict("unknown", "Not judged: the run has no figures to judge by.")
    # Finding nothing is no good news if the run's time is not accounted for.
    unclear = run.summary.ending == "interrupted" or phrases.ACCOUNT_OF_TIME in told.not_applicable
    severity = "unknown" if unclear else "good"
    return Verdict(severity, phrases.all_well(run.summary), note=phrases.checks(told))


def saving(finding: Finding) -> str | None:
    """Returns the saving from fixing a finding; None if it is unknown."""
    return None if finding.saving is None else f"saves {phrases.saved(finding.saving)}"


def sentence(text: str) -> str:
    """Capitalizes the first letter, unless the first word looks like a name."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def not_told(run: RunReport, because: str) -> str:
    """Explains a missing figure that runs record at their end and after their first seconds.

    `because` is the explanation for a run that ended with a summary.
    """
    if run.state == "unfinished":
        return "the run ended before it was recorded"
    return "it is not known yet" if run.state == "running" else because


def key_figures(summary: RunSummary) -> tuple[tuple[str, str], ...]:
    """Returns the most important known figures as pairs of name and value."""
    throughput, record = summary.throughput, summary.input
    figures: list[tuple[str, str]] = []
    if throughput is not None:
        if throughput.step_time_s is not None:
            figures.append(("step time", units.duration(throughput.step_time_s)))
        if throughput.examples_per_s is not None:
            each = " on each worker" if summary.environment.workers > 1 else ""
            name = f"examples per second{each}"
            figures.append((name, units.number(throughput.examples_per_s)))
    if record is not None and record.stall_fraction is not None:
        fractions = phrases.input_fractions(summary)
        if fractions is None:
            figures.append(("input stall", phrases.stall(record)))
        else:
            figures.append(("input, of the run", phrases.input_of_run(summary) or ""))
            if fractions[1] > phrases.LEAST_SHARE:
                starts = units.percentage(fractions[1])
                figures.append(("of the run, until each epoch's first batch", starts))
    figures += [
        (f"GPU {gpu.index} busy", f"{units.number(gpu.utilization_percent)} %")
        for gpu in summary.gpus
        if gpu.utilization_percent is not None
    ]
    figures += [
        (f"GPU {gpu.index}", f"not read to the end: {gpu.lost_because}")
        for gpu in summary.gpus
        if gpu.lost_because is not None
    ]
    figures += [
        (f"{memory.device} peak memory", units.size(memory.needed_bytes))
        for memory in summary.allocators
    ]
    figures += _memory_by_cause(summary)
    if throughput is not None:
        figures.append(("steps", f"{throughput.steps:,}"))
        if throughput.wall_s is not None:
            figures.append(("whole run", units.duration(throughput.wall_s)))
    if summary.overhead_s is not None:
        figures.append(("overhead per step", units.duration(summary.overhead_s)))
    return tuple(figures)


def _memory_by_cause(summary: RunSummary) -> list[tuple[str, str]]:
    """Returns the measured parts of the peak memory, and the predicted peak if there is one."""
    record = summary.memory
    if record is None or record.fullest is None or record.weights_bytes is None:
        return []
    predicted = phrases.predicted_peak(record.prediction)
    figures = (
        ("weights", record.weights_bytes),
        ("optimizer slots", record.slots_bytes),
        ("activations, gradients and workspace", record.steps_bytes(record.fullest)),
    )
    measured = [(name, units.size(size)) for name, size in figures if size is not None]
    return [*([("peak memory, predicted", predicted)] if predicted else []), *measured]


def setup(summary: RunSummary) -> tuple[tuple[str, str], ...]:
    """Returns the run's setup as pairs of name and value."""
    environment = summary.environment
    facts = [*environment.versions.items()]
    for gpu in environment.gpus:
        memory = "" if gpu.memory_bytes is None else f", {units.size(gpu.memory_bytes)}"
        facts.append((f"GPU {gpu.index}", f"{gpu.name or 'of unknown name'}{memory}"))
    told = {
        "TensorFlow built with CUDA": _yes_no(environment.cuda_build),
        "cores": environment.cpu_count,
        "precision": environment.precision,
        "jit_compile": _yes_no(environment.jit_compile),
        "run_eagerly": _yes_no(environment.run_eagerly),
        "steps_per_execution": environment.steps_per_execution,
        "strategy": environment.strategy,
        "replicas": environment.replicas,
        "worker": _worker(environment),
        "TensorFloat-32 allowed": _yes_no(environment.tf32),
    }
    if environment.versions and not environment.gpus:
        facts.append(("GPUs", "none"))
    facts += [(name, str(value)) for name, value in told.items() if value is not None]
    return tuple(facts)


def moment(time_s: float | None) -> str:
    """Formats a time, in seconds since the Unix epoch, in the local time zone."""
    if time_s is None:
        return "unknown"
    return datetime.fromtimestamp(time_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _worker(environment: Environment) -> str | None:
    worker = environment.worker
    if worker is None or worker.task_type is None:
        return None
    index = "" if worker.index is None else f", index {worker.index}"
    together = " that train together"
    how = ", trains alone: it made no strategy" if environment.trains_alone else together
    count = "" if worker.count is None else f" of {worker.count:,}{how}"
    return f"{worker.task_type}{index}{count}"


def _yes_no(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"
