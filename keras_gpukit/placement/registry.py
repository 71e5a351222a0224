"""Looks up TensorFlow's dtypes, and the kernels of an operation for a GPU or for XLA."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from keras_gpukit.frameworks.tf_functions import op_def, registered_kernels
from keras_gpukit.records.placement import Kernel, OperationKernels


@cache
def dtype_name(number: int) -> str:
    """Returns the name of a dtype, such as "float32", given its enum number (DT_FLOAT)."""
    import tensorflow as tf

    return str(tf.dtypes.as_dtype(number).name)


@cache
def dtype_bytes(number: int) -> int | None:
    """Returns the bytes per element of a dtype; None if elements differ in size, as for strings."""
    import tensorflow as tf

    dtype = tf.dtypes.as_dtype(number)
    return None if dtype in (tf.string, tf.resource, tf.variant) else int(dtype.size)


@cache
def operation_kernels(operation_type: str) -> OperationKernels | None:
    """Returns the arguments and GPU kernels of an operation type; None if the type is unknown."""
    definition = op_def(operation_type)
    if definition is None:
        return None
    registered = [
        kernel
        for kernel in registered_kernels(operation_type)
        # A kernel with a label is used only if the label is requested. DEFAULT stands for any
        # device that has no kernel of its own.
        if kernel.device_type in ("GPU", "DEFAULT") and not kernel.label
    ]
    registered.sort(key=lambda kernel: (kernel.device_type != "GPU", -kernel.priority))
    return OperationKernels(
        inputs=_without_resources(definition.input_arg),
        outputs=_without_resources(definition.output_arg),
        uses_resource=any(map(_is_resource, definition.input_arg)),
        gpu=tuple(
            Kernel(
                allowed={
                    constraint.name: frozenset(map(dtype_name, constraint.allowed_values.list.type))
                    for constraint in kernel.constraint
                },
                host_arguments=frozenset(kernel.host_memory_arg),
            )
            for kernel in registered
        ),
    )


def _without_resources(arguments: Iterable[Any]) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments if not _is_resource(argument))


def _is_resource(argument: Any) -> bool:
    # If an attribute sets the dtype, type is 0.
    return bool(argument.type) and dtype_name(argument.type) == "resource"


def xla_refuses(operation_type: str, device: str) -> bool | None:
    """Whether XLA has no kernel for an operation; None before XLA has registered its kernels."""
    wanted = f"XLA_{device.partition(':')[0]}_JIT"

    def has_kernel(type_: str) -> bool:
        return any(each.device_type == wanted for each in registered_kernels(type_))

    if not has_kernel("MatMul"):  # XLA registers its kernels when it first compiles
        return None
    return not has_kernel(operation_type)
