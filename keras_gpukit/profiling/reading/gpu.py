"""Activity of the GPUs: kernels, collectives and copies; and the kinds of computation.

TensorFlow operations have types. Kernels only have the names they were compiled with. Both are
matched against parts of names that CUDA's libraries, XLA and TensorFlow are known to use. A name
that matches none of them is of the kind "other".

TensorFlow's kernel generator makes elementwise operations only; it calls them "Mul_GPU_DT_FLOAT_…",
or just "main_kernel". A kernel of Eigen is named after the whole expression that it computes; its
kind is that of the outermost operation ("TensorConversionOp" is a cast).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from operator import attrgetter, or_

import numpy as np

from keras_gpukit.profiling.reading.events import NOTHING, Mask, Plane, Space, Spans
from keras_gpukit.records.profile import DeviceProfile, Kind

PLANE = "/device:GPU:"
# Prefix of the lines of a GPU's streams. Its other lines are derived from them.
_STREAM = "Stream"
_SIZE = re.compile(r"size:(\d+)")
# The first match counts, so more specific patterns come first. "~" stands for the edge of a word;
# underscores and digits are not part of words.
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("collective", "nccl|rccl|collective|all_?-?(reduce|gather|to_?-?all)|reduce_?-?scatter"),
    ("cast", "^cast_gpu_dt_|tensorconversionop|~cast~|wrapped_convert"),
    ("elementwise", "_gpu_dt_|^main_kernel$"),
    ("attention", "attention|flash_?(fwd|bwd)|fmha|mha_|sdpa"),
    ("normalization", "(batch|layer|group|instance|rms)_?norm|~bn_|~lrn~|softmax|normalizedprob"),
    ("optimizer", "apply_?(adam|sgd|momentum|gradient|rms)|assign(add|sub)?variable"),
    ("convolution", r"conv(?!er)|wgrad|dgrad|fprop|winograd|implicit_gemm|im2col|\d{3}cudnn"),
    ("matmul", "matmul|gemm|gemv|~dot~|cutlass|einsum|splitk|xmma|wgmma|nvjet"),
    ("reduction", "reduc(?!ed_divisor)|~(sum|mean|max|min|prod|argmax|argmin|l2loss|topkv?)~"),
    ("bias gradient", "bias(add)?grad"),
    ("reduction", "(max|avg)_?pool|cumsum|sort|tensorscan"),
    ("elementwise", "biasn[ch]"),
    ("data movement", "transpose|concat|pad|slice|gather|scatter|tile|copy|reshape|stitch|shuffle"),
    ("data movement", "swapdimension|tensor(broadcasting|shuffling|(striding)?slicing|chipping)"),
    ("data movement", "permute|reverse|split|pack|broadcastto|onehot|nchw|nhwc|squeeze"),
    (
        "elementwise",
        "elementwise|elemwise|cwise|fusion|unary|binary|vectorized|random|dropout|fill",
    ),
    ("elementwise", "tensor[a-z]+op$"),
    ("elementwise", "relu|sigmoid|tanh|gelu|silu|swish|squareddifference|multiply|subtract|divide"),
    ("elementwise", "~(add|addv|addn|sub|mul|div|realdiv|divnonan|neg|square|sqrt|rsqrt|exp|log)~"),
    ("elementwise", "~(pow|select|selectv|maximum|minimum|biasadd|greater|less|equal|sign)~"),
)
_COMPILED = tuple(
    (kind, re.compile(re.sub("~([a-z(])", r"(?<![a-z])\1", pattern).replace("~", "(?![a-z])")))
    for kind, pattern in _PATTERNS
)
_COPY = re.compile(r"mem(cpy|set)", re.I)
_HOST_TO_DEVICE = re.compile(r"memcpy_?h(to|2)d", re.I)
# Names of kernels that use Tensor Cores contain: matrix instructions and their tiles ("s884gemm",
# "tensor16x8x16"), from Volta on; the names of cuBLAS' kernels for Hopper and later
# ("nvjet_hsh_…"), which all use warp group instructions; and certain data types of "xmma" kernels,
# others of which use CUDA cores ("xmma_gemm_f32f32_f32f32_f32"); on Hopper, "tf32f32" is the
# type in which float32 is multiplied ("sm90_xmma_gemm_f32f32_tf32f32_f32").
_TENSOR_CORE = re.compile(
    r"(?<![a-z0-9])[a-z](884|1688|16816|16832|16864)(?!\d)|[hidw]mma|wgmma|mma_sync|tensor_?op|nvjet"
    r"|tensor\d+x\d+|xmma.*_(f16f16|bf16bf16|tf32tf32|tf32f32|f16bf16|i8i8|e[45]m[23]e[45]m[23])_",
    re.I,
)
# XLA's Triton generates a kernel for each matrix product, with or without Tensor Cores. Its name
# does not say which.
_GENERATED_PRODUCT = re.compile(r"triton.*(gemm|dot)|gemm_fusion|(^|_)dot_fusion", re.I)
_EIGEN = re.compile(r"eigenmetakernel.*?assignop.*?(tensor(?!reshaping|forcedeval)[a-z]+op)")
_MKL = re.compile(r"^_mkl(native|onednn)?(fused)?|^_fused", re.I)


@lru_cache(maxsize=4096)
def kind_of(name: str) -> Kind:
    """Returns the kind of an operation, given its type, or of a kernel, given its name."""
    plain = _MKL.sub("", name.rsplit("/", 1)[-1]).lower()
    if expression := _EIGEN.search(plain):
        plain = expression[1]
    for kind, pattern in _COMPILED:
        if pattern.search(plain):
            return kind
    return "other"


def is_copy(kernel: str) -> bool:
    """Returns whether an event on a GPU's stream copies or fills memory."""
    return bool(_COPY.match(kernel))


def is_host_to_device(kernel: str) -> bool:
    """Returns whether an event on a GPU's stream copies from the host to the GPU."""
    return bool(_HOST_TO_DEVICE.search(kernel))


def uses_tensor_cores(kernel: str) -> bool | None:
    """Returns whether a kernel uses Tensor Cores, by its name; None if the name does not say."""
    if _GENERATED_PRODUCT.search(kernel):
        return None
    return bool(_TENSOR_CORE.search(kernel))


@dataclass(frozen=True)
class _Activity:
    """Time in which each class of events ran.

    Collectives are kernels that exchange data between GPUs. Other kernels are computing.
    """

    compute: Spans
    collectives: Spans
    from_host: Spans
    other_copies: Spans


@dataclass(frozen=True)
class GPU(_Activity):
    """Classified events of one GPU's streams."""

    plane: Plane
    kernels: Mask
    computing: Mask


@dataclass(frozen=True)
class GPUs(_Activity):
    """All GPUs, and the time in which any of them was active."""

    members: tuple[GPU, ...]

    @property
    def computing(self) -> Spans:
        """Time in which anything other than copies from the host ran."""
        return self.compute | self.collectives | self.other_copies


def gpus_of(space: Space) -> GPUs:
    """Classifies the activity of the GPUs; without a GPU, everything is empty."""
    gpus = tuple(_sort_out(plane) for plane in space.named(PLANE))
    of_any = {
        each.name: reduce(or_, map(attrgetter(each.name), gpus), NOTHING)
        for each in fields(_Activity)
    }
    return GPUs(members=gpus, **of_any)


def profile_of(gpu: GPU, counted: Spans) -> DeviceProfile:
    """Summarizes one GPU over the time of the steps."""
    events = gpu.plane.events
    kernels = gpu.kernels & counted.holds(events.begin_ps)
    in_tensor_cores = kernels & events.of(lambda name: bool(uses_tensor_cores(name)))
    kernels_ps = events.duration_ps[kernels].astype(float).sum()
    busy = gpu.compute | gpu.collectives | gpu.from_host | gpu.other_copies
    total_ps = counted.total_ps
    capability = [gpu.plane.stats.get(f"compute_cap_{part}") for part in ("major", "minor")]
    return DeviceProfile(
        device=gpu.plane.name.removeprefix("/device:"),
        busy_fraction=(busy & counted).total_ps / total_ps,
        kernels=int(np.count_nonzero(kernels)),
        host_to_device_bytes=_copied_bytes(gpu, counted),
        tensor_core_fraction=(
            float(events.duration_ps[in_tensor_cores].astype(float).sum() / kernels_ps)
            if kernels_ps
            else None
        ),
        compute_capability=(
            ".".join(map(str, capability)) if all(isinstance(n, int) for n in capability) else None
        ),
    )


def _sort_out(plane: Plane) -> GPU:
    events = plane.events
    on_stream = events.on(lambda name: name.startswith(_STREAM))
    copies, collectives = events.of(is_copy), events.of(lambda name: kind_of(name) == "collective")
    from_host = events.of(is_host_to_device)
    kernels = on_stream & ~copies
    return GPU(
        plane=plane,
        kernels=kernels,
        computing=kernels & ~collectives,
        compute=Spans.of(events, kernels & ~collectives),
        collectives=Spans.of(events, kernels & collectives),
        from_host=Spans.of(events, on_stream & from_host),
        other_copies=Spans.of(events, on_stream & copies & ~from_host),
    )


def _copied_bytes(gpu: GPU, counted: Spans) -> int | None:
    events = gpu.plane.events
    copies = events.of(is_host_to_device) & counted.holds(events.begin_ps)
    sizes = [
        _SIZE.search(str(events.stats[index].get("memcpy_details", "")))
        for index in np.flatnonzero(copies)
    ]
    known = [int(size[1]) for size in sizes if size]
    return sum(known) if known and len(known) == len(sizes) else None
