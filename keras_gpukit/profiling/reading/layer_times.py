"""Time by layer, operation and kernel; layers are in the scopes of operations' names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from operator import or_
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from keras_gpukit.layer_names import is_backward
from keras_gpukit.profiling.reading.events import PS, Events, Mask, Spans
from keras_gpukit.profiling.reading.gpu import GPUs, kind_of, uses_tensor_cores
from keras_gpukit.profiling.reading.host_activity import Host, operation_name
from keras_gpukit.records.profile import (
    BETWEEN,
    KernelProfile,
    Kind,
    LayerProfile,
    LayerRole,
    OperationProfile,
)

T = TypeVar("T")
LARGEST = 3
MOST = 20
"""Number of operations, and of kernels, that are kept: those that took the most time."""
OUTSIDE_LAYERS = 100
"""Number of operations of no layer that are divided by what made them; our choice: of two `AUC`
metrics alone, 74 operations took less time than the 20 largest, and a quarter of a step."""
UNUSUAL = 0.25
"""Share of scopes without a number, or with a large one, from which calls are not numbered; our
choice."""
UNNAMED = "other operations"
_NUMBERED = re.compile(r"_(\d+)$")
MOST_CALLS = 2
"""Largest number of most calls' scopes with Keras up to 3.15: see `calls_are_numbered`."""
# Scopes around layers that are no models: of gradients, loops, branches, and replicas of
# MirroredStrategy.
_AROUND = re.compile(r"(gradient_tape|while|body|cond|branch_executed|replica(_\d+)?|_\d+)$")
# Scopes within layers: TensorFlow and Keras open one for each function that makes operations.
_FUNCTIONS = re.compile(
    r"(add|addn|sub|mul|truediv|floordiv|div_no_nan|pow|neg|abs|sign|sum|mean|max|min|prod|exp|log|sqrt"
    r"|rsqrt|square|squared_difference|cast|matmul|einsum|tensordot|transpose|reshape|expand_dims|squeeze"
    r"|concat|stack|unstack|split|strided_slice|slice|gather|gathernd|where|select|range|zeros|ones"
    r"|fill|tile|pad|batchnorm|moments|normalize_moments|softmax|log_softmax|relu|gelu|silu|sigmoid|tanh"
    r"|biasadd|convolution|conv[123]d|while|cond|case|assert|identity|clip_by_value|broadcast_\w+"
    r"|stateless_\w+|random_\w+|partitionedcall|statefulpartitionedcall|l2_normalize|dot|loop_body)"
    r"(_\d+)?$",
    re.I,
)
# `keras.optimizers`, by the names that they have by default.
_OPTIMIZERS = re.compile(
    r"(sgd|rmsprop|adam|adamw|adadelta|adagrad|adamax|adafactor|nadam|ftrl|lion|lamb|muon|schedule_free\w*"
    r"|loss_scale_optimizer)(_\d+)*$",
    re.I,
)


class Place(NamedTuple):
    """Layer or other part of the step that an operation belongs to; without a layer, no path."""

    path: tuple[str, ...]
    role: LayerRole
    backward: bool


@dataclass
class _Sum:
    """Sums over the operations of one layer; times in picoseconds."""

    time_ps: float = 0.0
    backward_ps: float = 0.0
    tensor_core_ps: float = 0.0
    count: int = 0
    begins_ps: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    kinds_ps: Counter[Kind] = field(default_factory=Counter)
    largest_ps: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def middle_ps(self) -> float:
        """Median start of the forward pass, by which layers are in the model's order.

        The first start is no measure: kernels of the step before run into the first counted one.
        """
        return median(self.begins_ps[False] or self.begins_ps[True])


def time_by_layer(
    host: Host, gpus: GPUs, counted: Spans, computed: Spans, steps: int
) -> tuple[LayerProfile, ...]:
    """Divides the time of computation by layer.

    Where operations run at the same time, on several GPUs or threads, each gets a part of that
    time, in proportion to its own. `computed` is when anything was computed; on a CPU it includes
    the pauses between operations.
    """
    sums: dict[tuple[str, LayerRole], _Sum] = {}
    spans: list[Spans] = []
    computing = [(gpu.plane.events, gpu.computing) for gpu in gpus.members]
    computing = computing or [(host.events, host.operations)]
    numbered = calls_are_numbered(
        {
            events.operation(index)
            for events, chosen in computing
            for index in np.flatnonzero(chosen).tolist()
        }
    )
    for events, chosen in computing:
        chosen = chosen & (counted.covered_ps(events.begin_ps, events.end_ps) > 0)
        spans.append(Spans.of(events, chosen) & computed)
        for name, operation, begin_ps, time_ps in _runs(events, chosen, computed):
            path, role, backward = place_of(operation, numbered)
            key = "/".join(path) or (UNNAMED if role == "other" else role), role
            total = sums.setdefault(key, _Sum())
            kind = kind_of(name if gpus.members else operation_name(operation)[1])
            total.begins_ps[backward].append(begin_ps)
            total.time_ps += time_ps
            total.backward_ps += time_ps if backward else 0
            total.tensor_core_ps += time_ps if gpus.members and uses_tensor_cores(name) else 0
            total.count += 1
            total.kinds_ps[kind] += time_ps
            total.largest_ps[name, operation] += time_ps
            total.counts[name, operation] += 1
    summed_ps = sum(total.time_ps for total in sums.values())
    if not summed_ps:
        return ()
    busy = reduce(or_, spans)
    share = busy.total_ps / summed_ps
    layers = [
        _layer(path, role, total, share * PS / steps, steps, of_gpu=bool(gpus.members))
        for (path, role), total in sorted(sums.items(), key=lambda item: item[1].middle_ps)
    ]
    pause_s = (computed - busy).total_ps * PS / steps
    if pause_s:
        layers.append(LayerProfile(BETWEEN, "other", pause_s, 0.0, {"other": pause_s}, 0.0))
    return tuple(layers)


def _layer(
    path: str, role: LayerRole, total: _Sum, to_mean_s: float, steps: int, *, of_gpu: bool
) -> LayerProfile:
    return LayerProfile(
        path=path,
        role=role,
        time_s=total.time_ps * to_mean_s,
        backward_s=total.backward_ps * to_mean_s,
        kinds_s={kind: ps * to_mean_s for kind, ps in total.kinds_ps.most_common()},
        kernels=total.count / steps,
        tensor_core_fraction=total.tensor_core_ps / total.time_ps if of_gpu else None,
        largest=tuple(
            _kernel(*key, ps * PS, total.counts[key], ps / total.time_ps, of_gpu=of_gpu)
            # What belongs to no layer is divided later, by what made its operations.
            for key, ps in total.largest_ps.most_common(
                OUTSIDE_LAYERS if role == "other" else LARGEST
            )
        ),
    )


def _kernel(
    name: str, operation: str, time_s: float, count: int, share: float, *, of_gpu: bool = True
) -> KernelProfile:
    """Describes a kernel, and the operation that launched it; without a GPU, an operation."""
    launched_by, type_ = operation_name(operation)
    kind = kind_of(name if of_gpu else type_)
    tensor_core = uses_tensor_cores(name) if of_gpu else None
    return KernelProfile(name, kind, time_s, count, share, tensor_core, launched_by or None)


def _runs(events: Events, chosen: Mask, computed: Spans) -> Iterator[tuple[str, str, int, int]]:
    """Yields name, operation, start and counted time of each chosen event."""
    times_ps = computed.covered_ps(events.begin_ps, events.end_ps)
    for index in np.flatnonzero(chosen).tolist():
        name = events.names[events.kind[index]]
        yield name, events.operation(index), int(events.begin_ps[index]), int(times_ps[index])


def calls_are_numbered(operations: Collection[str]) -> bool:
    """Whether the scopes in which layers are called are numbered, by the names of operations.

    Keras calls each layer in a scope with its name. Up to 3.15 it is the second scope of that name,
    after the one in which the layer was built, so TensorFlow numbers it, mostly by 1 or 2. From
    3.16 on, a number is part of the layer's name: some layers have none, or larger ones. Scopes of
    models and of the layers in them are looked at; those within layers have any names.
    """
    places = map(partial(place_of, numbered=False), operations)
    scopes = {scope for place in places if place.role == "layer" for scope in place.path[:2]}
    numbers = [_NUMBERED.search(scope) for scope in scopes]
    unusual = sum(number is None or int(number[1]) > MOST_CALLS for number in numbers)
    return unusual <= UNUSUAL * len(scopes)


@lru_cache(maxsize=65536)
def place_of(operation: str, numbered: bool) -> Place:
    """Finds the layer of an operation, by the scopes in its name.

    That of "sequential_1/dense_7_1/MatMul" is "sequential/dense_7" where calls are `numbered`.
    """
    name, _ = operation_name(operation)
    *scopes, _ = name.split("/")
    backward = is_backward(name)
    scopes = [scope for scope in scopes if not _AROUND.match(scope)]
    if not scopes:
        return Place((), "other", backward)
    if scopes[0].startswith("compile_loss"):
        return Place((), "loss", backward)
    if scopes[0].startswith("compile_metrics"):
        return Place((), "metrics", backward)
    if _OPTIMIZERS.match(scopes[0]):
        return Place((), "optimizer", backward)
    path: list[str] = []
    for scope in scopes:
        of_function = _FUNCTIONS.match(scope) and (len(path) != 1 or scope[0].isupper())
        # A layer of a model may be called "add".
        if of_function or (numbered and not _NUMBERED.search(scope)):
            break
        layer = _NUMBERED.sub("", scope) if numbered else scope
        if layer in path:  # the body of a loop repeats the scopes around it
            del path[path.index(layer) + 1 :]
        else:
            path.append(layer)
    return Place(tuple(path), "layer" if path else "other", backward)


def top_operations(host: Host, gpus: GPUs, counted: Spans) -> tuple[OperationProfile, ...]:
    """Returns the operations that took the most time, on the GPUs or, without one, on the host."""
    kernels = [(gpu.plane.events, gpu.kernels) for gpu in gpus.members]
    runs = _timed(kernels or [(host.events, host.operations)], counted)
    most = _most(
        (operation_name(launched_by or name), time_s) for name, launched_by, time_s in runs
    )
    return tuple(
        OperationProfile(name, kind, kind_of(kind), time_s, count, share)
        for (name, kind), time_s, count, share in most
    )


def top_kernels(gpus: GPUs, counted: Spans) -> tuple[KernelProfile, ...]:
    """Returns the kernels that took the most time, and what launched each most often."""
    kernels = list(_timed([(gpu.plane.events, gpu.kernels) for gpu in gpus.members], counted))
    launches = Counter((name, launched_by) for name, launched_by, _ in kernels)
    launchers = dict(launch for launch, _ in reversed(launches.most_common()))
    return tuple(
        _kernel(name, launchers[name], time_s, count, share)
        for name, time_s, count, share in _most((name, time_s) for name, _, time_s in kernels)
    )


def _most(runs: Iterable[tuple[T, float]]) -> Iterator[tuple[T, float, int, float]]:
    """Yields what took the most time, with that, the number of runs, and the share of all time."""
    times_s: Counter[T] = Counter()
    counts: Counter[T] = Counter()
    for key, time_s in runs:
        times_s[key] += time_s  # type: ignore[assignment]
        counts[key] += 1
    total_s = sum(times_s.values()) or 1.0
    for key, time_s in times_s.most_common(MOST):
        yield key, time_s, counts[key], time_s / total_s


def _timed(
    chosen: Iterable[tuple[Events, Mask]], counted: Spans
) -> Iterator[tuple[str, str, float]]:
    """Yields name, launching operation and seconds of each chosen event that began in the steps."""
    for events, mask in chosen:
        for index in np.flatnonzero(mask & counted.holds(events.begin_ps)).tolist():
            name = events.names[events.kind[index]]
            yield name, events.launched_by(index), float(events.duration_ps[index]) * PS
