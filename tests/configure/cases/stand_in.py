"""GPUs for a machine without any: TensorFlow lists them, NVML describes them, nothing runs there.

Call `pretend` before TensorFlow first lists its devices. TensorFlow keeps what it was told for
good, so each case is a script of its own.
"""

import sys
from types import SimpleNamespace

import pytest

GIB = 1 << 30


def uuid(index):
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def pretend(count, name="NVIDIA A100", capability=(8, 0), memory_bytes=80 * GIB):
    from tensorflow.python import pywrap_tfe

    from keras_gpukit.sensors import cuda

    real = pywrap_tfe.TF_ListPhysicalDevices
    pywrap_tfe.TF_ListPhysicalDevices = lambda: [
        *real(),
        *(b"/physical_device:GPU:%d" % index for index in range(count)),
    ]
    pywrap_tfe.TF_GetDeviceDetails = lambda index: {
        "device_name": name,
        "compute_capability": "{}.{}".format(*capability),
    }
    sys.modules["pynvml"] = nvml(count, name, capability, memory_bytes)
    cuda.cuda_uuids = lambda: tuple(map(uuid, range(count)))


def nvml(count=1, name="NVIDIA A100", capability=(8, 0), memory_bytes=80 * GIB, fails=None):
    """A stand-in for `pynvml`; `fails` names the error that its start raises."""
    error = type("NVMLError", (Exception,), {})

    def start():
        if fails:
            raise type(f"NVMLError_{fails}", (error,), {})

    return SimpleNamespace(
        NVMLError=error,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: "560.35.03",
        nvmlSystemGetCudaDriverVersion=lambda: 12060,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: name.encode(),
        nvmlDeviceGetUUID=uuid,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=memory_bytes),
        nvmlDeviceGetCudaComputeCapability=lambda handle: list(capability),
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=f"00000000:{handle:02X}:00.0"),
    )


def gpu_options():
    """What TensorFlow will hand to its runtime."""
    from tensorflow.python.eager import context

    return context.context().config.gpu_options


def raises(error, *words, call):
    """Asserts that `call` raises `error` with all the words in its message."""
    with pytest.raises(error) as caught:
        call()
    assert [word for word in words if word not in str(caught.value)] == [], caught.value
