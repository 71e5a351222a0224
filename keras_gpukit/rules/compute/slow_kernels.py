"""Kernels of a GPU that take more time than they must: by dtype, alignment, layout, or unfused."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from typing import ClassVar

from keras_gpukit.records.profile import KernelProfile, LayerProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import (
    FUSED_KINDS,
    MANY_FUSED,
    PRODUCT_KINDS,
    ProfileRule,
    fused_fraction,
    idle_fraction,
    launches_of,
)
from keras_gpukit.rules.rule import Measure, Outcome, Share
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, severity

LAYERS_NAMED = 3
_DTYPES = {
    "float64": re.compile(r"double|(?<![a-z0-9])f64|dgemm|(?<![a-z0-9])d\d+gemm", re.I),
    "bfloat16": re.compile(r"bfloat16|bf16", re.I),
    "float16": re.compile(r"half|(?<![a-z0-9b])f16", re.I),
    "float32": re.compile(r"float|f32|sgemm|main_kernel", re.I),
}


def dtype_of(kernel: str) -> str:
    """Returns the dtype in a kernel's name, the rarer one of two; "" if it names none."""
    return next((name for name, pattern in _DTYPES.items() if pattern.search(kernel)), "")


_NUMBER = re.compile(r"(_\d+)+$")
_SHORT = {"bn": "batch normalization", "ln": "layer normalization"}


def plain_name(path: str) -> str:
    """Returns what kind of layer a path is of: "batch normalization" for "functional/bn_3"."""
    name = _NUMBER.sub("", path.rsplit("/", 1)[-1])
    return _SHORT.get(name.rsplit("_", 1)[-1], name.replace("_", " "))


_ROLES = {
    "optimizer": "the optimizer's update of the weights",
    "loss": "the loss",
    "metrics": "the metrics",
    "line": "",
    "other": "",
}


def group_of(layer: LayerProfile) -> str:
    """Returns the kind of a layer, or the part of the step it stands for; "" if unknown."""
    return plain_name(layer.path) if layer.role == "layer" else _ROLES[layer.role]


class SlowKernels(ProfileRule):
    """Kernels of one kind that take at least a tenth of the steps' own time.

    Attributes:
        saved: Least and greatest share of these kernels' time that the change saves.
        advice: Changes of {layers}, by their names.
    """

    supersedes = ("dominant-layer",)
    saved: ClassVar[tuple[float, float]]
    advice: ClassVar[tuple[str, ...]]
    of_a_step_in_these_kernels = Share("These kernels take {value} of a step")
    of_them_per_step = Measure(", {value} of them per step")
    of_the_GPU_time_in = Share("{value} of the GPU time are in {of}")

    @abstractmethod
    def _is_slow(self, kernel: KernelProfile) -> bool:
        """Whether a kernel is of this kind."""

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        slow = [kernel for kernel in profile.kernels if self._is_slow(kernel)]
        of_gpu = sum(kernel.share for kernel in slow)
        share = of_gpu * profile.parts_s.get("device compute", 0.0) / own_s
        if share < WARNING_FRACTION:
            return None
        names = self._layers(profile)
        named = ", ".join(names) or "the model"
        low, high = self.saved
        saving = of_compute(
            summary, min(high * share, 1.0), low=low * share, basis="time of these kernels"
        )
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_these_kernels(share),
            self.of_them_per_step(sum(kernel.count for kernel in slow) / profile.steps),
            self.of_the_GPU_time_in(slow[0].share, slow[0].name),
            advice=[line.format(layers=named) for line in self.advice],
            saving=saving,
            title=f"{self.title}: {100 * of_gpu:.0f} % of the GPU time"
            + (f", most in {names[0]}" if names else ""),
        )

    def _layers(self, profile: ProfileRecord) -> list[str]:
        """Returns the names of the layers that such kernels take the most time of."""
        times_s: Counter[str] = Counter()
        for layer in profile.layers:
            if layer.role == "layer":
                slow_s = sum(kernel.time_s for kernel in layer.largest if self._is_slow(kernel))
                times_s[layer.path.rsplit("/", 1)[-1]] += slow_s  # type: ignore[assignment]
        return [name for name, time_s in times_s.most_common(LAYERS_NAMED) if time_s]


class Float64Kernels(SlowKernels):
    """Kernels that compute in float64."""

    code = "float64-kernels"
    title = "The GPU computes in float64"
    saved = 0.5, 1.0
    advice = (
        "Compute {layers} in the model's dtype: leave out `dtype='float64'`",
        "Cast float64 data in the input: `ds.map(lambda x, y: (tf.cast(x, tf.float32), y))`. "
        "NumPy makes float64 by default",
    )

    def _is_slow(self, kernel: KernelProfile) -> bool:
        return dtype_of(kernel.name) == "float64"


class MisalignedProducts(SlowKernels):
    """Matrix products whose sizes keep them from the fast kernels of Tensor Cores.

    The names of others say how many elements they load together.
    """

    code = "misaligned-products"
    title = "Products of odd widths miss the fast Tensor Core kernels"
    saved = 0.5, 1.3  # other kernels get slower, too
    advice = (
        "Make the widths of {layers} and of their inputs multiples of 8, better of 64: "
        "`Dense(2048)` in place of `Dense(2047)`",
        "Round the number of classes or words up as well; what is added is never used",
    )

    def _is_slow(self, kernel: KernelProfile) -> bool:
        return kernel.kind == "matmul" and bool(re.search(r"align[12](?!\d)", kernel.name))


class LayoutChanges(SlowKernels):
    """Kernels that move the axis of channels, as for `data_format="channels_first"`."""

    code = "layout-changes"
    title = "Images are transposed between layouts"
    saved = 0.5, 1.0
    advice = (
        "One layout for {layers}: `keras.config.set_image_data_format('channels_last')`, "
        "and no `data_format=` of their own",
        "Transpose images in the input: `ds.map(lambda x, y: (tf.transpose(x, (1, 2, 0)), y))`",
    )

    def _is_slow(self, kernel: KernelProfile) -> bool:
        names = f"{kernel.name} {kernel.operation}".lower()
        return "nchwtonhwc" in names or "nhwctonchw" in names


LEAST_SAVED, IDLE_SAVED = 0.5, 0.5
"""With four models of `benchmarks/results/gpu/compute.all.json`, XLA saved an H100 77 to 91 % of
these kernels' time, and up to half of the time in which it idled. The least is our choice."""
NAMED = 0.2
"""Least share of the GPU's time from which a kind of layer, or one kernel, gives the finding its
name; our choice. A transformer's bias gradient took 24 % on an H100."""


class UnfusedOperations(ProfileRule):
    """Elementwise operations and reductions that each read and write GPU memory."""

    code = "unfused-operations"
    title = "Simple kernels that XLA would fuse take much of the GPU time"
    tried_by = ("jit",)
    supersedes = ("dominant-layer",)
    of_a_step_in_kernels_that_XLA_fuses = Share("{value} of a step are kernels that XLA would fuse")
    share_of_the_GPU_time_in = Share("Those of {of} take {value} of the GPU time")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        launches, share = launches_of(summary), fused_fraction(summary)
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        if share < MANY_FUSED:
            return None
        if launches is not None and launches.fraction > share:
            return None  # as `launch-bound` says
        saving = of_compute(
            summary,
            min(share + IDLE_SAVED * idle_fraction(summary), 1.0),
            low=LEAST_SAVED * share,
            basis="kernels that XLA fuses",
        )
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_kernels_that_XLA_fuses(share),
            *(
                self.share_of_the_GPU_time_in(part, name)
                for name, part in _groups(profile).most_common(3)
                if part >= NAMED / 2
            ),
            advice=(
                "`compile(jit_compile=True)`: XLA makes one kernel of many, which reads and writes "
                "each value once",
            ),
            saving=saving,
            title=_title(profile),
        )


def _title(profile: ProfileRecord) -> str:
    computed_s = sum(profile.kinds_s.values()) or 1.0
    biases = profile.kinds_s.get("bias gradient", 0.0) / computed_s
    groups = _groups(profile)
    if biases >= NAMED:
        kernel = next(record.name for record in profile.kernels if record.kind == "bias gradient")
        share, name = biases, f"the bias gradient in {dtype_of(kernel)}"
    elif groups and max(groups.values()) >= NAMED:
        [(name, share)] = groups.most_common(1)
        name += f" in {_dtype(profile)} kernels"
    else:
        share = sum(profile.kinds_s.get(kind, 0.0) for kind in FUSED_KINDS) / computed_s
        name = "simple kernels"
    return f"{100 * share:.0f} % of the GPU time is {name}, which XLA would fuse"


def _groups(profile: ProfileRecord) -> Counter[str]:
    """Returns the share of the GPU time by kind of layer, without products and what they need."""
    computed_s = sum(profile.kinds_s.values()) or 1.0
    groups: Counter[str] = Counter()
    for layer in profile.layers:
        name, time_s = group_of(layer), layer.time_s
        if not layer.kinds_s.keys().isdisjoint(PRODUCT_KINDS):
            time_s = sum(layer.kinds_s.get(kind, 0.0) for kind in FUSED_KINDS)
        if name:
            groups[name] += time_s / computed_s  # type: ignore[assignment]
    return groups


def _dtype(profile: ProfileRecord) -> str:
    times: Counter[str] = Counter()
    for kernel in profile.kernels:
        if kernel.kind in FUSED_KINDS:
            times[dtype_of(kernel.name)] += kernel.share  # type: ignore[assignment]
    return next((name for name, _ in times.most_common(1)), "")
