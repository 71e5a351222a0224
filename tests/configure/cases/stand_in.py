"""GPUs for a machine without any: TensorFlow lists them, NVML describes them, nothing runs there.

Call `pretend` before TensorFlow first lists its devices. TensorFlow keeps what it was given for
good, so each case is a script of its own.
"""

import sys

import pytest
from helpers.fake_nvml import GIB, FakeGPU, FakeNVML

__all__ = ["GIB", "FakeNVML", "gpu_options", "pretend", "refused", "uuid"]


def uuid(index):
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def pretend(count, name="NVIDIA A100", capability=(8, 0), memory_bytes=80 * GIB):
    from tensorflow.python import pywrap_tfe

    from keras_gpukit.sensors import devices
    from keras_gpukit.sensors.devices import CUDADevice

    real = pywrap_tfe.TF_ListPhysicalDevices
    pywrap_tfe.TF_ListPhysicalDevices = lambda: [
        *real(),
        *(b"/physical_device:GPU:%d" % index for index in range(count)),
    ]
    pywrap_tfe.TF_GetDeviceDetails = lambda index: {
        "device_name": name,
        "compute_capability": "{}.{}".format(*capability),
    }
    gpus = [FakeGPU(uuid(index), name, memory_bytes, capability) for index in range(count)]
    sys.modules["pynvml"] = FakeNVML(gpus)
    devices.cuda_devices = lambda: tuple(CUDADevice(uuid(index)) for index in range(count))


def gpu_options():
    """What TensorFlow will hand to its runtime."""
    from tensorflow.python.eager import context

    return context.context().config.gpu_options


def refused(error, *words, **arguments):
    """Asserts that `configure_gpus` raises an error with all the words in its message."""
    from keras_gpukit import configure_gpus

    with pytest.raises(error) as caught:
        configure_gpus(**arguments)
    assert [word for word in words if word not in str(caught.value)] == [], caught.value
