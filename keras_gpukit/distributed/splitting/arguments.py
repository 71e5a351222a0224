"""Checks the arguments of `split_model`, and turns layer names into stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from keras_gpukit.distributed.splitting.layers import Unit


def check_devices(devices: Any, units: int) -> tuple[str, ...]:
    """Returns the names of the devices in the form "/GPU:0"."""
    import tensorflow as tf

    if not isinstance(devices, (list, tuple)) or not all(isinstance(d, str) for d in devices):
        raise TypeError(
            "`devices` must be a list of device names, such as ['/GPU:0', '/GPU:1']. "
            f"Received: {devices=!r}"
        )
    existing = {_canonical(device.name): device for device in tf.config.list_logical_devices()}
    names = tuple(_canonical(device) for device in devices)
    for given, name in zip(devices, names, strict=True):
        if name not in existing:
            raise ValueError(
                f"TensorFlow has no device {given!r}; it has {', '.join(existing)}. "
                f"Received: {devices=!r}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"`devices` names a device twice. Received: {devices=!r}")
    if len(names) < 2:
        raise ValueError(f"`devices` must name at least two devices. Received: {devices=!r}")
    if units < len(names):
        raise ValueError(
            f"The model has {units} layers, fewer than the {len(names)} devices: name at most "
            f"{units} devices. Received: {devices=!r}"
        )
    return names


def check_batch(batch: Any, model: Any) -> tuple[Any, int]:
    """Returns a `tf.TensorSpec` for each input of the model, and the number of examples."""
    import keras
    import tensorflow as tf

    inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    if isinstance(batch, Integral) and not isinstance(batch, bool):
        if batch < 1:
            raise ValueError(f"`batch` must be at least 1. Received: {batch=!r}")
        for each in model.inputs:
            if None in each.shape[1:]:
                raise ValueError(
                    f"The input {each.name!r} has more unknown dimensions than the batch, "
                    f"{tuple(each.shape)}: give a batch of inputs as `batch`. Received: {batch=!r}"
                )
        specs = keras.tree.map_structure(
            lambda each: tf.TensorSpec((int(batch), *each.shape[1:]), each.dtype), inputs
        )
        return specs, int(batch)
    try:
        keras.tree.assert_same_structure(inputs, batch)
        specs = keras.tree.map_structure(
            lambda each, given: tf.TensorSpec(tuple(given.shape), each.dtype),
            inputs,
            batch,
        )
        return specs, int(keras.tree.flatten(batch)[0].shape[0])
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise TypeError(
            "`batch` must be a number of examples, or arrays in the structure of the model's "
            f"inputs ({error}). Received: batch of type {type(batch).__name__}"
        ) from error


def check_optimizer(optimizer: Any, model: Any) -> tuple[Any, str]:
    """Returns the optimizer to measure slots with, and its name."""
    import keras

    if optimizer is None and model.compiled and model.optimizer is not None:
        return model.optimizer, type(model.optimizer).__name__
    try:
        chosen = keras.optimizers.get("adam" if optimizer is None else optimizer)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`optimizer` must be a Keras optimizer or the name of one. Received: {optimizer=!r}"
        ) from error
    name = type(chosen).__name__
    return chosen, f"{name} (assumed)" if optimizer is None else name


def stages_by_boundaries(
    boundaries: Any, units: Sequence[Unit], devices: Sequence[str]
) -> list[int]:
    """Returns the stage of each unit, given the layers that start the second and later stages."""
    if not isinstance(boundaries, (list, tuple)) or not all(isinstance(b, str) for b in boundaries):
        raise TypeError(f"`boundaries` must be a list of layer names. Received: {boundaries=!r}")
    if len(boundaries) != len(devices) - 1:
        raise ValueError(
            f"{len(devices)} devices need {len(devices) - 1} boundaries: the layer that begins "
            f"each stage after the first. Received: {boundaries=!r}"
        )
    starts = [_places(name, units, "boundaries")[0] for name in boundaries]
    if starts != sorted(set(starts)) or starts[0] == 0:
        raise ValueError(
            "`boundaries` must be in the order of the forward pass, each a layer further on than "
            f"the one before it, and none the model's first. Received: {boundaries=!r}"
        )
    return [sum(start <= place for start in starts) for place in range(len(units))]


def stages_by_layers(layers: Any, units: Sequence[Unit], devices: Sequence[str]) -> list[int]:
    """Returns the stage of each unit, given devices by layer name."""
    if not isinstance(layers, Mapping) or not all(
        isinstance(each, str) for pair in layers.items() for each in pair
    ):
        raise TypeError(f"`layers` must be a dict of layer names to devices. Received: {layers=!r}")
    stages: dict[int, int] = {}
    # Names of nested models come first, so that a layer within can have another device.
    for name in sorted(layers, key=lambda each: -len(_places(each, units, "layers"))):
        device = _canonical(layers[name])
        if device not in devices:
            raise ValueError(
                f"`layers` puts {name!r} on {layers[name]!r}, which is not among the devices "
                f"{', '.join(devices)}. Received: {layers=!r}"
            )
        stages.update(dict.fromkeys(_places(name, units, "layers"), devices.index(device)))
    chosen, stage = [], 0
    for place in range(len(units)):
        stage = stages.get(place, stage)
        chosen.append(stage)
    for index, device in enumerate(devices):
        if index not in chosen:
            raise ValueError(f"`layers` leaves {device!r} without a layer. Received: {layers=!r}")
    return chosen


def _places(name: str, units: Sequence[Unit], argument: str) -> list[int]:
    """Returns the indices in `units` of a layer, or of all layers of a nested model."""
    places = [
        place
        for place, unit in enumerate(units)
        if unit.name == name or unit.name.startswith(name + "/")
    ]
    if not places:
        known = ", ".join(unit.name for unit in units)
        raise ValueError(
            f"The model has no layer {name!r} with operations of its own; it has {known}. "
            f"Received: {argument}={name!r}"
        )
    return places


def _canonical(device: str) -> str:
    """Returns "/GPU:0" for "GPU:0", "gpu:0" and "/job:localhost/.../device:GPU:0"."""
    return "/" + device.upper().rpartition("DEVICE:")[2].strip("/")
