"""Pairs of what two runs have: settings, stages of their pipelines, layers, devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from keras_gpukit.records.comparison import SettingPair, StagePair, TimePair
from keras_gpukit.records.environment import Environment
from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.report import RunReport
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TIME_PARTS


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
        "worker": _worker_words(environment),
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


def _worker_words(environment: Environment) -> str | None:
    worker = environment.worker
    if worker is None or worker.task_type is None:
        return None
    index = "" if worker.index is None else f", index {worker.index}"
    together = " that train together"
    how = ", trains alone: it made no strategy" if environment.trains_alone else together
    count = "" if worker.count is None else f" of {worker.count:,}{how}"
    return f"{worker.task_type}{index}{count}"


MOST_LAYERS = 10
_NUMBER = re.compile(r"_\d+(?=/|$)")


def differing(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[SettingPair, ...]:
    """Returns the values that differ, in their order."""
    names = dict.fromkeys((*a, *b))
    pairs = (SettingPair(name, a.get(name), b.get(name)) for name in names)
    return tuple(pair for pair in pairs if pair.a != pair.b)


def stage_pairs(a: RunSummary, b: RunSummary) -> tuple[StagePair, ...]:
    """Returns the stages of both pipelines, the same stage of each together.

    Stages are the same if they have the same name or, for names that only one pipeline has, such as
    those of functions on another line, the same kind, in the same order.
    """
    ours, theirs = _stages(a), _stages(b)
    shared = {stage.name for stage in ours} & {stage.name for stage in theirs}
    keys = [
        [stage.name if stage.name in shared else f" {stage.kind}" for stage in of]
        for of in (ours, theirs)
    ]
    pairs: list[tuple[StageRecord | None, StageRecord | None]] = []
    matched = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for same, a_from, a_to, b_from, b_to in matched.get_opcodes():
        if same == "equal":
            pairs += zip(ours[a_from:a_to], theirs[b_from:b_to], strict=True)
        else:
            pairs += [(stage, None) for stage in ours[a_from:a_to]]
            pairs += [(None, stage) for stage in theirs[b_from:b_to]]
    return tuple(
        StagePair(one, other, (_is_bottleneck(a, one), _is_bottleneck(b, other)))
        for one, other in pairs
    )


def written_pairs(a: RunSummary, b: RunSummary) -> Iterator[tuple[str, str | None, str | None]]:
    """Yields stages that differ, and what each script has of them.

    "cache after load" is None or "present"; "load" is "after shuffle" in one, and elsewhere in b.
    """
    sides = [(summary.pipeline and summary.pipeline.written) or () for summary in (a, b)]
    if not all(sides):
        return
    ours, theirs = (side[::-1] for side in sides)  # as one reads the script
    codes = SequenceMatcher(None, ours, theirs).get_opcodes()
    changed = [spans for same, *spans in codes if same != "equal"]
    gone = [place for begin, end, *_ in changed for place in range(begin, end)]
    for place in (place for *_, begin, end in changed for place in range(begin, end)):
        was = next((index for index in gone if ours[index] == theirs[place]), None)
        if was is None:
            yield f"{theirs[place]}{_after(theirs, place)}", None, "present"
        else:
            gone.remove(was)
            yield theirs[place], _after(ours, was).strip(), _after(theirs, place).strip()
    yield from ((f"{ours[place]}{_after(ours, place)}", "present", None) for place in gone)


def _after(names: Sequence[str], place: int) -> str:
    return f" after {names[place - 1]}" if place else ""


def _stages(summary: RunSummary) -> tuple[StageRecord, ...]:
    """Returns the stages of a pipeline, and the Python code that feeds it as another one."""
    stages = summary.pipeline.stages if summary.pipeline else ()
    python = summary.input.python if summary.input else None
    if python is None or any(stage.name == python.name for stage in stages):
        return stages
    code = StageRecord(
        python.name,
        "Python code in processes" if python.in_processes else "Python code",
        "python",
        python.location,
        cost_per_batch_s=python.time_per_batch_s,
        parallelism=python.workers,
    )
    return (*stages, code)


def _is_bottleneck(summary: RunSummary, stage: StageRecord | None) -> bool:
    pipeline = summary.pipeline
    return stage is not None and pipeline is not None and pipeline.bottleneck == stage


def layer_pairs(a: RunSummary, b: RunSummary) -> tuple[TimePair, ...]:
    """Returns the layers whose time differs most; empty unless both profiles have layers.

    Keras numbers layers and models by process ("dense_7"). Those whose names differ in that number
    only are the same, in the order of the forward pass. What has the same name is the same wherever
    it stands: layers that run side by side have no fixed order.
    """
    ours_s, theirs_s = (_times_by_layer(summary.profile) for summary in (a, b))
    if not (ours_s and theirs_s):
        return ()
    pairs = [TimePair(path, ours_s[path], theirs_s[path]) for path in ours_s if path in theirs_s]
    others: dict[str, list[str]] = {}
    for path in (layer for layer in theirs_s if layer not in ours_s):
        others.setdefault(_NUMBER.sub("", path), []).append(path)
    for path in (layer for layer in ours_s if layer not in theirs_s):
        same = others.get(_NUMBER.sub("", path))
        if same:
            pairs.append(TimePair(f"{path} → {same[0]}", ours_s[path], theirs_s[same.pop(0)]))
        else:
            pairs.append(TimePair(path, ours_s[path], None))
    pairs += [TimePair(path, None, theirs_s[path]) for left in others.values() for path in left]
    pairs.sort(key=lambda pair: -abs(pair.difference_s))
    return tuple(pairs[:MOST_LAYERS])


def _times_by_layer(profile: ProfileRecord | None) -> dict[str, float]:
    """Returns the seconds of each layer by its path, in the order of the forward pass."""
    found: dict[str, float] = {}
    for layer in profile.layers if profile else ():
        found[layer.path] = found.get(layer.path, 0.0) + layer.time_s
    return found


def operation_pairs(a: RunSummary, b: RunSummary) -> tuple[SettingPair, ...]:
    """Returns the number of a step's operations by device, and those that fell back to the CPU."""
    if a.operations is None or b.operations is None:
        return ()
    return differing(dict(_operations(a)), dict(_operations(b)))


def _operations(summary: RunSummary) -> Iterator[tuple[str, str]]:
    for device, count in summary.placement.items():
        yield f"operations on {device}", f"{count:,}"
    if summary.operations is not None and not summary.operations.predicted:
        for fallback in summary.operations.fallbacks:
            yield f"{fallback.operation} on the CPU ({fallback.cause})", f"{fallback.count:,}"


def run_parts(a: RunSummary, b: RunSummary) -> tuple[TimePair, ...]:
    """Returns the parts of the wall time of both runs; empty unless both are known."""
    parts = a.breakdown, b.breakdown
    if parts[0] is None or parts[1] is None:
        return ()
    pairs = (
        TimePair(TIME_PARTS[part], spent_s, parts[1].parts[part])
        for part, spent_s in parts[0].parts.items()
    )
    return tuple(pair for pair in pairs if pair.a_s or pair.b_s)
