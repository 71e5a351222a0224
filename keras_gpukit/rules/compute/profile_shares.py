"""Shares of a step that a profile shows: launches, products, and kernels that XLA would fuse."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection
from typing import NamedTuple

from keras_gpukit.records.placement import PYTHON_OPERATIONS
from keras_gpukit.records.profile import Kind, ProfileRecord, StepPart
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.rule import NO_GPU, Outcome, Rule
from keras_gpukit.rules.savings import WARNING_FRACTION

PRODUCT_KINDS: tuple[Kind, ...] = ("matmul", "convolution", "attention")
FUSED_KINDS: tuple[Kind, ...] = (
    "elementwise",
    "cast",
    "normalization",
    "reduction",
    "bias gradient",
    "optimizer",
)
"""Kinds of kernels that XLA makes one of, where TensorFlow runs one for each operation."""
BETWEEN_STEPS: tuple[StepPart, ...] = ("between steps", "idle")
HOST_PARTS: tuple[StepPart, ...] = ("kernel launch", "host compute", *BETWEEN_STEPS)
MANY_FUSED = 2 * WARNING_FRACTION
"""Share of a step from which such kernels count: half of it is a tenth, and XLA saves more."""
# Kernels that XLA made: "loop_add_fusion", "input_reduce_fusion_3", "triton_softmax_0".
_OF_XLA = re.compile(r"fusion|^triton_|^wrapped_")
_TYPES = re.compile(r"matmul|conv[123]d|einsum|cudnnrnn", re.I)


def own_step_s(summary: RunSummary) -> float | None:
    """Returns the seconds of a step without its wait for input; None without a profile.

    Those of a GPU are the run's where known: the profiler slows the host down, not the kernels.
    """
    profile = summary.profile
    if profile is None or not profile.step_time_s:
        return None
    own_s = profile.step_time_s - profile.parts_s.get("input wait", 0.0)
    if profile.devices and summary.step_time_s and summary.input_stall_fraction is not None:
        own_s = summary.step_time_s * (1 - summary.input_stall_fraction)
    return max(own_s, profile.parts_s.get("device compute", 0.0)) or None


class ProfileRule(Rule):
    """A rule on the work of steps in a profile, of which it needs a part: GPUs, or layers."""

    requires = "a profile of a GPU's steps"
    charts = ("captures", "layers")
    part = "devices"

    def judge(self, summary: RunSummary) -> Outcome:
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or not getattr(profile, self.part):
            is_cpu = self.part == "devices" and not summary.environment.gpus
            return self.abstain(NO_GPU if is_cpu else None)
        return self.judge_profile(summary, profile, own_s)

    @abstractmethod
    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        """Judges steps, by their time without a wait for input."""


class LayersRule(ProfileRule):
    """A rule on the time of layers, which a profile also has without a GPU."""

    requires = "a profile of the steps with the time of each layer"
    part = "layers"


def computed_s(profile: ProfileRecord) -> float:
    """Returns the seconds of a step in which the GPUs computed; without one, the host."""
    return profile.parts_s.get("device compute" if profile.devices else "host compute", 0.0)


def idle_fraction(summary: RunSummary, parts: Collection[StepPart] = HOST_PARTS) -> float:
    """Returns the share of a step's own time in which GPUs wait for the host, but not for input."""
    profile, own_s = summary.profile, own_step_s(summary)
    if profile is None or own_s is None or not profile.devices or not profile.step_time_s:
        return 0.0
    idle_s = sum(profile.parts_s.get(part, 0.0) for part in parts)
    added_s = profile.step_time_s - (summary.step_time_s or profile.step_time_s)
    return min(max(idle_s - max(added_s, 0.0), 0.0) / own_s, 1.0)


def is_compiled(summary: RunSummary, profile: ProfileRecord) -> bool:
    """Whether XLA compiled the steps, by the setting or else by the names of what ran."""
    if summary.environment.jit_compile is not None:
        return summary.environment.jit_compile
    largest = [kernel for layer in profile.layers for kernel in layer.largest]
    # Without a GPU: XLA's instructions have a name, TensorFlow's operations a type after it.
    named = profile.kernels or [kernel for kernel in largest if ":" not in kernel.name]
    return any(_OF_XLA.search(kernel.name) for kernel in named)


def fused_fraction(summary: RunSummary) -> float:
    """Returns the share of a step's own time in kernels that XLA would fuse.

    It is 0 if XLA compiled the steps, and if there is no profile of a GPU's steps.
    """
    profile, own_s = summary.profile, own_step_s(summary)
    if profile is None or own_s is None or not profile.devices or is_compiled(summary, profile):
        return 0.0
    return sum(profile.kinds_s.get(kind, 0.0) for kind in FUSED_KINDS) / own_s


class Products(NamedTuple):
    """Shares of the steps' own time, 0 to 1: kernels that Tensor Cores can speed up, and others."""

    products: float
    others: float


def products_of(summary: RunSummary) -> Products | None:
    """Returns what the run's profile shows of products; None without a profile of a GPU's steps."""
    profile, own_s = summary.profile, own_step_s(summary)
    if profile is None or own_s is None or not profile.devices:
        return None
    products_s = sum(profile.kinds_s.get(kind, 0.0) for kind in PRODUCT_KINDS)
    others_s = sum(profile.kinds_s.values()) - products_s
    return Products(products_s / own_s, others_s / own_s)


def has_products(summary: RunSummary) -> bool | None:
    """Returns whether the step has products or convolutions at all; None if unknown."""
    record = summary.operations
    if record is None or not record.operations:
        return None
    return any(_TYPES.search(type_) for types in record.operations.values() for type_ in types)


class Launches(NamedTuple):
    """Launches of a step's kernels, as a profile shows them.

    Attributes:
        fraction: Share of the step time in which the GPUs waited for launches, 0 to 1.
        kernels: Kernels per step on one GPU.
    """

    fraction: float
    kernels: float
    kernel_s: float

    @property
    def limit(self) -> bool:
        """Whether launches take at least a tenth of the steps' time, as for other waits."""
        return self.fraction >= WARNING_FRACTION


def launches_of(summary: RunSummary) -> Launches | None:
    """Returns what the run's profile shows of launches; None without a profile of a GPU's steps.

    The profiler itself slows launches down. So the time by which captured steps took longer than
    the run's steps is taken off.
    """
    profile, step_s = summary.profile, summary.step_time_s
    if profile is None or not profile.devices or not profile.step_time_s or not step_s:
        return None
    waited_s = profile.parts_s.get("kernel launch", 0.0) - max(profile.step_time_s - step_s, 0.0)
    kernels = max(device.kernels for device in profile.devices) / profile.steps
    computed_s = profile.parts_s.get("device compute", 0.0)
    return Launches(max(waited_s, 0.0) / step_s, kernels, computed_s / kernels if kernels else 0.0)


def eager_s(summary: RunSummary) -> tuple[float, float] | None:
    """Returns the seconds, at least and at most, that eager steps lose; None without a profile.

    At least: the time in which a profile shows neither an operation nor a wait, which is Python,
    without the time that the profiler adds. At most: all but the time in which a GPU computed.
    """
    profile, parts, step_s = summary.profile, summary.breakdown, summary.step_time_s
    if profile is None or not profile.step_time_s or parts is None or not step_s:
        return None
    steps = summary.steps or 0
    python_s = profile.parts_s.get("idle", 0.0) - max(profile.step_time_s - step_s, 0.0)
    computed_s = profile.parts_s.get("device compute", 0.0)
    if not profile.devices:
        computed_s = sum(profile.kinds_s.get(kind, 0.0) for kind in PRODUCT_KINDS)
    most_s = max((parts.compute_s or 0.0) - steps * computed_s, 0.0)
    return min(max(steps * python_s, 0.0), most_s), most_s


def calls_python(summary: RunSummary) -> bool:
    """Whether operations of the step call Python functions, which take the host's time too."""
    record, profile = summary.operations, summary.profile
    types = set[str]().union(*record.operations.values()) if record else set[str]()
    return not PYTHON_OPERATIONS.isdisjoint(types) or bool(profile and profile.python_s)
