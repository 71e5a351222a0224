"""Infers from facts alone what blocks each GPU of a machine, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keras_gpukit.records.gpu_health import GPUHealth, Problem
from keras_gpukit.records.installation import DriverGPU
from keras_gpukit.rules.setup.other_processes import SIZEABLE_FRACTION
from keras_gpukit.rules.setup.xids import worst_of

# A GPU with less free memory is blocked. Our choice: a CUDA context with cuDNN and cuBLAS takes a
# third to a half of this.
LEAST_FREE_BYTES = 2**30


def gpu_problems(gpus: Sequence[DriverGPU], health: Sequence[GPUHealth]) -> tuple[Problem, ...]:
    """Returns the problems of GPUs; problems that block a GPU come first."""
    by_index = {each.index: each for each in health}
    found = [
        problem
        for gpu in gpus
        for check in (_state, _held, _memory_errors, _xid)
        for problem in check(gpu, by_index.get(gpu.index, GPUHealth(gpu.index)))
    ]
    return tuple(sorted(found, key=lambda each: not each.blocks))


def _reset(gpu: DriverGPU) -> str:
    return f"End its processes, then `sudo nvidia-smi --gpu-reset -i {gpu.index}`"


def _state(gpu: DriverGPU, health: GPUHealth) -> Iterator[Problem]:
    """Yields problems with a GPU's state: no program can compute on it in such a state."""
    index, action, mode = gpu.index, health.recovery_action, health.compute_mode or ""
    if gpu.error is not None:
        yield Problem(
            "gpu_lost",
            f"GPU {index} does not answer (NVML says {gpu.error}).",
            "Restart the machine. If it happens again, check its power and seating, and look for "
            "its errors with `sudo dmesg | grep -i xid`.",
            index,
            blocks=True,
        )
    if action not in (None, "none"):
        yield Problem(
            "recovery_needed",
            f"After an error of GPU {index} the driver asks to {action}.",
            f"{_reset(gpu)}; if that fails, restart the machine."
            if "reset the GPU" in str(action)
            else "The administrator of the machine has to: training there would fail.",
            index,
            blocks=True,
        )
    if mode == "prohibited":
        yield Problem(
            "compute_prohibited",
            f"GPU {index} is in compute mode PROHIBITED: no program may compute there.",
            f"`sudo nvidia-smi -i {index} -c DEFAULT`.",
            index,
            blocks=True,
        )
    if "exclusive" in mode and health.processes:
        yield Problem(
            "exclusive_process",
            f"GPU {index} is in an exclusive compute mode, and {_names(health)} has it.",
            f"End that process, use another GPU, or `sudo nvidia-smi -i {index} -c DEFAULT`.",
            index,
            blocks=True,
        )
    if gpu.mig == ():
        yield Problem(
            "mig_without_instance",
            f"GPU {index} is in MIG mode without an instance, so CUDA does not list it.",
            f"Create instances, such as `sudo nvidia-smi mig -i {index} -cgi 0 -C`, or leave MIG "
            f"mode: `sudo nvidia-smi -i {index} -mig 0`.",
            index,
            blocks=True,
        )


def _held(gpu: DriverGPU, health: GPUHealth) -> Iterator[Problem]:
    # In MIG mode, each instance of a GPU has its own memory.
    if health.memory_used_bytes is None or not gpu.memory_bytes or gpu.mig is not None:
        return
    used = health.memory_used_bytes
    free = gpu.memory_bytes - used
    if used < SIZEABLE_FRACTION * gpu.memory_bytes and free >= LEAST_FREE_BYTES:
        return
    sizes = f"{used / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB"
    if health.processes:
        by = f"; {_names(health)}"
        fix = "End those that are left over"
    else:
        by = ", and the driver shows no process that does, as in most containers"
        fix = "Look with `nvidia-smi` outside of the container"
    yield Problem(
        "memory_held",
        f"{sizes} of GPU {gpu.index}'s memory are in use{by}.",
        f"{fix}, or use another GPU: CUDA_VISIBLE_DEVICES, or configure_gpus(devices=...).",
        gpu.index,
        blocks=free < LEAST_FREE_BYTES,
    )


def _memory_errors(gpu: DriverGPU, health: GPUHealth) -> Iterator[Problem]:
    if health.remapping_failed:
        yield Problem(
            "remapping_failed",
            f"Memory of GPU {gpu.index} has errors that could not be replaced.",
            "NVIDIA's criterion for returning the GPU; until then use another.",
            gpu.index,
        )
    if health.remapping_pending:
        yield Problem(
            "remapping_pending",
            f"Memory of GPU {gpu.index} had errors, and is replaced at the next reset.",
            f"{_reset(gpu)}, or restart the machine. Until then training works.",
            gpu.index,
        )
    if health.ecc_uncorrected:
        yield Problem(
            "ecc_errors",
            f"GPU {gpu.index} had {health.ecc_uncorrected} uncorrected memory errors since the "
            "driver was loaded; each ends the program that it hits.",
            f"{_reset(gpu)}. If they come back, test it with `dcgmi diag -r 3` and return it.",
            gpu.index,
        )


def _xid(gpu: DriverGPU, health: GPUHealth) -> Iterator[Problem]:
    found = worst_of(health.xids or ())
    if found is None:
        return
    xid, meaning = found
    yield Problem(
        "xid",
        f"GPU {gpu.index} had Xid {xid.code} ({meaning.text}), {len(health.xids or ())} Xid errors "
        f"in all since the machine started: {xid.text}",
        meaning.advice,
        gpu.index,
    )


def _names(health: GPUHealth) -> str:
    return ", ".join(
        f"{each.name or 'a process'} (pid {each.pid}, {each.used_bytes / 2**30:.1f} GiB)"
        for each in (health.processes or ())[:4]
    )
