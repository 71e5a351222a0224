"""The operations of a step made into the record. Pure: what the machine has comes in as data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace

from keras_gpukit.placement.names import layer_path
from keras_gpukit.records.operations import Operation, StepOperations
from keras_gpukit.records.placement import Fallback, PlacementRecord
from keras_gpukit.rules.cpu_causes import Registry, find_fallbacks, original_type


@dataclass(frozen=True)
class Surroundings:
    """What decides, in addition to the operations, what a fallback is.

    Attributes:
        has_gpu: Whether TensorFlow has a GPU.
        knows_gpu_kernels: Whether this TensorFlow was built with GPU kernels.
        has_strategy: Whether a distribution strategy runs the step.
        layers: Names of the model's layers.
    """

    has_gpu: bool
    knows_gpu_kernels: bool
    has_strategy: bool
    layers: Collection[str] = ()


def make_record(ran: StepOperations, around: Surroundings, registry: Registry) -> PlacementRecord:
    """Returns the record of what ran.

    Without a GPU the fallbacks are predicted; a TensorFlow built without GPU kernels can't even
    do that, so there are none.
    """
    predicted = around.knows_gpu_kernels and not around.has_gpu
    fallbacks = (
        find_fallbacks(
            ran.operations,
            registry,
            predicted=predicted,
            # Without a GPU a strategy asks for the CPU, there being nothing else; and so does
            # Keras in an eager step, for the optimizer's variables.
            trust_requests=around.has_gpu or not (around.has_strategy or ran.mechanism == "eager"),
        )
        if around.has_gpu or predicted
        else ()
    )
    return PlacementRecord(
        operations=_count(ran.operations, registry),
        fallbacks=tuple(_with_layers(fallback, around.layers) for fallback in fallbacks),
        predicted=predicted,
        transfers=ran.transfers,
        mechanism=ran.mechanism,
        transfers_between=dict(ran.transfers_between),
    )


def _with_layers(fallback: Fallback, layers: Collection[str]) -> Fallback:
    names = (layer_path(name, layers) for name in fallback.names)
    return replace(fallback, names=tuple(dict.fromkeys(names)))


def _count(operations: tuple[Operation, ...], registry: Registry) -> dict[str, dict[str, int]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for operation in operations:
        counts[operation.device][original_type(operation.kind.type, registry)] += 1
    return {device: dict(counts[device].most_common()) for device in sorted(counts)}
