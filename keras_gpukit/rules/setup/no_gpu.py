"""Infers from facts alone whether there is a GPU, and why TensorFlow has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_gpukit.errors import failure
from keras_gpukit.records.installation import Cause, DriverGPU, Machine
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import Outcome, Rule

VISIBLE = "CUDA_VISIBLE_DEVICES"


def entries_of(value: str) -> tuple[str, ...]:
    """Returns the entries of `CUDA_VISIBLE_DEVICES` before the first one that cannot name a GPU.

    CUDA ignores all entries from the first one on that names no GPU, such as -1.
    """
    entries = []
    for part in value.split(","):
        entry = part.strip()
        if not (entry.isdecimal() or entry.startswith(("GPU-", "MIG-"))):
            break
        entries.append(entry)
    return tuple(entries)


def names_any(entry: str, gpus: Sequence[DriverGPU]) -> bool:
    """Whether an entry may name one or more of the machine's GPUs, or of their MIG instances."""
    if entry.isdecimal():
        return int(entry) < len(gpus)
    instances = [instance for gpu in gpus for instance in gpu.mig or ()]
    # Drivers before 470 name an instance by its GPU.
    if entry.startswith("MIG-GPU-" if instances else "MIG-"):
        return True
    uuids = (*(gpu.uuid for gpu in gpus), *(instance.uuid for instance in instances))
    return any((uuid or "").lower().startswith(entry.lower()) for uuid in uuids)


NOT_WANTED = Cause("not_wanted", 'devices="none" hides every GPU.')


class NoGPU(Rule):
    """A run on the CPU because TensorFlow has no GPU. It is a remark, since it may be intended."""

    code = "no-gpu"
    title = "TensorFlow had no GPU: the run used the CPU"
    requires = "the list of TensorFlow's GPUs"
    charts = ("placement",)

    def judge(self, summary: RunSummary) -> Outcome:
        if summary.environment.gpus:
            return None
        if summary.profile is not None and not summary.environment.versions:
            return self.abstain("a profile alone does not show why no GPU is in it")
        return self.find(
            "info",
            advice=("`keras-gpukit doctor`: says why, and what to install",),
        )


def why_no_gpu(machine: Machine) -> tuple[Cause, ...]:
    """Returns why TensorFlow lists no GPU, the cause to fix first; empty if it lists one."""
    if machine.gpus:
        return ()
    return tuple(_causes(machine)) or (
        Cause(
            "unknown",
            "TensorFlow lists no GPU although build, driver and libraries look right.",
            "Its own log says more: start Python with TF_CPP_MIN_LOG_LEVEL=0 and "
            "TF_CPP_MAX_VLOG_LEVEL=1, and read what follows `cudart_stub` or `gpu_device`.",
        ),
    )


def import_fails(error: Exception, backend: str | None = None) -> Cause:
    """Returns the cause if importing TensorFlow or Keras failed, by the error and KERAS_BACKEND."""
    failed = failure("Importing TensorFlow and Keras", error)
    failed = f"{failed[0].upper()}{failed[1:]}"  # a sentence of its own here
    advice = "Does `python -c 'import tensorflow, keras'` work? If not, fix that first."
    if backend not in (None, "", "tensorflow"):
        failed += f". KERAS_BACKEND is {backend!r}, and keras_gpukit works on TensorFlow only"
        advice = "Set KERAS_BACKEND=tensorflow."
    return Cause("import_fails", f"{failed}.", advice)


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


def _causes(machine: Machine) -> Iterator[Cause]:
    build, driver, libraries = machine.build, machine.driver, machine.libraries
    if build.cuda is False:
        advice = 'Install the GPU build: pip install "tensorflow[and-cuda]".'
        if machine.platform == "win32":
            advice = "On Windows TensorFlow uses NVIDIA GPUs inside WSL2 only: install it there."
        if machine.platform == "darwin":
            advice = (
                "On macOS there is no CUDA; Apple's tensorflow-metal plugin adds the Mac's GPU."
            )
        yield Cause("cpu_build", "This TensorFlow was built without CUDA.", advice)
    visible = machine.environment.get(VISIBLE)
    first = None if visible is None else visible.split(",")[0].strip()
    if first in ("", "-1", "NoDevFiles"):
        yield Cause(
            "hidden",
            f"CUDA_VISIBLE_DEVICES={visible!r} hides every GPU.",
            "Unset it, or name the GPUs to use, before Python starts.",
        )
    elif first is not None and driver.gpus and not names_any(first, driver.gpus):
        yield Cause(
            "hidden",
            f"CUDA_VISIBLE_DEVICES={visible!r} begins with {first!r}, which names none of this "
            f"machine's {len(driver.gpus)} GPUs, so CUDA shows none.",
            f"Use indices from 0 to {len(driver.gpus) - 1}, or UUIDs from `nvidia-smi -L`.",
        )
    if machine.platform != "darwin" and driver.error is not None:
        is_outside = driver.error == "LibraryNotFound" and driver.kernel_module
        known = _DRIVER_CAUSES.get(driver.error + (" in a container" if is_outside else ""))
        # With any other error NVML answers no question, but CUDA may still work.
        yield Cause(
            *known
            or (
                "driver_fails",
                f"The NVIDIA driver does not answer (NVML says {driver.error}).",
                "Does `nvidia-smi` work? If not, fix that first.",
            )
        )
    if driver.version is not None and not driver.gpus:
        yield Cause(
            "no_device",
            f"The NVIDIA driver {driver.version} runs but finds no GPU.",
            "In a container or a batch job, ask for a GPU; else see `dmesg` and `lspci`.",
        )
    can, built = driver.cuda_version, build.cuda_version
    needs = int(built.split(".")[0]) if built and built[0].isdigit() else None
    # Within a major release, CUDA runs on every driver for that release.
    # https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    if can is not None and needs is not None and can[0] < needs:
        yield Cause(
            "old_driver",
            f"The NVIDIA driver {driver.version} runs CUDA up to {can[0]}.{can[1]}; this "
            f"TensorFlow was built for CUDA {built}.",
            f"Install a driver for CUDA {needs} or newer.",
        )
    missing = [library.name for library in libraries if library.path is None]
    # Without a driver the libraries would be useless, and most machines without one lack them.
    if missing and driver.version is not None:
        yield Cause(
            "missing_libraries",
            f"CUDA libraries are missing: {', '.join(missing)}.",
            'Install them: pip install "tensorflow[and-cuda]".',
        )
    codes = [int(name.split("_")[1]) for name in build.compute_capabilities]
    here = [gpu.compute_capability for gpu in driver.gpus if gpu.compute_capability]
    if codes and here and len(here) == len(driver.gpus) and max(here) < divmod(min(codes), 10):
        oldest, newest = divmod(min(codes), 10), max(here)
        yield Cause(
            "old_gpu",
            f"The newest GPU here has compute capability {newest[0]}.{newest[1]}; this TensorFlow "
            f"has code from {oldest[0]}.{oldest[1]} on.",
            "Use an older TensorFlow or build it for this GPU.",
        )
