"""Rematerialization: recomputes activations for the gradients instead of keeping them.

A part of the model is computed twice: in the forward pass, and again for its gradients.
`tf.recompute_grad`, and `keras.remat`, which uses it, compute something different the second time.
Random layers draw new values, batch normalization updates its averages again, and tensors that are
passed by name get no gradient. Here the second run starts from the same state as the first one, and
changes no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from keras_gpukit.arguments import check_compiled, check_whole
from keras_gpukit.frameworks.keras_models import (
    RUN,
    call_context,
    call_node,
    graph_of,
    nodes_of,
    with_mask_of,
    within,
)
from keras_gpukit.layer_names import layers_in
from keras_gpukit.memory.untouched import replaced


def recomputed(call: Callable[..., Any], layers: Sequence[Any]) -> Callable[..., Any]:
    """Returns a function that computes the same, and keeps only its inputs for the gradients."""

    def twice(*args: Any, **kwargs: Any) -> Any:
        import keras
        import tensorflow as tf

        flat = keras.tree.flatten((args, kwargs))
        kept = [i for i, argument in enumerate(flat) if _has_gradient(argument)]
        derived = kept or any(layer.trainable_variables for layer in layers)
        if not derived or any(isinstance(argument, keras.KerasTensor) for argument in flat):
            return call(*args, **kwargs)  # no gradients, or a model is being built
        context = call_context()
        # The state that batch normalization and random layers have before the first run.
        states = [state for layer in layers for state in layer.non_trainable_variables]
        before = [(state, tf.identity(state.value)) for state in states]
        has_run = False
        structure: Any = None

        def run(*tensors: Any) -> list[Any]:
            nonlocal has_run, structure
            inputs = list(flat)
            for index, tensor in zip(kept, tensors, strict=True):
                inputs[index] = with_mask_of(flat[index], tensor)
            args_now, kwargs_now = keras.tree.pack_sequence_as((args, kwargs), inputs)
            if has_run:
                with within(context), keras.StatelessScope(state_mapping=before) as scope:
                    outputs = call(*args_now, **kwargs_now)
                _check_state(scope, before, layers)
            else:
                has_run = True
                losses = _losses(layers)
                outputs = structure = call(*args_now, **kwargs_now)
                _check_losses(layers, losses)
            return [tf.identity(output) for output in keras.tree.flatten(outputs)]

        results = tf.recompute_grad(run)(*(flat[index] for index in kept))
        firsts = keras.tree.flatten(structure)
        results = [with_mask_of(old, new) for old, new in zip(firsts, results, strict=True)]
        return keras.tree.pack_sequence_as(structure, results)

    return twice


def _has_gradient(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _losses(layers: Sequence[Any]) -> int:
    return sum(len(layer.losses) for layer in layers)


def _check_losses(layers: Sequence[Any], before: int) -> None:
    if _losses(layers) > before:
        raise ValueError(
            "A layer that adds a loss during its call, by `add_loss` or an activity regularizer, "
            "cannot be recomputed: the loss would have no gradient. Leave it out by `layers`. "
            f"Received: layers={[layer.name for layer in layers]!r}"
        )


def _check_state(scope: Any, before: Sequence[Any], layers: Sequence[Any]) -> None:
    known = {id(variable) for variable, _ in before}
    if set(scope.state_mapping) - known:
        raise ValueError(
            "A layer cannot be recomputed if it changes state that is not its own: its second "
            "run would differ from the first. Give random operations a keras.random.SeedGenerator "
            "that the layer has as an attribute, or leave the layer out by `layers`. Received: "
            f"layers={[layer.name for layer in layers]!r}"
        )


@contextmanager
def rematerialize(
    model: Any, *, segments: int | None = None, layers: Sequence[Any] | None = None
) -> Iterator[Any]:
    """Trains with less memory and more time: most activations are computed twice and not kept.

    A functional or sequential model is divided into segments. Only the input of each segment is
    kept; the gradients compute the rest again. Without it, activations need the memory of all
    layers. With it, they need the memory of the inputs of all segments and of a single segment. The
    price is the time of another forward pass.

    Losses, gradients and weights are those of plain training, up to rounding: random layers use
    the same values both times, and batch normalization updates its averages once. It works in graph
    mode, with XLA and eagerly.

    Example:
        ```python
        with gpukit.rematerialize(model):
            model.fit(dataset, epochs=10)
        ```

    Args:
        model: A compiled Keras model on the TensorFlow backend.
        segments: Maximum number of segments that the model is divided into, at least 2. None takes
            the square root of the number of places at which it can be divided, but at least 2. If
            all layers need the same memory, this number needs the least (Chen et al. 2016,
            https://arxiv.org/abs/1604.06174).
        layers: Layers to compute twice, by name or as objects, instead of segments. Blocks that
            contain layers save most. A subclassed model needs this argument.

    Yields:
        The model. After the block it trains as before.

    Raises:
        TypeError: If `model` is no model, or `segments` not a whole number.
        ValueError: If `segments` is less than 2 or given with `layers`, or if the model is not
            compiled, does not have a named layer, or has no place to be divided at. Also in `fit`,
            if a layer to compute twice adds losses or changes state that is not its own.
    """
    check_compiled(model)
    check_whole("segments", segments, least=2, optional=True)
    if layers is not None and segments is not None:
        raise ValueError(f"Give `segments` or `layers`. Received: {segments=!r}, {layers=!r}")
    replacements = _segmented(model, segments) if layers is None else _layered(model, layers)
    with replaced(model, replacements):
        yield model


def _layered(model: Any, layers: Sequence[Any]) -> list[tuple[Any, str, Any]]:
    found = [_find(model, layer) for layer in layers]
    if not found:
        raise ValueError(f"`layers` must name at least one layer. Received: layers={layers!r}")
    return [(layer, "call", recomputed(layer.call, [layer])) for layer in found]


def _find(model: Any, layer: Any) -> Any:
    within = dict.fromkeys(layers_in(model))
    for candidate in within:
        if candidate is layer or candidate.name == layer:
            return candidate
    names = [candidate.name for candidate in within]
    raise ValueError(f"`layers` must be layers of the model: {names}. Received: {layer!r}")


def _segmented(model: Any, count: int | None) -> list[tuple[Any, str, Any]]:
    import keras

    graph = graph_of(model)
    if graph is None:
        raise ValueError(
            f"A model that is neither functional nor sequential, such as this "
            f"{type(model).__name__}, has no segments: name its blocks by `layers`. "
            f"Received: model={model!r}"
        )
    segments = _divide(nodes_of(graph), graph.inputs, graph.outputs, count)
    if len(segments) == 1:
        raise ValueError(
            "The model has no place where a single tensor is all that later layers need: name "
            f"its blocks by `layers`. Received: model={model.name!r}"
        )
    *parts, last = segments
    run_plainly = getattr(graph, RUN)

    def run(inputs: Any, operation_fn: Any = lambda operation: operation, **kwargs: Any) -> Any:
        values = keras.tree.flatten(inputs)
        if any(isinstance(value, keras.KerasTensor) for value in values):
            return run_plainly(inputs, operation_fn=operation_fn, **kwargs)  # shapes only
        for part in parts:
            values = recomputed(part.function(operation_fn), part.layers)(*values)
        # Not recomputed: the first gradients need the activations of the last segment.
        values = last.function(operation_fn)(*values)
        return keras.tree.pack_sequence_as(graph.output, values)

    return [(graph, RUN, run)]


@dataclass(frozen=True)
class ModelPart:
    """Consecutive calls of operations in a functional model, with the tensors in and out."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    nodes: tuple[Any, ...]

    @property
    def layers(self) -> list[Any]:
        """Layers that the segment calls."""
        import keras

        operations = {id(node.operation): node.operation for node in self.nodes}
        return [
            operation for operation in operations.values() if isinstance(operation, keras.Layer)
        ]

    def function(self, callable_of: Callable[[Any], Any]) -> Callable[..., list[Any]]:
        """Returns a function from values of the inputs to values of the outputs."""

        def run(*values: Any) -> list[Any]:
            known = dict(zip(map(id, self.inputs), values, strict=True))
            for node in self.nodes:
                call_node(node, known, callable_of)
            return [known[id(output)] for output in self.outputs]

        return run


def _divide(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], count: int | None
) -> list[ModelPart]:
    """Divides a model at places where later calls need only a single tensor.

    Segments get equal shares of the elements of all outputs, as far as these places allow. There is
    a single one if there is no such place.
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
        segments.append(ModelPart(taken, given, part))
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
        needed_until = max(needed_until, *(last_use.get(id(tensor), -1) for tensor in node.outputs))
    return places


def _elements(tensor: Any) -> int:
    """Returns the elements of a tensor per example; unknown lengths count as 1."""
    return math.prod(length or 1 for length in tensor.shape[1:])
