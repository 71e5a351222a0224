"""`split_model`: distributes the layers of one model over several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose
from keras_gpukit.distributed.splitting import Unit, canonical, costs, marked, rebuild, units_of
from keras_gpukit.distributed.splitting.placed_steps import copy_optimizer_state, place_steps
from keras_gpukit.records.cluster import Crossing, ModelStage, SplitBy, SplitPlan
from keras_gpukit.reports.memory import split_view as render
from keras_gpukit.reports.terminal import print_anywhere


def split_model(
    model: Any,
    devices: Sequence[str],
    *,
    boundaries: Sequence[str] | None = None,
    layers: Mapping[str, str] | None = None,
    batch: Any = 32,
    optimizer: Any = None,
    verbose: Verbose = "auto",
) -> Any:
    """Returns a copy of a model whose layers are distributed over devices.

    Use it for a model that does not fit into the memory of one device. A layer's forward pass,
    backward pass, optimizer slots and updates are all on its device, and the loss equals that of
    the whole model on one device. The devices work one after the other, so no step gets faster:
    for speed, replicate the model instead (`configure_gpus(strategy="mirrored")`).

    By default, the layers are cut into consecutive stages that need about the same memory. This
    counts weights, optimizer slots, and the activations of one batch that the backward pass uses,
    each measured. `boundaries` or `layers` choose the stages instead. Nested Functional and
    Sequential models are split inside; layers that contain layers stay whole.

    The copy is a plain Keras model with the same weights, and `fit`, `evaluate` and `predict` work
    as usual. Compile it before training. The copy of a compiled model is already compiled in the
    same way, with the state of its optimizer. After saving and loading, it is an ordinary model on
    one device. XLA is off in the copy, because XLA compiles for one device. The copy's attribute
    `split` is the `SplitPlan`.

    ```python
    with tf.device("/CPU:0"):  # host memory holds the whole model
        model = build()
    split = gpukit.split_model(model, ["/GPU:0", "/GPU:1"], batch=64)
    split.compile("adam", "mse")
    ```

    Args:
        model: A built Functional or Sequential model; it is not changed.
        devices: At least two logical devices in the order of the forward pass, such as
            `["/GPU:0", "/GPU:1"]`.
        boundaries: Names of the layers that start the second stage, the third, and so on. A layer
            of a nested model is named "model/layer".
        layers: Device of each layer, by layer name. A layer that is not named goes with the layer
            before it. The name of a nested model stands for all of its layers.
        batch: Number of examples to measure the activations with, or a batch of inputs. A batch
            of inputs is needed if an input has further dimensions of unknown size.
        optimizer: Keras optimizer, or the name of one, to measure the slots with. The default is
            the optimizer of the compiled model; "adam" if the model is not compiled.
        verbose: 0 prints nothing; 1, 2 and "auto" print the stages, their memory, and the tensors
            passed between them.

    Raises:
        TypeError: If an argument has a wrong type.
        ValueError: If a device does not exist or is named twice, a layer does not exist, the model
            has fewer layers than there are devices, or it cannot be taken apart (subclassed models,
            layers that share variables, models of a `tf.distribute` strategy).
    """
    check_verbose(verbose)
    units = units_of(model)
    names = _check_devices(devices, len(units))
    if boundaries is not None and layers is not None:
        raise ValueError(
            "Give `boundaries` or `layers`, not both. Received: "
            f"boundaries={boundaries!r}, layers={layers!r}"
        )
    inputs, batch_size = _check_batch(batch, model)
    slots_of, optimizer_name = _check_optimizer(optimizer, model)
    chosen_by: SplitBy
    if boundaries is not None:
        chosen_by, stage_of = "boundaries", _stages_by_boundaries(boundaries, units, names)
    elif layers is not None:
        chosen_by, stage_of = "layers", _stages_by_layers(layers, units, names)
    else:
        chosen_by, stage_of = "memory", None
    activations = costs.trace_activations(model, len(units), inputs)
    weights = [costs.weight_bytes(unit) for unit in units]
    slots = [costs.slot_bytes(unit, slots_of) for unit in units]
    if stage_of is None:
        sizes = [sum(parts) for parts in zip(weights, slots, activations.kept_bytes, strict=True)]
        starts = costs.cut(sizes, len(names), costs.bytes_at_cuts(activations.edges, len(units)))
        stage_of = [sum(start <= place for start in starts) for place in range(len(units))]
    uncounted = ", ".join(units[place].name for place in sorted(activations.incomplete))
    split = _place(model, stage_of, names)
    split.split = SplitPlan(
        stages=tuple(
            ModelStage(
                device,
                tuple(unit.name for unit, at in zip(units, stage_of, strict=True) if at == stage),
                _total(weights, stage_of, stage),
                _total(slots, stage_of, stage),
                _total(activations.kept_bytes, stage_of, stage),
            )
            for stage, device in enumerate(names)
        ),
        crossings=_crossings(activations.edges, units, stage_of, names),
        chosen_by=chosen_by,
        batch_size=batch_size,
        optimizer=optimizer_name,
        notes=(f"The memory of loops and dynamic shapes is not counted: {uncounted}",)
        if uncounted
        else (),
    )
    if verbose:
        print_anywhere(render(split.split))
    return split


def _place(model: Any, stage_of: Sequence[int], devices: Sequence[str]) -> Any:
    import tensorflow as tf

    @contextmanager
    def on_its_device(place: int) -> Any:
        with tf.device(devices[stage_of[place]]), marked(stage_of[place]):
            yield

    split = rebuild(model, on_its_device)
    place_steps(split, devices)
    if model.compiled:
        split.compile_from_config({**model.get_compile_config(), "jit_compile": False})
        copy_optimizer_state(model.optimizer, split.optimizer)
    return split


def _total(sizes: Sequence[int], stage_of: Sequence[int], stage: int) -> int:
    return sum(size for size, at in zip(sizes, stage_of, strict=True) if at == stage)


def _crossings(
    edges: Sequence[costs.Edge],
    units: Sequence[Unit],
    stage_of: Sequence[int],
    devices: Sequence[str],
) -> tuple[Crossing, ...]:
    """Returns the tensors that pass between devices, one entry for each device that uses them."""
    crossings: dict[tuple[str, int], Crossing] = {}
    for edge in edges:
        source, target = stage_of[edge.source], stage_of[edge.target]
        if source != target:
            crossings[edge.tensor, target] = Crossing(
                units[edge.source].name, devices[source], devices[target], edge.size_bytes
            )
    return tuple(crossings.values())


def _check_devices(devices: Any, units: int) -> tuple[str, ...]:
    """Returns the names of the devices in the form "/GPU:0"."""
    import tensorflow as tf

    if not isinstance(devices, (list, tuple)) or not all(isinstance(d, str) for d in devices):
        raise TypeError(
            "`devices` must be a list of device names, such as ['/GPU:0', '/GPU:1']. "
            f"Received: {devices=!r}"
        )
    existing = {canonical(device.name): device for device in tf.config.list_logical_devices()}
    names = tuple(canonical(device) for device in devices)
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


def _check_batch(batch: Any, model: Any) -> tuple[Any, int]:
    """Returns a `tf.TensorSpec` for each input of the model, and the number of examples."""
    import keras
    import tensorflow as tf

    inputs = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    if isinstance(batch, Integral) and not isinstance(batch, bool):
        if batch < 1:
            raise ValueError(f"`batch` must be at least 1. Received: {batch=!r}")
        for spec in model.inputs:
            if None in spec.shape[1:]:
                raise ValueError(
                    f"The input {spec.name!r} has more unknown dimensions than the batch, "
                    f"{tuple(spec.shape)}: give a batch of inputs as `batch`. Received: {batch=!r}"
                )
        specs = keras.tree.map_structure(
            lambda tensor: tf.TensorSpec((int(batch), *tensor.shape[1:]), tensor.dtype), inputs
        )
        return specs, int(batch)
    try:
        keras.tree.assert_same_structure(inputs, batch)
        specs = keras.tree.map_structure(
            lambda tensor, given: tf.TensorSpec(tuple(given.shape), tensor.dtype),
            inputs,
            batch,
        )
        return specs, int(keras.tree.flatten(batch)[0].shape[0])
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise TypeError(
            "`batch` must be a number of examples, or arrays in the structure of the model's "
            f"inputs ({error}). Received: batch of type {type(batch).__name__}"
        ) from error


def _check_optimizer(optimizer: Any, model: Any) -> tuple[Any, str]:
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


def _stages_by_boundaries(
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


def _stages_by_layers(layers: Any, units: Sequence[Unit], devices: Sequence[str]) -> list[int]:
    """Returns the stage of each unit, given devices by layer name."""
    if not isinstance(layers, Mapping) or not all(
        isinstance(text, str) for pair in layers.items() for text in pair
    ):
        raise TypeError(f"`layers` must be a dict of layer names to devices. Received: {layers=!r}")
    stages: dict[int, int] = {}
    # Names of nested models come first, so that a layer within can have another device.
    for name in sorted(layers, key=lambda layer: -len(_places(layer, units, "layers"))):
        device = canonical(layers[name])
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
