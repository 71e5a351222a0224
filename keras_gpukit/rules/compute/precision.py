"""Which numeric precision a GPU is fast at, and whether the model computes in it."""

from __future__ import annotations

from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.finding import Severity
from keras_gpukit.records.machine import mean_busy_percent
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launch_bound import LOW_PERCENT
from keras_gpukit.rules.compute.profile_shares import has_products, products_of
from keras_gpukit.rules.rule import NO_GPU, Measure, Outcome, Rule, Share, gpu_readings
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute

# Tensor Cores multiply float16 from compute capability 7.0 on, and bfloat16 and TF32 from 8.0 on:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/ (Compute Capabilities), and for Keras
# https://www.tensorflow.org/guide/mixed_precision (Supported hardware).
FLOAT16_FROM = (7, 0)
BFLOAT16_FROM = (8, 0)
TF32_FROM = (8, 0)

# Peak rates of dense products from NVIDIA's data sheets: V100 float16 125, float32 15.7 TFLOPS;
# A100 bfloat16 312, TensorFloat-32 156, float32 19.5 TFLOPS.
FLOAT16_GAIN = 8.0
BFLOAT16_GAIN = 16.0
BFLOAT16_OVER_TF32_GAIN = 2.0
HALF_THE_BYTES = 0.5
DENSE_ON_CPU = 2.0
"""Time of dense products in float16 on a CPU over that in float32, measured."""
CONVOLUTIONS_ON_CPU = 20.0
"""Most that a step took in float16 over float32, of a model of convolutions. It was 17 times as
long on two cores; our choice."""

MIXED = "`configure_gpus(mixed_precision='auto')` first: it takes {policy}"


class Float32OnTensorCores(Rule):
    """A float32 model on GPUs with tensor cores."""

    code = "float32-on-tensor-cores"
    title = "float32 on GPUs that are faster at 16 bits"
    requires = (
        "a GPU's compute capability, the precision, and a profile or the operations of a step"
    )
    charts = ("captures", "layers")
    tried_by = ("mixed-precision",)
    peak_rate_over_that_of_now = Measure("Its peak rate at 16 bits is {value} that of now", "×")
    compute_capability = Measure("The GPU's compute capability is {value}")
    of_a_step_in_products = Share("{value} of a step are products and convolutions")
    tensor_cores_of = Measure("Tensor cores of {of} are busy {value} of the time", "%")

    def judge(self, summary: RunSummary) -> Outcome:
        environment = summary.environment
        if not environment.gpus:
            return self.abstain(NO_GPU)
        weakest = lowest_capability(environment.gpus)
        if environment.precision is None or weakest is None:
            return self.abstain()
        if environment.precision != "float32" or weakest < FLOAT16_FROM:
            return None
        products, busy = products_of(summary), mean_busy_percent(gpu_readings(summary))
        matter = has_products(summary)
        if products is not None:
            matter = products.products >= WARNING_FRACTION
        elif busy is not None and busy < LOW_PERCENT:
            return self.abstain("the GPUs are mostly idle, in whatever they compute")
        if not matter:
            return self.abstain() if matter is None else None
        level: Severity = "warning"
        advice: tuple[str, ...] = (MIXED.format(policy="mixed_bfloat16"),)
        gain: float | None = BFLOAT16_GAIN
        if weakest < BFLOAT16_FROM:
            advice, gain = (MIXED.format(policy="mixed_float16"),), FLOAT16_GAIN
        elif environment.tf32 is False:
            advice += ("Or `configure_gpus(tf32=True)`: float32 with tensor cores",)
        else:
            level, gain = "info", BFLOAT16_OVER_TF32_GAIN if environment.tf32 else None
        figures, saving = [self.compute_capability(weakest[0] + weakest[1] / 10)], None
        if products is not None:
            figures.append(self.of_a_step_in_products(products.products))
        figures += (
            self.tensor_cores_of(gpu.tensor_active_percent, f"GPU:{gpu.index}")
            for gpu in gpu_readings(summary)
            if gpu.tensor_active_percent is not None
        )
        if gain is not None:
            saved = 1 - 1 / gain
            if products is not None:
                saved = saved * products.products + HALF_THE_BYTES * products.others
            figures.append(self.peak_rate_over_that_of_now(gain))
            saving = of_compute(summary, saved, basis="peak rates of the chip")
        title = "float32 on GPUs that may be faster at 16 bits" if products is None else None
        return self.find(level, *figures, advice=advice, saving=saving, title=title)


class HalfPrecisionOnCPU(Rule):
    """A policy of float16 on a CPU, which has no instructions to compute in it.

    TensorFlow converts to float32 and back.
    """

    code = "float16-on-cpu"
    title = "float16 on a CPU, which computes it more slowly than float32"
    requires = "the precision"
    charts = ("captures", "layers")
    supersedes = ("no-gpu",)
    dense_products_slower_by = Measure("Dense products take {value} the time of float32", "×")

    def judge(self, summary: RunSummary) -> Outcome:
        environment = summary.environment
        if environment.gpus:
            return None
        policy = environment.precision
        if policy is None:
            return self.abstain()
        if policy not in ("mixed_float16", "float16"):
            return None
        why = (
            "this TensorFlow was built without CUDA"
            if environment.cuda_build is False
            else "`keras-gpukit doctor` says why"
        )
        return self.find(
            "warning",
            self.dense_products_slower_by(DENSE_ON_CPU),
            advice=(
                "`keras.config.set_dtype_policy('float32')`, to train on this CPU",
                f"To train on a GPU: TensorFlow has none here ({why})",
            ),
            saving=of_compute(summary, 1 - 1 / CONVOLUTIONS_ON_CPU, basis="float16 on a CPU"),
            title=f"{policy} without a GPU: a CPU computes float16 more slowly than float32",
        )


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
    """Returns the lowest compute capability among the GPUs; None if one is unknown."""
    known = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
    return min(known, default=None) if len(known) == len(gpus) else None


def misfit(policy: str, gpus: tuple[GPUInfo, ...]) -> str | None:
    """Returns what is wrong with a dtype policy on these GPUs; None if nothing is."""
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
