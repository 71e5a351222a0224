"""Segments of a functional model: consecutive parts, each passing one tensor to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_gpukit.memory.less.keras_private import call_node


@dataclass(frozen=True)
class Segment:
    """Consecutive calls of operations in a functional model.

    Attributes:
        inputs: Symbolic tensors that the segment takes.
        outputs: Symbolic tensors that the segment returns.
        nodes: Keras' nodes for the calls, in order.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    nodes: tuple[Any, ...]

    @property
    def layers(self) -> list[Any]:
        """Layers that the segment calls."""
        import keras

        operations = {id(node.operation): node.operation for node in self.nodes}
        return [each for each in operations.values() if isinstance(each, keras.Layer)]

    def function(self, callable_of: Callable[[Any], Any]) -> Callable[..., list[Any]]:
        """Returns a function from values of the inputs to values of the outputs."""

        def run(*values: Any) -> list[Any]:
            known = dict(zip(map(id, self.inputs), values, strict=True))
            for node in self.nodes:
                call_node(node, known, callable_of)
            return [known[id(output)] for output in self.outputs]

        return run


def divide(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], count: int | None
) -> list[Segment]:
    """Divides a model at places where later calls need only a single tensor.

    Segments get equal shares of the elements of all outputs, as far as these places allow.

    Args:
        nodes: The calls of the model, in order.
        inputs: Symbolic inputs of the model.
        outputs: Symbolic outputs of the model.
        count: Maximum number of segments. None takes the square root of the number of places, but
            at least 2. With this number, kept and recomputed activations together need the least
            memory (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost",
            https://arxiv.org/abs/1604.06174).

    Returns:
        The segments, at most `count`; a single one if there is no such place.
    """
    places = _places(nodes, inputs, outputs)
    count = count or max(math.isqrt(len(places)), 2)
    costs = [sum(map(_elements, node.outputs)) for node in nodes]
    share, sum_so_far = sum(costs) / count, 0.0
    cuts: list[int] = []
    for index, cost in enumerate(costs):
        sum_so_far += cost
        if index in places and sum_so_far >= share * (len(cuts) + 1) and len(cuts) < count - 1:
            cuts.append(index)
    if places and not cuts:  # nearly all elements are in the last call
        cuts.append(max(places))
    segments, begin, taken = [], 0, tuple(inputs)
    for end in [*cuts, len(nodes) - 1]:
        part = tuple(nodes[begin : end + 1])
        given = tuple(outputs) if end == len(nodes) - 1 else tuple(part[-1].outputs)
        segments.append(Segment(taken, given, part))
        begin, taken = end + 1, given
    return segments


def _places(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> set[int]:
    """Returns the indices of calls after which only the call's own output tensor is needed."""
    last_use: dict[int, int] = {}
    for index, node in enumerate(nodes):
        last_use.update((id(tensor), index) for tensor in node.input_tensors)
    last_use.update((id(tensor), len(nodes)) for tensor in outputs)
    # After such a call, no input and no tensor made before the call may be needed.
    needed_until = max(last_use.get(id(tensor), -1) for tensor in inputs)
    places = set()
    for index, node in enumerate(nodes[:-1]):
        if len(node.outputs) == 1 and needed_until <= index:
            places.add(index)
        needed_until = max(needed_until, *(last_use.get(id(each), -1) for each in node.outputs))
    return places


def _elements(tensor: Any) -> int:
    """Returns the elements of a tensor per example; unknown lengths count as 1."""
    return math.prod(length or 1 for length in tensor.shape[1:])
