"""Keeps backward pass, optimizer slots and updates on the devices of their layers.

`tf.device` in a layer's call is not enough: the backward pass, slots created in the first step,
and the update would be on the default device, and every gradient would pass through it.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from keras_gpukit.distributed.splitting.rebuild import mark_in
from keras_gpukit.distributed.splitting.updates import place_updates
from keras_gpukit.errors import GPUKitWarning

# These operations run where their input is, or belong to no device.
_LEFT_TO_TENSORFLOW = frozenset({"Const", "Placeholder", "NoOp"})


class StageDevices:
    """Chooses the device of each operation of a step while the step is traced.

    A layer's operations, and those of its backward pass, have the mark of the layer's stage in
    their names. Any other operation goes where its largest input is: the loss to the last stage,
    the clipping of a gradient to the stage of that gradient.

    Args:
        devices: Device of each stage, such as "/GPU:0".
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self._devices = tuple(devices)
        self._stage = {device.lstrip("/"): stage for stage, device in enumerate(devices)}

    def __call__(self, operation: Any) -> str:
        """Returns the name of the device; an empty name leaves the choice to TensorFlow."""
        mark = mark_in(operation.name)
        if mark is not None:
            return self._devices[mark]
        if operation.device or operation.type in _LEFT_TO_TENSORFLOW:
            return str(operation.device)
        sizes: dict[int, float] = {}
        for tensor in operation.inputs:
            stage = self._stage.get(_short(_device_of(tensor)))
            if stage is not None:
                elements = tensor.shape.num_elements() if tensor.shape.rank is not None else None
                size = inf if elements is None else elements
                sizes[stage] = max(size, sizes.get(stage, 0))
        if not sizes:
            return ""
        largest = max(sizes.values())
        stages = [stage for stage, size in sizes.items() if size == largest]
        # AddN sums gradients: it belongs to the earlier layer, which both flow back to.
        return self._devices[min(stages) if operation.type == "AddN" else max(stages)]


def _device_of(tensor: Any) -> str:
    """Returns the device of a tensor; for a variable's value, the device of the variable."""
    if tensor.op.type == "ReadVariableOp":  # TensorFlow creates it outside any device scope
        return _device_of(tensor.op.inputs[0])
    if tensor.op.device or tensor.op.type != "Placeholder":
        return str(tensor.op.device)
    for outside, inside in getattr(tensor.graph, "captures", ()):
        if inside is tensor:
            return _device_of(outside) if hasattr(outside, "graph") else str(outside.device)
    return ""


def _short(device: str) -> str:
    """Returns the short name of a device, such as "GPU:0", from a full or partial name."""
    return device.rpartition("/")[2].removeprefix("device:")


def place_steps(model: Any, devices: Sequence[str]) -> None:
    """Makes the steps and the updates of a split model run on the devices of its stages.

    It replaces attributes of the instance only: the class and the saved model stay unchanged.
    """
    choose = StageDevices(devices)
    for name in ("train_step", "test_step", "predict_step"):
        setattr(model, name, _with_devices(getattr(model, name), choose))
    model.compile = _compiling(model)


def _with_devices(step: Callable[..., Any], choose: StageDevices) -> Callable[..., Any]:
    import tensorflow as tf

    @functools.wraps(step)
    def placed(*args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():
            return step(*args, **kwargs)
        with tf.compat.v1.get_default_graph().device(choose):
            return step(*args, **kwargs)

    return placed


def _compiling(model: Any) -> Callable[..., None]:
    compile_as_ever = model.compile
    signature = inspect.signature(compile_as_ever)

    @functools.wraps(compile_as_ever)
    def compiling(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        if given.get("jit_compile") is True:
            raise ValueError(
                "XLA compiles a step for one device, and this model's step spans several: leave "
                "jit_compile out. Received: jit_compile=True"
            )
        if given.get("run_eagerly"):
            warnings.warn(
                "run_eagerly=True runs the backward pass of a split model on the default device: "
                "the loss is right, but the memory of a training step is not split",
                GPUKitWarning,
                stacklevel=2,
            )
        compile_as_ever(*args, **kwargs)
        model.jit_compile = False
        if model.optimizer is not None:
            place_updates(model.optimizer, model.trainable_variables)

    return compiling
