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

from keras_gpukit.distributed.splitting import canonical, mark_in
from keras_gpukit.errors import GPUKitWarning
from keras_gpukit.frameworks import keras_trainer

# These operations run where their input is, or belong to no device.
_LEFT_TO_TENSORFLOW = frozenset({"Const", "Placeholder", "NoOp"})


def _choose(devices: Sequence[str], operation: Any) -> str:
    """Returns the device of an operation of a step; "" leaves the choice to TensorFlow.

    A layer's operations, and those of its backward pass, have the mark of the layer's stage in
    their names. Any other operation goes where its largest input is: the loss to the last stage,
    the clipping of a gradient to the stage of that gradient.
    """
    mark = mark_in(operation.name)
    if mark is not None:
        return devices[mark]
    if operation.device or operation.type in _LEFT_TO_TENSORFLOW:
        return str(operation.device)
    sizes: dict[int, float] = {}
    for tensor in operation.inputs:
        device = canonical(_device_of(tensor))
        if device in devices:
            stage = devices.index(device)
            elements = tensor.shape.num_elements() if tensor.shape.rank is not None else None
            size = inf if elements is None else elements
            sizes[stage] = max(size, sizes.get(stage, 0))
    if not sizes:
        return ""
    largest = max(sizes.values())
    stages = [stage for stage, size in sizes.items() if size == largest]
    # AddN sums gradients: it belongs to the earlier layer, which both flow back to.
    return devices[min(stages) if operation.type == "AddN" else max(stages)]


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


def place_steps(model: Any, devices: Sequence[str]) -> None:
    """Makes the steps and the updates of a split model run on the devices of its stages.

    It replaces attributes of the instance only: the class and the saved model stay unchanged.
    """
    choose = functools.partial(_choose, devices)
    for name in ("train_step", "test_step", "predict_step"):
        setattr(model, name, _with_devices(getattr(model, name), choose))
    model.compile = _compiling(model)


def _with_devices(step: Callable[..., Any], choose: Callable[[Any], str]) -> Callable[..., Any]:
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


def place_updates(optimizer: Any, variables: Sequence[Any]) -> None:
    """Creates the slots now, each on the device of its variable, where the updates run as well.

    Each step sends the learning rate and the step count to each device once. The gradients stay
    where they are.
    """
    import keras
    import tensorflow as tf

    if not optimizer.built:
        optimizer.build(variables)
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # loss scaling wraps the optimizer
    keras_trainer.leave_distribution_out(inner)
    sender = _Sender(inner)
    apply, update = inner.apply, inner.update_step

    @functools.wraps(apply)
    def apply_afresh(*args: Any, **kwargs: Any) -> Any:
        sender.forget()  # a step may apply gradients several times, each with another count
        try:
            return apply(*args, **kwargs)
        finally:
            sender.forget()

    @functools.wraps(update)
    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
        tensor = variable.value if isinstance(variable, keras.Variable) else variable
        if tf.executing_eagerly():
            with tf.device(tensor.device):
                return update(gradient, variable, learning_rate)
        rate, count = sender.send(learning_rate, tensor.device)
        with tf.device(tensor.device), keras_trainer.counting_by(inner, count):
            return update(gradient, variable, rate)

    inner.apply, inner.update_step = apply_afresh, update_step


class _Sender:
    """Reads the learning rate and the step count once, and sends them to each device once."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._read: dict[int, tuple[Any, Any]] = {}
        self._sent: dict[tuple[int, str], tuple[Any, Any]] = {}

    def forget(self) -> None:
        self._read.clear()
        self._sent.clear()

    def send(self, learning_rate: Any, device: str) -> tuple[Any, Any]:
        """Returns the rate and the count on the device; the count is None if it cannot be read."""
        import keras
        import tensorflow as tf

        graph = id(tf.compat.v1.get_default_graph())  # a branch of a condition has its own graph
        if graph not in self._read:
            count = keras_trainer.step_count(self._optimizer)
            self._read[graph] = (
                keras.ops.convert_to_tensor(learning_rate),
                None if count is None else keras.ops.convert_to_tensor(count),
            )
        if (graph, device) not in self._sent:
            rate, count = self._read[graph]
            with tf.device(device):
                copies = (tf.identity(rate), None if count is None else tf.identity(count))
            self._sent[graph, device] = copies
        return self._sent[graph, device]


def copy_optimizer_state(source: Any, target: Any) -> None:
    """Copies iterations, learning rate and slots; does nothing if `source` is not built."""
    if source is None or not source.built:
        return
    for old, new in zip(source.variables, target.variables, strict=True):
        new.assign(old)
