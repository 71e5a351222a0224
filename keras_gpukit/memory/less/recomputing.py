"""Computes a part of a model twice: in the forward pass, and again for its gradients.

`tf.recompute_grad`, and `keras.remat`, which uses it, compute something different the second time.
Random layers draw new values, batch normalization updates its averages again, and tensors that are
passed by name get no gradient. Here the second run starts from the same state as the first one, and
changes no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras_gpukit.memory.keras_private import call_context, within


def recomputed(call: Callable[..., Any], layers: Sequence[Any]) -> Callable[..., Any]:
    """Returns a function that computes the same, and keeps only its inputs for the gradients."""

    def twice(*args: Any, **kwargs: Any) -> Any:
        import keras
        import tensorflow as tf

        flat = keras.tree.flatten((args, kwargs))
        kept = [i for i, each in enumerate(flat) if _has_gradient(each)]
        derived = kept or any(layer.trainable_variables for layer in layers)
        if not derived or any(isinstance(each, keras.KerasTensor) for each in flat):
            return call(*args, **kwargs)  # no gradients, or a model is being built
        context = call_context()
        # The state that batch normalization and random layers have before the first run.
        states = [each for layer in layers for each in layer.non_trainable_variables]
        before = [(each, tf.identity(each.value)) for each in states]
        has_run = False
        structure: Any = None

        def run(*tensors: Any) -> list[Any]:
            nonlocal has_run, structure
            inputs = list(flat)
            for index, tensor in zip(kept, tensors, strict=True):
                inputs[index] = _like(tensor, flat[index])
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
            return [tf.identity(each) for each in keras.tree.flatten(outputs)]

        results = tf.recompute_grad(run)(*(flat[index] for index in kept))
        firsts = keras.tree.flatten(structure)
        results = [_like(each, first) for each, first in zip(results, firsts, strict=True)]
        return keras.tree.pack_sequence_as(structure, results)

    return twice


def _has_gradient(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _like(tensor: Any, original: Any) -> Any:
    """Returns a tensor with the mask that Keras attached to the original tensor."""
    mask = getattr(original, "_keras_mask", None)
    if mask is not None:
        tensor._keras_mask = mask
    return tensor


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
