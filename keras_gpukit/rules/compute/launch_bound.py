"""Whether starting work limits training: steps, kernels on the GPU, or what else lets GPUs idle."""

from __future__ import annotations

from typing import NamedTuple

from keras_gpukit.records.finding import Finding, Saving
from keras_gpukit.records.profile import KernelProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import (
    BETWEEN_STEPS,
    MANY_FUSED,
    Launches,
    calls_python,
    fused_fraction,
    idle_fraction,
    launches_of,
    own_step_s,
)
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import (
    NO_GPU,
    Measure,
    Outcome,
    Rule,
    Share,
    gpu_readings,
    gpu_readings_unknown_because,
    too_short,
)
from keras_gpukit.rules.savings import (
    WARNING_FRACTION,
    lasting_time_s,
    of_compute,
    of_run,
    severity,
    time_of_steps_s,
)
from keras_gpukit.rules.setup.gpus import ROOM_FRACTION, fullest_fraction
from keras_gpukit.rules.whole_run.time_parts import LESS_TIME, LOOP_S, MINIMUM_WALL_S

TINY_STEP_S = 0.002
MANY_STEPS = 100
STEPS_A_START = 16


class TinySteps(Rule):
    """Steps under 2 ms, each started from Python."""

    code = "tiny-steps"
    title = "Many tiny steps: starting them is a large part of each"
    requires = (
        f"the time of at least {MANY_STEPS} steps, and how many make one execution, in a run of at "
        f"least {MINIMUM_WALL_S:g} s"
    )
    charts = ("timeline",)
    in_captures = True
    tried_by = ("steps-per-execution", "batch-size")
    supersedes = ("low-compute-share: callbacks",)
    step_time = Measure("A step takes {value}", "ms")
    steps_measured = Measure(", the mean of {value} steps")
    GPU_idle_between_steps = Share("The GPU idles {value} of a step between steps")

    def judge(self, summary: RunSummary) -> Outcome:
        steps_per_execution = summary.environment.steps_per_execution
        throughput = summary.throughput
        if throughput is None or throughput.step_time_s is None or steps_per_execution is None:
            return self.abstain()
        if throughput.measured_steps < MANY_STEPS:
            return too_short(
                f"{throughput.measured_steps} of the {MANY_STEPS} steps needed were measured"
            )
        parts = summary.breakdown
        if parts is not None and parts.wall_s < MINIMUM_WALL_S:
            return self.abstain(LESS_TIME)
        if steps_per_execution > 1:
            return None
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, however many steps it starts")
        if throughput.step_time_s >= TINY_STEP_S:
            return self._idle_between_steps(summary)
        launches = launches_of(summary)
        if launches is not None and launches.limit:
            return self.abstain("the GPU waits for launches within the steps")
        saving = _saving(summary)
        # If validation or input takes most of the run, there is little to gain here.
        small = saving is not None and (saving.highest_fraction or 0.0) < WARNING_FRACTION
        return self.find(
            "info" if small else "warning",
            self.step_time(1000 * throughput.step_time_s),
            self.steps_measured(throughput.measured_steps),
            advice=(
                f"`compile(steps_per_execution={STEPS_A_START})`: sixteen steps for one start. "
                "Callbacks are then called once per sixteen steps: those that log each batch log "
                "fewer",
            ),
            saving=saving,
        )

    def _idle_between_steps(self, summary: RunSummary) -> Finding | None:
        """Finds longer steps between which a profile shows a GPU that idles."""
        idle = idle_fraction(summary, BETWEEN_STEPS)
        if idle < WARNING_FRACTION:
            return None
        share = (1 - 1 / STEPS_A_START) * idle
        return self.find(
            "info",
            self.GPU_idle_between_steps(idle),
            advice=(f"`compile(steps_per_execution={STEPS_A_START})`: fewer starts",),
            saving=of_compute(summary, share, basis="idle between steps"),
            title=f"Between steps the GPU idles for {100 * idle:.0f} % of the time, until Python "
            "starts the next one",
        )


def _saving(summary: RunSummary) -> Saving | None:
    parts = summary.breakdown
    if parts is None or parts.compute_s is None:
        return None
    saved = 1 - 1 / STEPS_A_START
    seen_s = sum(parts.by_callback.values())
    between_s = max(parts.callbacks_s - seen_s, 0.0)
    loop_s = min(between_s, LOOP_S * (summary.steps or 0))
    return of_run(
        summary,
        saved * loop_s - parts.first_step_s,
        saved * (between_s + parts.compute_s),
        basis="time between steps",
        # Callbacks that were seen are called less often too, which may save more.
        upper_bound=not seen_s,
    )


LOW_PERCENT = 50.0
_LOOP = "/while/"
SMALL_S, MANY_PRODUCTS = 10e-6, 16
"""Launching a kernel takes the host about as long. From 16 such products in a step on; our
choices."""
SAVED = 0.95
"""Most that is saved of launches and what goes with them; our choice. It was 0.9 on an H100."""
CUDNN = (
    "{name} computes time step by time step: cuDNN computes an LSTM or GRU in few kernels if "
    "it has `recurrent_dropout=0`, `unroll=False` and the default activations"
)
BATCHED = (
    "{name}: one batched product in place of {many}, as "
    "`tf.einsum('bcw,cwv->bcv', parts, matrices)` or `tf.matmul` of stacked matrices"
)


class LaunchBound(Rule):
    """GPUs that wait until the host has launched the next kernel, as with many small operations."""

    code = "launch-bound"
    title = "The GPU waits for the host to launch its kernels"
    requires = "a profile of a GPU's steps"
    charts = ("captures", "layers", "busy")
    in_captures = True
    tried_by = ("jit", "steps-per-execution", "batch-size")
    supersedes = ("low-utilization", "dominant-layer")
    of_a_step_waiting_for_launches = Share("{value} of a step are waits for launches")
    kernels_per_step = Measure("A step runs {value} kernels")
    mean_time_of_a_kernel = Measure(", {value} each on average", "µs")
    of_them_in = Measure(", {value} of them in {of}")

    def judge(self, summary: RunSummary) -> Outcome:
        if not summary.environment.gpus:
            return self.abstain(NO_GPU)
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        launches = launches_of(summary)
        if launches is None:
            return self.abstain()
        if not launches.limit:
            return None
        if calls_python(summary):
            return self.abstain("the step calls Python functions, which may take the time")
        if fused_fraction(summary) > max(launches.fraction, MANY_FUSED):
            return None  # the kernels take longer, as `unfused-operations` says
        waited_s = launches.fraction * time_of_steps_s(summary)
        lost = of_run(summary, waited_s, waited_s, basis="kernel launches")
        main = _main(summary.profile)
        return self.find(
            severity(lost, summary),
            self.of_a_step_waiting_for_launches(launches.fraction),
            self.kernels_per_step(launches.kernels),
            self.mean_time_of_a_kernel(1e6 * launches.kernel_s),
            *((self.of_them_in(main.kernels, main.name),) if main else ()),
            advice=(*((main.advice,) if main and main.advice else ()), *_advice(summary)),
            saving=of_run(
                summary,
                waited_s / 2,
                _most_saved(summary, launches, main) * time_of_steps_s(summary),
                basis="kernel launches",
                upper_bound=True,
            ),
            title=f"{self.title}, most of them of {main.name}" if main else None,
        )


def _most_saved(summary: RunSummary, launches: Launches, main: _Main | None) -> float:
    """Returns the most of the steps' time that fewer launches save, 0 to 1.

    XLA removes the launches, most of the host's work between them, and the kernels that it fuses. A
    loop may become a few kernels, of cuDNN or of one product.
    """
    own_s = own_step_s(summary)
    if own_s is None or summary.environment.jit_compile:
        return launches.fraction
    waits = max(idle_fraction(summary), launches.fraction)
    kernels = main.time_s / own_s if main is not None and main.advice else fused_fraction(summary)
    return SAVED * min(waits + kernels, 1.0)


class _Main(NamedTuple):
    """The layer that launches most of a step's kernels.

    Attributes:
        advice: A change by which it launches fewer; "" if only general advice fits.
    """

    name: str
    time_s: float
    kernels: float
    advice: str


def _main(profile: ProfileRecord | None) -> _Main | None:
    layers = profile.layers if profile else ()
    most = max(layers, key=lambda layer: layer.kernels, default=None)
    if profile is None or most is None or most.role == "other":
        return None
    within = [layer for layer in layers if f"{layer.path}/".startswith(f"{most.path}/")]
    kernels = sum(layer.kernels for layer in within)
    if kernels < sum(layer.kernels for layer in layers) / 2:
        return None
    name = most.path.rsplit("/", 1)[-1]
    advice = ""
    if any(_LOOP in (kernel.operation or "") for kernel in most.largest):
        advice = CUDNN.format(name=name)
    elif most.role == "layer" and (small := _small_products(profile)) >= MANY_PRODUCTS:
        advice = BATCHED.format(name=name, many=f"{small:.0f} small ones")
    return _Main(name, sum(layer.time_s for layer in within), kernels, advice)


def _small_products(profile: ProfileRecord) -> float:
    """Returns the number of matrix products of a step that take less time than their launch."""
    return sum(
        kernel.count / profile.steps
        for kernel in profile.kernels
        if kernel.kind == "matmul"
        and kernel.time_s < SMALL_S * kernel.count
        and not _of_cudnn(kernel)
    )


def _of_cudnn(kernel: KernelProfile) -> bool:
    return "CudnnRNN" in (kernel.operation or "")


def _advice(summary: RunSummary) -> tuple[str, ...]:
    environment, advice = summary.environment, []
    kernels = summary.profile.kernels if summary.profile else ()
    if not environment.jit_compile and not any(map(_of_cudnn, kernels)):  # XLA has no cuDNN RNNs
        advice.append("`compile(jit_compile=True)`: XLA makes few kernels of many operations")
    if (environment.steps_per_execution or 1) == 1:
        advice.append(
            f"`compile(steps_per_execution={STEPS_A_START})`: no return to Python between steps"
        )
    used = fullest_fraction(summary)
    if used is None or used <= ROOM_FRACTION:
        advice.append("A larger batch: the same launches compute more examples")
    return (*advice, "In your own code, use fewer and larger operations")


class LowUtilization(Rule):
    """GPUs that ran no kernel for more than half of the time, although input was available."""

    code = "low-utilization"
    title = "GPUs idle although input is there"
    requires = "readings of the GPUs' utilization"
    charts = ("busy", "timeline")
    tried_by = ("jit", "steps-per-execution", "batch-size")
    busy_time_of = Measure("{of} is busy {value} of the time", "%")
    multiprocessors_of = Measure("Of the multiprocessors of {of}, {value} are busy", "%")

    def judge(self, summary: RunSummary) -> Outcome:
        readings = [
            self.busy_time_of(gpu.utilization_percent, f"GPU:{gpu.index}")
            for gpu in gpu_readings(summary)
            if gpu.utilization_percent is not None
        ]
        if not readings:
            return self.abstain(gpu_readings_unknown_because(summary))
        mean = sum(reading.value for reading in readings) / len(readings)
        parts = summary.breakdown
        if parts is not None and parts.wall_s:  # GPUs idle while the first step is traced
            mean = min(mean * parts.wall_s / lasting_time_s(parts), 100.0)
        if mean >= LOW_PERCENT:
            return None
        input_bound = is_input_bound(summary)
        if input_bound:
            return self.abstain("the wait for input explains it")
        if input_bound is None:
            return self.abstain("the GPUs idle, but whether they wait for input is not known")
        if summary.environment.runs_eagerly:
            return self.abstain("Python starts each operation, as `slow-settings` says")
        units = (
            self.multiprocessors_of(gpu.sm_active_percent, f"GPU:{gpu.index}")
            for gpu in gpu_readings(summary)
            if gpu.sm_active_percent is not None
        )
        return self.find(
            "warning",
            *readings,
            *units,
            advice=_advise(summary),
            saving=of_compute(summary, 1 - mean / 100, basis="idle GPUs"),
        )


def _advise(summary: RunSummary) -> tuple[str, ...]:
    environment = summary.environment
    advice = ["Look in TensorBoard's Profile tab for gaps between kernels"]
    if launches_of(summary) is None:  # a profile would have shown that launches are the cause
        advice = [*_advice(summary), *advice]
    if environment.replicas is not None and environment.replicas < len(environment.gpus):
        advice.insert(0, "`configure_gpus(strategy='mirrored')`: train on every GPU")
    return tuple(advice)
