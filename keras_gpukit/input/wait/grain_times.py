"""Times of a Grain dataset's transformations, as Grain itself records them.

tf.data sees a Grain dataset as one stage that runs Python code. Grain can time each transformation,
at two readings of a clock per element, if that is turned on before its iterator makes an element.
Grain's worker processes report their times too late and are not timed.

Private names, seen on Grain 0.2.18: `_initialize_stats` of iterators and datasets, `_ctx` with its
`dataset_options.execution_tracking_mode`, and `_stats` with `_self_times_buffer` and `_summary`
(`total_processing_time_ns`, `num_produced_elements`). If one is missing, the dataset stays one
stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from keras_gpukit.errors import logger
from keras_gpukit.frameworks.tf_datasets import (
    functions_of,
    generator_of,
    replace_generator,
    stages,
)
from keras_gpukit.input.pipelines.generators import generator_state
from keras_gpukit.input.pipelines.other_libraries import (
    Transformation,
    before,
    closed_over,
    inner,
    is_grain,
    transformation,
    worker_processes,
)
from keras_gpukit.input.pipelines.stage import PYTHON_GENERATOR, Function, Stage
from keras_gpukit.input.wait.readings import MeasuredNode

_PASS_ON_SOME = ("filter", "flat_map")


@dataclass
class _Timed:
    """A transformation in the latest pass over the dataset.

    It may start threads for those before it. If it batches, it fetches `batch_size` elements for
    one of its own. `earlier` has the seconds and elements of earlier passes.
    """

    made_by: Transformation
    threads: int | None
    batch_size: int | None
    stats: Any
    inputs: list[_Timed]
    earlier: tuple[float, int] = (0.0, 0)

    @property
    def recorded(self) -> tuple[float, int]:
        """Seconds in it, without those before it, and the elements that it made."""
        summary = self.stats._summary
        found = [(summary.total_processing_time_ns, summary.num_produced_elements)]
        found += list(self.stats._self_times_buffer)
        time_ns, elements = map(sum, zip(*found, strict=True))
        return self.earlier[0] + time_ns * 1e-9, self.earlier[1] + elements

    @property
    def is_untimed(self) -> bool:
        """Whether it is user code that Grain has not timed (yet), as in a class of datasets."""
        return self.made_by.location is not None and not self.recorded[1]

    def __iter__(self) -> Iterator[_Timed]:
        yield self
        for source in self.inputs:
            yield from source


class TimedGrain:
    """Function for `from_generator` that iterates over a Grain dataset, and has Grain time it.

    It has the times of all passes, and keeps no iterator.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._latest: _Timed | None = None
        self._untimed: list[tuple[Any, Any]] = []  # the user's datasets until `stop`

    def __call__(self) -> Any:
        """Returns a new iterator."""
        iterator = iter(self.dataset)
        try:
            last = inner(iterator)
            modes = type(last._ctx.dataset_options.execution_tracking_mode)
            last._initialize_stats(modes.STAGE_TIMING)
            latest = _timed(last)
            if self._latest is not None:
                for new, old in zip(latest, self._latest, strict=True):
                    new.earlier = old.recorded
            self._latest = latest
            self._untimed = [(dataset, modes.DISABLED) for dataset in _random_access(last)]
        except Exception as error:
            logger.debug("keras_gpukit: the stages of a Grain dataset are not timed: %s", error)
            self._latest = None
        return iterator

    def stop(self) -> None:
        """Has Grain no longer time the user's datasets, which outlive their iterators."""
        untimed, self._untimed = self._untimed, []
        for dataset, mode in untimed:
            dataset._initialize_stats(mode)

    def with_stages(self, node: MeasuredNode) -> MeasuredNode:
        """Returns a measured pipeline whose stage of Python code shows Grain's stages as inputs."""
        last = self._latest
        if last is None or any(stage.is_untimed for stage in last):
            return node
        batches = next((stage.recorded[1] for stage in last if stage.recorded[1]), 0)
        if node.kind == PYTHON_GENERATOR and batches:
            rest_s = max(node.cost_per_batch_s - node.per_batch * _serial_s(last) / batches, 0.0)
            return replace(
                node,
                cost_s=rest_s / node.per_batch if node.per_batch else None,
                cost_per_batch_s=rest_s,
                inputs=_measured(last, node.per_batch),
            )
        return replace(
            node,
            inputs=tuple(map(self.with_stages, node.inputs)),
            nested=tuple(map(self.with_stages, node.nested)),
        )


def time_grain(dataset: Any) -> None:
    """Has Grain time the stages of the Grain dataset behind a tf.data pipeline, if there is one."""
    for state in _generator_states(dataset) if dataset is not None else ():
        given = closed_over(generator_of(state)).get("dataset")
        if is_grain(given) and worker_processes(given) == 0:
            replace_generator(state, TimedGrain(given))


def timed_grain(dataset: Any) -> TimedGrain | None:
    """Returns the Grain dataset behind a tf.data pipeline, if Grain times it."""
    generators = map(generator_of, _generator_states(dataset))
    return next((found for found in generators if isinstance(found, TimedGrain)), None)


def _generator_states(dataset: Any) -> Iterator[Any]:
    for stage in stages(dataset):
        for function, _ in functions_of(stage):
            state = generator_state(function)
            if state is not None:
                yield state


def _timed(node: Any) -> _Timed:
    made_by = transformation(node)
    batch_size = node._batch_size if made_by.kind.endswith(".batch") else None
    inputs = [_timed(source) for source in before(node)]
    threads, stats = made_by.threads, node._stats
    return _Timed(replace(made_by, node=None), threads, batch_size, stats, inputs)


def _random_access(node: Any) -> list[Any]:
    """Returns the user's datasets that an iterator reads element by element."""
    given = getattr(node, "_map_parent", None)
    if given is not None:
        return [given]
    return list(chain.from_iterable(map(_random_access, before(node))))


def _serial_s(timed: _Timed) -> float:
    """Returns the seconds that a thread spent in a transformation, waiting for others included."""
    ahead = () if timed.threads else timed.inputs
    return timed.recorded[0] + sum(map(_serial_s, ahead))


def _measured(timed: _Timed, per_batch: float) -> tuple[MeasuredNode, ...]:
    """Returns the stages from a transformation back to the sources, without those of Keras."""
    time_s, elements = timed.recorded
    made_by = timed.made_by
    fetched = float(timed.batch_size or 1)
    if made_by.kind.endswith(_PASS_ON_SOME) and elements and timed.inputs:
        fetched = timed.inputs[0].recorded[1] / elements
    inputs = tuple(stage for node in timed.inputs for stage in _measured(node, per_batch * fetched))
    kind = made_by.kind
    if timed.threads:
        # The wait for the threads is no work. Filled buffers are not counted.
        starts = MeasuredNode(kind, 0.0, per_batch, 0.0, timed.threads, buffered=math.nan)
        alone = timed.threads == 1
        return (replace(starts, inputs=inputs) if alone else replace(starts, nested=inputs),)
    is_keras = made_by.name is not None and made_by.location is None
    if is_keras or not elements:
        return inputs
    cost_s = time_s / elements
    return (
        MeasuredNode(
            kind,
            cost_s,
            per_batch,
            per_batch * cost_s,
            inputs=inputs,
            written=Stage(kind, None, Function(made_by.name, made_by.location, made_by.work)),
        ),
    )
