"""What a process shows of its GPUs after `configure_gpus`."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.gpu.nvml import added_bytes, read_gpus


def observe(arguments: dict[str, Any], unit: int) -> dict[str, Any]:
    """Sets the GPUs up, computes a little, and reads what is there then.

    Args:
        arguments: Those of `configure_gpus`.
        unit: Bytes; tensors of 1, 3/2 and 3 units are tried on each device.
    """
    import keras_gpukit as gpukit

    before = read_gpus()
    setup = gpukit.configure_gpus(**arguments, verbose=False)

    import keras
    import tensorflow as tf

    values = tf.random.normal((1024, 1024))
    product = tf.linalg.matmul(values, values)
    product.numpy()
    after = read_gpus()
    logical = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in logical or tf.config.list_logical_devices("CPU")]
    sizes = {"1": unit, "1.5": 3 * unit // 2, "3": 3 * unit}
    return {
        "warnings": list(setup.warnings),
        "uuids": [gpu.uuid for gpu in setup.devices],
        "logical_gpus": len(logical),
        "device_of_result": product.device,
        "added_bytes": added_bytes(before, after),
        "gpus": after,
        "dtype_policy": keras.config.dtype_policy().name,
        "fits": [{name: fits(each, size) for name, size in sizes.items()} for each in devices],
        "allocator": refusing_allocator(devices[0]),
        "named_uuids": named_uuids(),
        "grew_uuids": [grew_on(each.name, unit) for each in logical],
        "unit": unit,
    }


def named_uuids() -> list[str | None]:
    """The UUID of the GPU that this package names for each logical GPU, in TensorFlow's order."""
    from keras_gpukit.sensors.devices import visible_gpus

    owners = {number: gpu.uuid for gpu in visible_gpus() for number in gpu.logical or ()}
    return [owners[number] for number in sorted(owners)]


def grew_on(device: str, unit: int) -> str | None:
    """The UUID of the GPU on which memory grew when a logical GPU took a tensor.

    None where none grew by half of it: the allocator had taken what it needed before.
    """
    import tensorflow as tf

    before = read_gpus()
    with tf.device(device):
        held = tf.zeros([unit // 4]) + 1.0
        held.numpy()
    added = added_bytes(before, read_gpus())
    del held
    uuid = max(added, key=lambda each: added[each], default=None)
    return uuid if uuid is not None and added[uuid] >= unit / 2 else None


def fits(device: str, size: int) -> bool:
    """Whether a device takes a tensor of some bytes."""
    import tensorflow as tf

    try:
        with tf.device(device):
            tf.zeros([size // 4]).numpy()[0]
    except tf.errors.ResourceExhaustedError:
        return False
    return True


def refusing_allocator(device: str) -> str | None:
    """Returns the name of the allocator that refuses a tensor larger than any memory."""
    import tensorflow as tf

    try:
        with tf.device(device):
            tf.zeros([2**58])
    except tf.errors.ResourceExhaustedError as error:
        named = re.search(r"by allocator (\S+)", str(error))
        return named and named[1]
    return None
