"""Which mixed precision a GPU is fast at."""

from __future__ import annotations

from keras_gpukit.records.environment import GPUInfo

# Tensor Cores multiply float16 from compute capability 7.0 on, and bfloat16 and TF32 from 8.0 on:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (Compute Capabilities), and for Keras
# https://www.tensorflow.org/guide/mixed_precision (Supported hardware).
FLOAT16_FROM = (7, 0)
BFLOAT16_FROM = (8, 0)
TF32_FROM = (8, 0)


def choose_policy(gpus: tuple[GPUInfo, ...]) -> tuple[str, str]:
    """Returns the dtype policy that suits all of the GPUs, and why."""
    if not gpus:
        return "float32", "no GPU is used, and CPUs gain little from mixed precision"
    oldest = lowest_capability(gpus)
    if oldest is None:
        return "float32", "a GPU's compute capability is unknown"
    text = f"compute capability {oldest[0]}.{oldest[1]}"
    if oldest >= BFLOAT16_FROM:
        return "mixed_bfloat16", f"{text} has bfloat16 Tensor Cores (8.0 and newer)"
    if oldest >= FLOAT16_FROM:
        return "mixed_float16", f"{text} has float16 Tensor Cores (7.0 and newer) but no bfloat16"
    return "float32", f"{text} has no Tensor Cores (they came with 7.0)"


def lowest_capability(gpus: tuple[GPUInfo, ...]) -> tuple[int, int] | None:
    """Returns the least compute capability among the GPUs; None where one is unknown."""
    known = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    return min(known) if known and len(known) == len(gpus) else None


def misfit(policy: str, gpus: tuple[GPUInfo, ...]) -> str | None:
    """Returns what is wrong with a dtype policy on these GPUs; None for nothing."""
    needed = {"mixed_float16": FLOAT16_FROM, "mixed_bfloat16": BFLOAT16_FROM}.get(policy)
    if needed is None:
        return None
    if not gpus:
        return f"{policy} is meant for GPUs; on the CPU it is often slower than float32"
    oldest = lowest_capability(gpus)
    if oldest is None or oldest >= needed:
        return None
    return (
        f"{policy} is fast from compute capability {needed[0]}.{needed[1]} on; "
        f"a GPU here has {oldest[0]}.{oldest[1]}"
    )
