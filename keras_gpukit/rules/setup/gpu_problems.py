"""Infers from facts alone what blocks each GPU or CUDA library of a machine, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import (
    Build,
    CUDALibrary,
    CUDAPackage,
    DriverGPU,
    GPUHealth,
    Problem,
    RecoveryAction,
    Xid,
)
from keras_gpukit.rules.setup.gpus import SIZEABLE_FRACTION

_PROGRAM = "Mostly a fault of a program: run it with `compute-sanitizer`, or look at other GPUs."
_RESET = "Reset the GPU, `sudo nvidia-smi --gpu-reset`, or restart the machine."
_RETURN = f"{_RESET} If it comes back, test it with `dcgmi diag -r 3` and return it."


class Meaning(NamedTuple):
    """Description of an error, the advice, and whether the GPU works again only after a reset."""

    text: str
    advice: str
    needs_reset: bool = False


_OTHER = Meaning("of another kind", "Look it up in NVIDIA's Xid catalog.")
MEANINGS = {
    13: Meaning("an exception in a kernel", _PROGRAM),
    31: Meaning("a kernel accessed memory that is not its own", _PROGRAM),
    43: Meaning("work was stopped because of an error in its program", _PROGRAM),
    45: Meaning("work was removed because its program ended", "Look at the errors before it."),
    46: Meaning("the GPU stopped processing", _RETURN, needs_reset=True),
    48: Meaning("an uncorrected memory error", _RETURN, needs_reset=True),
    62: Meaning("an internal microcontroller halted", _RETURN, needs_reset=True),
    63: Meaning("memory with errors is to be replaced", _RESET),
    64: Meaning("memory with errors could not be replaced", _RETURN, needs_reset=True),
    74: Meaning("an error of an NVLink", "Follow the NVLink workflow of NVIDIA's Xid catalog."),
    79: Meaning(
        "the GPU fell off the bus",
        "Restart the machine; check the GPU's power, cooling and seating.",
        needs_reset=True,
    ),
    94: Meaning("a memory error that ended one program", "Start that program again."),
    95: Meaning("a memory error that may have hit every program", _RETURN, needs_reset=True),
    119: Meaning("the GPU's system processor did not answer", _RETURN, needs_reset=True),
    120: Meaning("an error of the GPU's system processor", _RETURN, needs_reset=True),
}


def worst_of(xids: Sequence[Xid]) -> tuple[Xid, Meaning] | None:
    """Returns the latest error that needs a reset, or else the latest; None without any."""
    if not xids:
        return None
    known = [(xid, MEANINGS.get(xid.code, _OTHER)) for xid in xids]
    serious = [pair for pair in known if pair[1].needs_reset]
    return (serious or known)[-1]


_ACTIONS: dict[RecoveryAction, str] = {
    "reset_gpu": "reset the GPU",
    "restart_machine": "restart the machine",
    "end_peer_traffic": "end peer-to-peer traffic",
    "end_processes_and_reset_gpu": "end its processes and reset the GPU",
    "recover_imex": "recover the IMEX domain",
    "reset_bus": "reset the bus",
}
LEAST_FREE_BYTES = 2**30
"""A GPU with less free memory is blocked. Our choice: a CUDA context with cuDNN and cuBLAS takes a
third to a half of this."""


def gpu_problems(gpus: Sequence[DriverGPU], health: Sequence[GPUHealth]) -> tuple[Problem, ...]:
    """Returns the problems of GPUs; problems that block a GPU come first."""
    by_index = {state.index: state for state in health}
    found = [
        problem
        for gpu in gpus
        for problem in _of_gpu(gpu, by_index.get(gpu.index, GPUHealth(gpu.index)))
    ]
    return tuple(sorted(found, key=lambda problem: not problem.blocks))


def _of_gpu(gpu: DriverGPU, health: GPUHealth) -> Iterator[Problem]:
    def problem(code: str, text: str, advice: str, *, blocks: bool = False) -> Problem:
        return Problem(code, text, advice, index, blocks)

    index, action, mode = gpu.index, health.recovery_action, health.compute_mode or ""
    reset = f"End its processes, then `sudo nvidia-smi --gpu-reset -i {index}`"
    if gpu.error is not None:
        yield problem(
            "gpu_lost",
            f"GPU {index} does not answer (NVML says {gpu.error}).",
            "Restart the machine. If it happens again, check its power and seating, and look for "
            "its errors with `sudo dmesg | grep -i xid`.",
            blocks=True,
        )
    if action is not None and action != "none":
        yield problem(
            "recovery_needed",
            f"After an error of GPU {index} the driver asks to {_ACTIONS[action]}.",
            f"{reset}; if that fails, restart the machine."
            if action in ("reset_gpu", "end_processes_and_reset_gpu")
            else "The administrator of the machine has to: training there would fail.",
            blocks=True,
        )
    if mode == "prohibited":
        yield problem(
            "compute_prohibited",
            f"GPU {index} is in compute mode PROHIBITED: no program may compute there.",
            f"`sudo nvidia-smi -i {index} -c DEFAULT`.",
            blocks=True,
        )
    if "exclusive" in mode and health.processes:
        yield problem(
            "exclusive_process",
            f"GPU {index} is in an exclusive compute mode, and {_names(health)} has it.",
            f"End that process, use another GPU, or `sudo nvidia-smi -i {index} -c DEFAULT`.",
            blocks=True,
        )
    if gpu.mig == ():
        yield problem(
            "mig_without_instance",
            f"GPU {index} is in MIG mode without an instance, so CUDA does not list it.",
            f"Create instances, such as `sudo nvidia-smi mig -i {index} -cgi 0 -C`, or leave MIG "
            f"mode: `sudo nvidia-smi -i {index} -mig 0`.",
            blocks=True,
        )
    # In MIG mode, each instance of a GPU has its own memory.
    if health.memory_used_bytes is not None and gpu.memory_bytes and gpu.mig is None:
        used = health.memory_used_bytes
        free = gpu.memory_bytes - used
        if used >= SIZEABLE_FRACTION * gpu.memory_bytes or free < LEAST_FREE_BYTES:
            by = ", and the driver shows no process that does, as in most containers"
            fix = "Look with `nvidia-smi` outside of the container"
            if health.processes:
                by, fix = f"; {_names(health)}", "End those that are left over"
            sizes = f"{used / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB"
            yield problem(
                "memory_held",
                f"{sizes} of GPU {index}'s memory are in use{by}.",
                f"{fix}, or use another GPU: CUDA_VISIBLE_DEVICES, or configure_gpus(devices=...).",
                blocks=free < LEAST_FREE_BYTES,
            )
    if health.remapping_failed:
        yield problem(
            "remapping_failed",
            f"Memory of GPU {index} has errors that could not be replaced.",
            "NVIDIA's criterion for returning the GPU; until then use another.",
        )
    if health.remapping_pending:
        yield problem(
            "remapping_pending",
            f"Memory of GPU {index} had errors, and is replaced at the next reset.",
            f"{reset}, or restart the machine. Until then training works.",
        )
    if health.ecc_uncorrected:
        yield problem(
            "ecc_errors",
            f"GPU {index} had {health.ecc_uncorrected} uncorrected memory errors since the "
            "driver was loaded; each ends the program that it hits.",
            f"{reset}. If they come back, test it with `dcgmi diag -r 3` and return it.",
        )
    if (found := worst_of(health.xids or ())) is not None:
        xid, meaning = found
        yield problem(
            "xid",
            f"GPU {index} had Xid {xid.code} ({meaning.text}), {len(health.xids or ())} Xid errors "
            f"in all since the machine started: {xid.text}",
            meaning.advice,
        )


NEWER = (
    'Compile models with jit_compile=False: XLA may end the process ("PTX version … does not '
    "support target '{target}'\"). Or use a TensorFlow built for this GPU, as in NVIDIA's "
    "container nvcr.io/nvidia/tensorflow."
)


def newer_gpus(gpus: Sequence[DriverGPU | GPUInfo], build: Build) -> tuple[Problem, ...]:
    """Returns a problem for each GPU that is newer than the kernels in TensorFlow's build.

    A binary runs on GPUs of its major compute capability, from its minor one on; PTX on all later
    ones, once the driver has compiled it:
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#application-compatibility.
    """
    codes = [_code(name) for name in build.compute_capabilities]
    newest = max((number for _, number in codes), default=None)
    majors = {number[0] for kind, number in codes if kind == "sm"}
    has_ptx = any(kind == "compute" for kind, _ in codes)
    how = (
        "The driver compiles them for it from PTX when it first needs them, which TensorFlow says "
        "may take 30 minutes or longer"
        if has_ptx
        else "None of them runs on it"
    )
    found = []
    for gpu in gpus:
        here = gpu.compute_capability
        if here is None or newest is None or here <= newest or here[0] in majors:
            continue
        name = "" if gpu.name is None else f" ({gpu.name})"
        text = (
            f"GPU {gpu.index}{name} has compute capability {here[0]}.{here[1]}, and this "
            f"TensorFlow has kernels up to {newest[0]}.{newest[1]}. {how}."
        )
        advice = NEWER.format(target=f"sm_{here[0]}{here[1]}")
        found.append(Problem("newer_gpu", text, advice, gpu.index, blocks=not has_ptx))
    return tuple(found)


def _code(name: str) -> tuple[str, tuple[int, int]]:
    """Reads "sm_89" as ("sm", (8, 9)); "compute_90" is PTX for 9.0 and later."""
    kind, _, number = name.partition("_")
    return kind, divmod(int(number), 10)


def _names(health: GPUHealth) -> str:
    return ", ".join(
        f"{process.name or 'a process'} (pid {process.pid}, {process.used_bytes / 2**30:.1f} GiB)"
        for process in (health.processes or ())[:4]
    )


INSTALL = 'pip install "tensorflow[and-cuda]"'


def library_problems(
    libraries: Sequence[CUDALibrary], packages: Sequence[CUDAPackage]
) -> tuple[Problem, ...]:
    """Returns the problems of the libraries that were found; missing ones are left to `no_gpu`."""
    broken = (
        Problem(
            "library_not_loadable",
            f"{library.name} is at {library.path} and cannot be loaded: {library.error}.",
            _replace(library),
            blocks=True,
        )
        for library in libraries
        if library.path is not None and library.error is not None
    )
    clashing = (
        Problem(
            "package_clash",
            f"{wheel.name} {wheel.installed} is installed; TensorFlow asks for {wheel.needs}.",
            f'pip install "{wheel.name}{wheel.needs}", in an environment without the package that '
            "asked for the other version (`pip check` names it).",
        )
        for wheel in packages
        if wheel.fits is False
    )
    return (*broken, *_old_cudnn(libraries, packages), *clashing)


def _old_cudnn(
    libraries: Sequence[CUDALibrary], packages: Sequence[CUDAPackage]
) -> Iterator[Problem]:
    """Yields a problem if the cuDNN that the loader finds is too old for TensorFlow.

    TensorFlow needs the major version that it was built for, and at least that minor version:
    `IsSourceCompatibleWithCudnnLibrary` in XLA's stream_executor/cuda/cuda_dnn.cc.
    """
    library = next((lib for lib in libraries if lib.name.startswith("libcudnn.")), None)
    package = next((wheel for wheel in packages if wheel.name.startswith("nvidia-cudnn-")), None)
    if library is None or package is None or library.version is None or package.lowest is None:
        return
    if _parts(library.version)[:2] < _parts(package.lowest)[:2]:
        yield Problem(
            "old_cudnn",
            f"The loader finds cuDNN {library.version} ({library.path}); this TensorFlow was "
            f"built for {package.lowest} or newer, and its convolutions fail with an older minor "
            "version.",
            f'pip install "{package.name}{package.needs}".'
            if library.source == "pip"
            else _replace(library),
            blocks=True,
        )


def _replace(library: CUDALibrary) -> str:
    if library.source == "LD_LIBRARY_PATH":
        return (
            "LD_LIBRARY_PATH leads to it, before TensorFlow's own packages: take that folder out "
            f"of the variable, and {INSTALL}."
        )
    if library.source == "pip":
        return f"Install it again: {INSTALL} --force-reinstall."
    return f"The system's own library is used because the pip package is missing: {INSTALL}."


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
