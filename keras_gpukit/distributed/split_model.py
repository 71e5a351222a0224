"""`split_model`: distributes the layers of one model over several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from keras_gpukit.arguments import Verbose, check_verbose
from keras_gpukit.distributed.splitting import arguments, costs
from keras_gpukit.distributed.splitting.layers import Unit, marked, rebuild, units_of
from keras_gpukit.distributed.splitting.steps import copy_optimizer_state, place_steps
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
    names = arguments.check_devices(devices, len(units))
    if boundaries is not None and layers is not None:
        raise ValueError(
            "Give `boundaries` or `layers`, not both. Received: "
            f"boundaries={boundaries!r}, layers={layers!r}"
        )
    inputs, batch_size = arguments.check_batch(batch, model)
    slots_of, optimizer_name = arguments.check_optimizer(optimizer, model)
    chosen_by: SplitBy
    if boundaries is not None:
        chosen_by, stage_of = "boundaries", arguments.stages_by_boundaries(boundaries, units, names)
    elif layers is not None:
        chosen_by, stage_of = "layers", arguments.stages_by_layers(layers, units, names)
    else:
        chosen_by, stage_of = "memory", None
    activations = costs.trace_activations(model, len(units), inputs)
    weights = [costs.weight_bytes(unit) for unit in units]
    slots = [costs.slot_bytes(unit, slots_of) for unit in units]
    if stage_of is None:
        sizes = [sum(each) for each in zip(weights, slots, activations.kept_bytes, strict=True)]
        starts = costs.cut(sizes, len(names), _bytes_at_cuts(activations.edges, len(units)))
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


def _bytes_at_cuts(edges: Sequence[costs.Edge], units: int) -> list[int]:
    """Returns, for each unit, the bytes that would pass through a cut right before it."""
    passing = [0] * (units + 1)
    furthest: dict[tuple[str, int], costs.Edge] = {}
    for edge in edges:
        known = furthest.get((edge.tensor, edge.source))
        if known is None or known.target < edge.target:
            furthest[edge.tensor, edge.source] = edge
    for edge in furthest.values():
        for place in range(edge.source + 1, edge.target + 1):
            passing[place] += edge.size_bytes or 0
    return passing[:units]


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
