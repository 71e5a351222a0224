"""Rematerialization: recomputes activations for the gradients instead of keeping them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from keras_gpukit.arguments import check_whole
from keras_gpukit.memory.less.keras_private import RUN, graph_of, layers_within, nodes_of
from keras_gpukit.memory.less.recomputing import recomputed
from keras_gpukit.memory.less.segments import divide
from keras_gpukit.memory.less.traced_step import check_compiled, replaced


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
        TypeError: If `segments` is not a whole number.
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
    found = [_find(model, each) for each in layers]
    if not found:
        raise ValueError(f"`layers` must name at least one layer. Received: layers={layers!r}")
    return [(layer, "call", recomputed(layer.call, [layer])) for layer in found]


def _find(model: Any, layer: Any) -> Any:
    within = layers_within(model)
    for each in within:
        if each is layer or each.name == layer:
            return each
    names = [each.name for each in within]
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
    segments = divide(nodes_of(graph), graph.inputs, graph.outputs, count)
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
