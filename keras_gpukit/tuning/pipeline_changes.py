"""Proposes changes to a `tf.data` pipeline that keep its elements; caching has its own module."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from keras_gpukit.frameworks.tf_datasets import Dataset, functions, inputs, kind, number
from keras_gpukit.frameworks.tf_stages import in_parallel, parallel_form
from keras_gpukit.input.pipelines.functions import function_name
from keras_gpukit.input.pipelines.randomness import changes_in_parallel, impurities, movable, serve
from keras_gpukit.input.pipelines.rebuilding import changeable, is_known, replace, spine
from keras_gpukit.tuning.as_code import TUNING_OPTIONS
from keras_gpukit.tuning.trials import Proposal


@dataclass(frozen=True)
class Allowed:
    """Changes that the user allows."""

    reorder: bool = False
    trust_python: bool = False


SERVICE = "input-service"
Propose = Callable[[Dataset, Allowed], Proposal | None]


def parallel_maps(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes to run serial maps in parallel, if their elements stay the same."""
    maps = [stage for stage in _serial(dataset, "Map") if not _hindered(stage, allowed)]
    return _in_parallel(dataset, maps, allowed, "parallel-map")


def hindered_maps(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Names serial maps that are not tried in parallel, because their elements may change."""
    maps = [stage for stage in _serial(dataset, "Map") if _hindered(stage, allowed)]
    if not maps:
        return None
    untrusted = any("python" in impurities(stage) for stage in maps) and not allowed.trust_python
    would = "trust_python=True" if untrusted else "allow_reorder=True"
    reasons = "; ".join(sorted({_hindered(stage, allowed) or "" for stage in maps}))
    reason = f"not tried: {reasons} ({would} would allow it)"
    description = _DESCRIPTIONS["parallel-map"].format(_names(maps))
    return Proposal("parallel-map", description, blocked=reason)


def parallel_files(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes to read files ahead or in parallel: a parallel `interleave` or `flat_map`."""
    readers = [
        stage
        for stage in _serial(dataset, "Interleave", "FlatMap")
        if not _hindered(stage, allowed)
        and int(inputs(stage)[0].cardinality()) != 1
        # The automatic cycle length differs between serial and parallel interleave.
        and (allowed.reorder or kind(stage) == "FlatMap" or number(stage, "cycle_length") > 0)
    ]
    return _in_parallel(dataset, readers, allowed, "parallel-files")


def parallel_batches(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes to assemble batches in parallel."""
    return _in_parallel(dataset, _serial(dataset, "Batch"), allowed, "parallel-batch")


def prefetch(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes to prefetch batches while the model trains."""
    import tensorflow as tf

    last = next((stage for stage in spine(dataset) if kind(stage) != "Options"), dataset)
    if kind(last) != "Prefetch" or not is_known(last):
        description = "make batches ahead: prefetch at the end"
        return Proposal("prefetch", description, dataset.prefetch(tf.data.AUTOTUNE), overlaps=True)
    if number(last, "buffer_size") == tf.data.AUTOTUNE:
        return None
    deeper = replace(dataset, {id(last): lambda below: below[0].prefetch(tf.data.AUTOTUNE)})
    return Proposal("prefetch", "prefetch as many as pays", deeper, overlaps=True)


def any_order(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes not to wait for an element that takes longer than those after it."""
    if not allowed.reorder or dataset.options().deterministic is False:
        return None
    if not any(kind(stage).startswith("Parallel") for stage in _unique(dataset)):
        return None
    changed, lines = _with_option(dataset, "deterministic", False)
    return Proposal("any-order", "do not wait for slow elements", changed, lines)


def more_threads(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes more threads than cores, for functions that wait for files or the network."""
    if dataset.options().threading.private_threadpool_size:
        return None
    if not any(kind(stage).startswith("Parallel") for stage in _unique(dataset)):
        return None
    size = max(16, 4 * (os.cpu_count() or 1))
    changed, lines = _with_option(dataset, "threading.private_threadpool_size", size)
    return Proposal("more-threads", f"{size} threads of its own", changed, lines)


def autotuning(dataset: Dataset, allowed: Allowed) -> Proposal | None:
    """Proposes to enable autotuning of the parallelism if it is disabled."""
    if dataset.options().autotune.enabled is not False:
        return None
    changed, lines = _with_option(dataset, "autotune.enabled", True)
    return Proposal("autotune", "switch autotuning on", changed, lines)


def serving(dataset: Dataset, allowed: Allowed, service: str) -> Proposal:
    """Proposes to make elements in a service, up to the first stage that must stay local."""
    moved, reason = movable(spine(dataset))
    if moved is None:
        return Proposal(SERVICE, "make elements in the tf.data service", blocked=reason)
    reorders = "the order of elements changes (allow_reorder=True allows it)"
    return Proposal(
        SERVICE,
        f"run {_names(spine(moved)) or 'elements'} in the tf.data service",
        replace(dataset, {id(moved): lambda below: serve(moved, service)}),
        blocked="" if allowed.reorder else reorders,
        note="an epoch has every element once as long as no worker fails",
    )


def _with_option(dataset: Dataset, name: str, value: object) -> tuple[Dataset, tuple[str, ...]]:
    """Returns a pipeline with an option set, such as "autotune.enabled", and the code for it."""
    import tensorflow as tf

    options = tf.data.Options()
    *groups, last = name.split(".")
    setattr(reduce(getattr, groups, options), last, value)
    lines = (f"{TUNING_OPTIONS} = tf.data.Options()", f"{TUNING_OPTIONS}.{name} = {value}")
    return dataset.with_options(options, name=TUNING_OPTIONS), lines


def _unique(dataset: Dataset) -> list[Dataset]:
    return list({id(stage): stage for stage in changeable(dataset)}.values())


def _serial(dataset: Dataset, *kinds: str) -> list[Dataset]:
    """Returns the stages of some kinds that can be rebuilt in their parallel form.

    Stages below a cache are left out, because only the epoch that fills the cache would gain.
    """
    return [
        stage
        for stage in _unique(dataset)
        if kind(stage) in kinds and is_known(stage) and parallel_form(kind(stage))
    ]


def _hindered(stage: Dataset, allowed: Allowed) -> str | None:
    return changes_in_parallel(
        stage, trust_python=allowed.trust_python, allow_reorder=allowed.reorder
    )


def _in_parallel(
    dataset: Dataset, chosen: list[Dataset], allowed: Allowed, name: str
) -> Proposal | None:
    if not chosen:
        return None

    def parallel(stage: Dataset) -> Callable[[list[Dataset]], Dataset]:
        deterministic = "default"
        if dataset.options().deterministic is False and not allowed.reorder:
            deterministic = "true"
        files = None
        if allowed.reorder and kind(stage) in {"Interleave", "FlatMap"}:
            files = max(4, os.cpu_count() or 1)
        return lambda below: in_parallel(stage, below[0], deterministic, files)

    changed = replace(dataset, {id(stage): parallel(stage) for stage in chosen})
    return Proposal(name, _DESCRIPTIONS[name].format(_names(chosen)), changed)


_DESCRIPTIONS = {
    "parallel-map": "call {} for several elements in parallel",
    "parallel-files": "read files ahead in {}",
    "parallel-batch": "assemble several batches in parallel",
}


def _names(chosen: list[Dataset]) -> str:
    names = [function_name(stage) for stage in chosen if functions(stage)]
    return ", ".join(dict.fromkeys(names))
