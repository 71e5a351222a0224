"""Pairs of what two runs both have: settings, stages of their pipelines, layers, devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from operator import attrgetter
from typing import TypeVar

from keras_gpukit.records.comparison import SettingPair, StagePair, TimePair
from keras_gpukit.records.pipeline import StageRecord
from keras_gpukit.records.profile import LayerProfile
from keras_gpukit.records.run import RunSummary

T = TypeVar("T")
MOST_LAYERS = 10
_NAME, _KIND, _PATH = map(attrgetter, ("name", "kind", "path"))
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
    return tuple(
        StagePair(ours, theirs, (_is_bottleneck(a, ours), _is_bottleneck(b, theirs)))
        for ours, theirs in _aligned(_stages(a), _stages(b), _NAME, _KIND)
    )


def written_pairs(a: RunSummary, b: RunSummary) -> Iterator[tuple[str, str | None, str | None]]:
    """Yields stages that differ, and what each script has of them.

    "cache after load" is None or "present"; "load" is "after shuffle" in one, and elsewhere in b.
    """
    sides = [(each.pipeline and each.pipeline.written) or () for each in (a, b)]
    if not all(sides):
        return
    ours, theirs = (each[::-1] for each in sides)  # as one reads the script
    codes = SequenceMatcher(None, ours, theirs).get_opcodes()
    changed = [spans for same, *spans in codes if same != "equal"]
    gone = [place for begin, end, *_ in changed for place in range(begin, end)]
    for place in (place for *_, begin, end in changed for place in range(begin, end)):
        was = next((each for each in gone if ours[each] == theirs[place]), None)
        if was is None:
            yield f"{theirs[place]}{_after(theirs, place)}", None, "present"
        else:
            gone.remove(was)
            yield theirs[place], _after(ours, was).strip(), _after(theirs, place).strip()
    yield from ((f"{ours[place]}{_after(ours, place)}", "present", None) for place in gone)


def _after(names: Sequence[str], place: int) -> str:
    return f" after {names[place - 1]}" if place else ""


def _aligned(
    a: Sequence[T], b: Sequence[T], name: Callable[[T], str], kind: Callable[[T], str]
) -> Iterator[tuple[T | None, T | None]]:
    """Yields pairs of the same name; of other names, those of the same kind; and single ones."""
    shared = set(map(name, a)) & set(map(name, b))
    keys = [
        [name(each) if name(each) in shared else f" {kind(each)}" for each in of] for of in (a, b)
    ]
    matched = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for same, a_from, a_to, b_from, b_to in matched.get_opcodes():
        if same == "equal":
            yield from zip(a[a_from:a_to], b[b_from:b_to], strict=True)
        else:
            yield from ((each, None) for each in a[a_from:a_to])
            yield from ((None, each) for each in b[b_from:b_to])


def _stages(summary: RunSummary) -> tuple[StageRecord, ...]:
    """Returns the stages of a pipeline, and the Python code that feeds it as another one."""
    stages = summary.pipeline.stages if summary.pipeline else ()
    python = summary.input.python if summary.input else None
    if python is None or any(each.name == python.name for each in stages):
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
    only are the same, in the order of the forward pass.
    """
    layers = [summary.profile.layers if summary.profile else () for summary in (a, b)]
    if not all(layers):
        return ()
    pairs = []
    for ours, theirs in _aligned(layers[0], layers[1], _PATH, _unnumbered):
        paths = dict.fromkeys(each.path for each in (ours, theirs) if each is not None)
        times_s = (None if each is None else each.time_s for each in (ours, theirs))
        pairs.append(TimePair(" → ".join(paths), *times_s))
    pairs.sort(key=lambda pair: -abs(pair.difference_s))
    return tuple(pairs[:MOST_LAYERS])


def _unnumbered(layer: LayerProfile) -> str:
    return _NUMBER.sub("", layer.path)


def operation_pairs(a: RunSummary, b: RunSummary) -> tuple[SettingPair, ...]:
    """Returns the number of a step's operations by device, and those that fell back to the CPU."""
    if a.operations is None or b.operations is None:
        return ()
    return differing(dict(_operations(a)), dict(_operations(b)))


def _operations(summary: RunSummary) -> Iterator[tuple[str, str]]:
    for device, count in summary.placement.items():
        yield f"operations on {device}", f"{count:,}"
    if summary.operations is not None and not summary.operations.predicted:
        for each in summary.operations.fallbacks:
            yield f"{each.operation} on the CPU ({each.cause})", f"{each.count:,}"


def run_parts(a: RunSummary, b: RunSummary) -> tuple[TimePair, ...]:
    """Returns the parts of the wall time of both runs; empty unless both are known."""
    parts = a.breakdown, b.breakdown
    if parts[0] is None or parts[1] is None:
        return ()
    pairs = (TimePair(name, parts[0].parts[name], parts[1].parts[name]) for name in parts[0].parts)
    return tuple(pair for pair in pairs if pair.a_s or pair.b_s)
