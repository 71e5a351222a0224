"""Infers from facts alone whether there is a GPU, and why TensorFlow has none."""

from __future__ import annotations

from collections.abc import Callable

from keras_gpukit.errors import failure
from keras_gpukit.records.installation import Machine
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.setup import Cause
from keras_gpukit.rules.rule import Outcome, Rule
from keras_gpukit.rules.setup.visible_devices import VISIBLE, names_any

NOT_WANTED = Cause("not_wanted", 'devices="none" hides every GPU.')


class NoGPU(Rule):
    """A run on the CPU because TensorFlow has no GPU. It is a remark, since it may be intended."""

    code = "no-gpu"
    subject = "GPUs"
    title = "TensorFlow had no GPU: the run used the CPU"
    requires = "the list of TensorFlow's GPUs"

    def judge(self, summary: RunSummary) -> Outcome:
        """Checks whether the list of GPUs is empty."""
        if summary.environment.gpus:
            return None
        return self.find(
            "info",
            advice=("`keras-gpukit doctor`: says why, and what to install",),
        )


def why_no_gpu(machine: Machine) -> tuple[Cause, ...]:
    """Returns why TensorFlow lists no GPU; the cause to fix first comes first.

    Returns:
        At least one cause; empty if TensorFlow lists a GPU.
    """
    if machine.gpus:
        return ()
    causes = tuple(cause for check in _CHECKS if (cause := check(machine)))
    return causes or (
        Cause(
            "unknown",
            "TensorFlow lists no GPU although build, driver and libraries look right.",
            "Its own log says more: start Python with TF_CPP_MIN_LOG_LEVEL=0 and "
            "TF_CPP_MAX_VLOG_LEVEL=1, and read what follows `cudart_stub` or `gpu_device`.",
        ),
    )


def import_fails(error: Exception) -> Cause:
    """Returns the cause if TensorFlow or Keras cannot be used at all."""
    return Cause(
        "import_fails",
        failure("Importing TensorFlow and Keras", error),
        "Does `python -c 'import tensorflow, keras'` work? If not, fix that first.",
    )


def _cpu_build(machine: Machine) -> Cause | None:
    if machine.build.cuda is not False:
        return None
    advice = 'Install the GPU build: pip install "tensorflow[and-cuda]".'
    if machine.platform == "win32":
        advice = "On Windows TensorFlow uses NVIDIA GPUs inside WSL2 only: install it there."
    if machine.platform == "darwin":
        advice = "On macOS there is no CUDA; Apple's tensorflow-metal plugin adds the Mac's GPU."
    return Cause("cpu_build", "This TensorFlow was built without CUDA.", advice)


def _hidden(machine: Machine) -> Cause | None:
    visible = machine.environment.get(VISIBLE)
    if visible is None:
        return None
    first = visible.split(",")[0].strip()
    if first in ("", "-1", "NoDevFiles"):
        return Cause(
            "hidden",
            f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU.",
            "Unset it, or name the GPUs to use, before Python starts.",
        )
    gpus = machine.driver.gpus
    if gpus and not names_any(first, gpus):
        return Cause(
            "hidden",
            f"CUDA_VISIBLE_DEVICES={visible!r} begins with {first!r}, which names none of this "
            f"machine's {len(gpus)} GPUs, so CUDA shows none.",
            f"Use indices from 0 to {len(gpus) - 1}, or UUIDs from `nvidia-smi -L`.",
        )
    return None


_DRIVER_CAUSES = {
    "LibraryNotFound": (
        "no_driver",
        "No NVIDIA driver is installed (its library libnvidia-ml is not found).",
        "On a machine with an NVIDIA GPU, install the driver; `nvidia-smi` shows it working.",
    ),
    "LibraryNotFound in a container": (
        "driver_not_passed_in",
        "The NVIDIA driver is loaded in the kernel, but its libraries are not here: this "
        "looks like a container that was not given the GPUs.",
        "Start it with the NVIDIA Container Toolkit, such as `docker run --gpus all`.",
    ),
    "DriverNotLoaded": (
        "driver_not_loaded",
        "The NVIDIA driver is installed but not loaded in the kernel.",
        "Restart the machine, or load it with `modprobe nvidia`; see `dmesg`.",
    ),
    "LibRmVersionMismatch": (
        "driver_mismatch",
        "The NVIDIA driver's libraries are of another version than the loaded driver.",
        "It was updated while running: restart the machine (or, in a container, the host).",
    ),
}
"""Cause by NVML's error."""


def _driver(machine: Machine) -> Cause | None:
    driver = machine.driver
    if machine.platform == "darwin" or driver.error is None:
        return None
    is_outside = driver.error == "LibraryNotFound" and driver.kernel_module
    known = _DRIVER_CAUSES.get(driver.error + (" in a container" if is_outside else ""))
    # With any other error NVML answers no question, but CUDA may still work.
    return Cause(
        *known
        or (
            "driver_fails",
            f"The NVIDIA driver does not answer (NVML says {driver.error}).",
            "Does `nvidia-smi` work? If not, fix that first.",
        )
    )


def _no_device(machine: Machine) -> Cause | None:
    if machine.driver.version is None or machine.driver.gpus:
        return None
    return Cause(
        "no_device",
        f"The NVIDIA driver {machine.driver.version} runs but finds no GPU.",
        "In a container or a batch job, ask for a GPU; else see `dmesg` and `lspci`.",
    )


def _old_driver(machine: Machine) -> Cause | None:
    can, built = machine.driver.cuda_version, machine.build.cuda_version
    needs = int(built.split(".")[0]) if built and built[0].isdigit() else None
    # Within a major release, CUDA runs on every driver for that release.
    # https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    if can is None or needs is None or can[0] >= needs:
        return None
    return Cause(
        "old_driver",
        f"The NVIDIA driver {machine.driver.version} runs CUDA up to {can[0]}.{can[1]}; this "
        f"TensorFlow was built for CUDA {built}.",
        f"Install a driver for CUDA {needs} or newer.",
    )


def _missing_libraries(machine: Machine) -> Cause | None:
    missing = [library.name for library in machine.libraries if library.path is None]
    # Without a driver the libraries would be useless, and most machines without one lack them.
    if not missing or machine.driver.version is None:
        return None
    return Cause(
        "missing_libraries",
        f"CUDA libraries are missing: {', '.join(missing)}.",
        'Install them: pip install "tensorflow[and-cuda]".',
    )


def _old_gpu(machine: Machine) -> Cause | None:
    built = [int(name.split("_")[1]) for name in machine.build.compute_capabilities]
    here = [gpu.compute_capability for gpu in machine.driver.gpus]
    if not built or not here or None in here:
        return None
    oldest = divmod(min(built), 10)
    newest = max(capability for capability in here if capability)
    if newest >= oldest:
        return None
    return Cause(
        "old_gpu",
        f"The newest GPU here has compute capability {newest[0]}.{newest[1]}; this TensorFlow "
        f"has code from {oldest[0]}.{oldest[1]} on.",
        "Use an older TensorFlow or build it for this GPU.",
    )


_CHECKS: tuple[Callable[[Machine], Cause | None], ...] = (
    _cpu_build,
    _hidden,
    _driver,
    _no_device,
    _old_driver,
    _missing_libraries,
    _old_gpu,
)
