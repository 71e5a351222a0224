"""Each rule: fires with its evidence, is quiet just under its threshold, abstains without it."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import replace
from typing import Any

import pytest
from helpers.findings import bounds, by_name, codes, evidence, row
from helpers.findings import found as finding
from helpers.summaries import breakdown, changing_run, stall, throughput

from keras_gpukit import rules
from keras_gpukit.input.pipelines.places import KERAS_OWN
from keras_gpukit.records import (
    STEP_TIME,
    ContentionRecord,
    DeviceCopies,
    DeviceMemory,
    DeviceProfile,
    Environment,
    Fallback,
    FrozenLayers,
    GPUInfo,
    GPUUtilization,
    Hang,
    HostUtilization,
    InputRecord,
    KernelProfile,
    LayerProfile,
    LineTime,
    MemoryRecord,
    OperationProfile,
    Padding,
    PipelineRecord,
    PipelineStartRecord,
    PlacementRecord,
    ProcessUse,
    ProfileRecord,
    PythonSourceRecord,
    RepeatedCalls,
    RetracedFunction,
    RunSummary,
    StackTimes,
    StageRecord,
    TimeBreakdown,
    UtilizationRecord,
    WaitDistribution,
    Worker,
)
from keras_gpukit.records.pipeline import ARRAYS
from keras_gpukit.records.profile import BETWEEN
from keras_gpukit.rules import RULES, judge
from keras_gpukit.rules.rule import Rule
from keras_gpukit.rules.setup.slowing_settings import DEBUG_MODE
from keras_gpukit.rules.whole_run.hangs import with_hangs

GIB = 2**30
A100 = GPUInfo(0, compute_capability=(8, 0))
V100 = GPUInfo(0, compute_capability=(7, 0))
P100 = GPUInfo(0, compute_capability=(6, 0))


def run(gpus: tuple[GPUInfo, ...] = (), settings: dict[str, Any] | None = None, **parts: Any):
    return RunSummary(Environment({}, gpus=gpus, **(settings or {})), **parts)


def on_gpu(settings=None, **parts):
    return run((A100,), settings, **parts)


def held_up_by(work="mapping", name="augment", gil_wait_s=0.0, **stage):
    record = StageRecord(name, "map", work, "train.py:12", 0.0, 0.02, **stage)
    contention = ContentionRecord(gil_wait_s, 0.5)
    return stall(0.5, pipeline=PipelineRecord((record,), record), contention=contention)


def holds_gil(gil_wait_s=0.002, code_s=0.008, steps=1000, work="python", input_cores=0.45):
    """A run whose steps of 10 ms do not wait, and for each of which Python code runs a while."""
    stages = (StageRecord("rows", "generator", work, "train.py:12", code_s, code_s),)
    contention = ContentionRecord(gil_wait_s, 0.7, input_cores)
    record = stall(0.02, pipeline=PipelineRecord(stages), contention=contention)
    return run((), {"cpu_count": 2}, input=record, throughput=throughput(0.01, steps))


def rows_in_threads(input_cores, batch_s=None):
    """A run on two cores whose steps of 10 ms hardly wait for a `PyDataset` with four threads."""
    source = PythonSourceRecord("Rows.__getitem__", "train.py:12", 4, time_per_batch_s=batch_s)
    record = stall(
        *(0.12, "exact", 600),
        wait_s=0.0012,
        python=source,
        contention=ContentionRecord(0.002, 0.7, input_cores / 2),
        breakdown=breakdown(10.0, input_s=0.6, other_s=4.4),
    )
    return run((), {"cpu_count": 2}, input=record, throughput=throughput(0.01, 600))


def takes_cores(busy=0.9, by_input=0.3, waits=0.02, steps=1000, gpus=(), **parts):
    """A run on a CPU whose steps of 10 ms do not wait, and whose batches cores are busy with."""
    stages = (
        StageRecord("decode", "map", "decoding", "train.py:12", 0.008, 0.008),
        StageRecord("files", "interleave", "reading", None, 0.02, 0.02),
    )
    contention, pipeline = ContentionRecord(0.0, busy, by_input), PipelineRecord(stages)
    record = stall(waits, wait_s=0.01 * waits, pipeline=pipeline, contention=contention)
    settings = parts.pop("settings", {"cpu_count": 4})
    return run(gpus, settings, input=record, throughput=throughput(0.01, steps), **parts)


def spent(wall_s=100.0, steps=1000, start=None, hangs=None, mechanism=None, **parts):
    """A run whose time went to some parts, and for the rest to compute."""
    record = InputRecord("fit", mechanism, pipeline_start=start)
    record = replace(record, breakdown=breakdown(wall_s, **parts))
    return run(input=record, throughput=throughput(0.01, steps), hangs=hangs)


def unsure(input_s, compute_s, other_s):
    """A run of 100 s of which other parts, or the rest, are unknown."""
    parts = TimeBreakdown(100.0, input_s, compute_s, 0.0, 0.0, 0.0, 0.0, other_s)
    return run(input=InputRecord("fit", breakdown=parts))


def tiny(wall_s=100.0, steps=1000, **parts):
    """A run of steps of 1 ms, each started from Python, whose time went to some parts."""
    made, speed = spent(wall_s, steps, **parts), throughput(0.001, steps)
    return replace(made, environment=Environment({}, **SINGLE), throughput=speed)


LOADS = Hang(
    *(1, 40, "waiting for input, load (train.py:31)", "input", (), 30.0), "load (train.py:31)"
)
SHUFFLES = PipelineStartRecord(4, mean_s=2.5, shuffle_s=2.0)
QUICKER = replace(SHUFFLES, mean_s=2.4)


def in_first_step(lasted_s, cores=1.0, gpu_percent=0.0, jit_compile=True, **more):
    """A run on 16 cores that has not got past its first step."""
    gpus = (GPUUtilization(0, utilization_percent=gpu_percent),)
    used = UtilizationRecord(50, gpus, host=HostUtilization(10.0, 100 * cores / 16))
    settings = {"cpu_count": 16, "jit_compile": jit_compile}
    return on_gpu(settings, first_step_s=lasted_s, utilization=used, **more)


def compiled_again(compiling_s=40.0, open_shapes=("(None, None, 8)",), times=20):
    """A run of 100 s in which XLA compiled steps again, and 5 s of compute."""
    spends = spent(tracing_s=compiling_s, other_s=95.0 - compiling_s)
    parts = replace(spends.breakdown, compilations=times, compiling_s=compiling_s)
    return replace(spends, input=replace(spends.input, breakdown=parts, open_shapes=open_shapes))


def retraced(cause, argument=None, spent_s=30.0, **parts):
    """A run of 100 s in which a function was traced 10 times."""
    function = RetracedFunction("mix", "train.py:12", 10, spent_s, cause, argument)
    return spent(retraced=(function,), **parts)


def memory(peak_bytes, device="GPU:0", limit_bytes=100 * GIB):
    return MemoryRecord((DeviceMemory(device, 0, int(peak_bytes), limit_bytes),))


def gpu(samples=100, **readings):
    return UtilizationRecord(samples, (GPUUtilization(0, **readings),))


def busy(percent):
    return gpu(utilization_percent=percent)


def throttled(fractions):
    return on_gpu(utilization=gpu(throttle_fractions=fractions))


def shared(used, total=100 * GIB):
    return on_gpu(utilization=gpu(memory_others_max_bytes=used, memory_total_bytes=total))


def over_time(tag, *levels):
    return changing_run({tag: levels})


def host(cpu_percent, samples=100, own=50.0, **more):
    return UtilizationRecord(samples, host=HostUtilization(cpu_percent, own, **more))


def faulting(faults_per_s=100_000, kernel_cores=0.4, gpus=(), waits=0.0, samples=100):
    """A run whose steps take 10 ms and 1.6 cores, of which the kernel has a quarter."""
    known = {"kernel_cores": kernel_cores, "page_faults_per_s": faults_per_s}
    used = UtilizationRecord(samples, host=HostUtilization(user_cores=1.2, **known))
    return run(gpus, {}, input=stall(waits), throughput=throughput(), utilization=used)


def placed(cause, predicted=False):
    fallback = Fallback("AsString", 2, cause, "TensorFlow has none.", ("model/hash",))
    device = "CPU:0" if predicted else "GPU:0"
    return PlacementRecord({device: {"MatMul": 9}}, (fallback,), predicted, transfers=4)


RULE = {rule.code: rule for rule in RULES}


QUICK = stall(0.0)
PRODUCTS = PlacementRecord({"GPU:0": {"MatMul": 3, "Sin": 500}})


def launching(
    waiting_ms=3.3,
    kernels_ms=0.6,
    step_ms=4.3,
    kinds=None,
    slowed_ms=0.0,
    python_ms=0.0,
    **settings,
):
    """A run of 100 s whose profile shows 500 kernels a step, and how long the GPU waited for them.

    `kinds` has the time of the kernels by kind. The profiler adds `slowed_ms` to the wait.
    """
    parts_ms = {"device compute": kernels_ms, "kernel launch": waiting_ms + slowed_ms}
    parts_ms["idle"] = step_ms - waiting_ms - kernels_ms
    profile = ProfileRecord(
        steps=10,
        step_time_s=(step_ms + slowed_ms) / 1e3,
        parts_s={part: ms / 1e3 for part, ms in parts_ms.items()},
        kinds_s={kind: ms / 1e3 for kind, ms in (kinds or {"elementwise": kernels_ms}).items()},
        devices=(DeviceProfile("GPU:0", 0.14, kernels=5000),),
        python_s=python_ms / 1e3,
    )
    record, speed = replace(QUICK, breakdown=breakdown()), throughput(step_ms / 1e3, 20_000)
    return run((A100,), settings, input=record, throughput=speed, profile=profile)


def computing(kernels=(), layers=(), kinds=None, python_ms=0.0, **settings):
    """A run of 100 s whose GPU computes for 4 ms of each step of 5 ms.

    A kernel has name, kind and share of the GPU time; a layer path, role, the milliseconds of its
    kinds in a step, and its largest kernel.
    """

    def layer(path, role, times_ms, kernel):
        largest = KernelProfile(kernel, "other", 0.01, 100, 1.0, None, f"{path}/Op")
        kinds_s = {kind: ms / 1e3 for kind, ms in times_ms.items()}
        time_s = sum(times_ms.values()) / 1e3
        return LayerProfile(path, role, time_s, 0.0, kinds_s, 50.0, None, (largest,))

    summary = launching(0.0, 4.0, 5.0, kinds or {"matmul": 4.0}, python_ms=python_ms, **settings)
    profile = replace(
        summary.profile,
        kernels=tuple(
            KernelProfile(name, kind, 0.04 * share, 100, share, None, f"dense_1/{kind}")
            for name, kind, share in kernels
        ),
        layers=tuple(layer(*each) for each in layers),
    )
    return replace(summary, profile=profile)


def copying(copies_ms):
    """The same run with 5 kB copied in each of its 10 captured steps."""
    summary = computing()
    parts_s = {**summary.profile.parts_s, "host to device": copies_ms / 1e3}
    gpu = replace(summary.profile.devices[0], host_to_device_bytes=50_000)
    return replace(summary, profile=replace(summary.profile, parts_s=parts_s, devices=(gpu,)))


def layers_of(**times_ms):
    """Three dense layers and others, each with the milliseconds of its elementwise kernels."""
    others = {f"dense_{number}": {"matmul": 0.2} for number in range(3)}
    each = {**others, **{name: {"elementwise": ms} for name, ms in times_ms.items()}}
    roles = {"optimizer", "metrics", "loss", "other"}
    return tuple(
        (name if name in roles else f"model/{name}", name if name in roles else "layer", kinds, MUL)
        for name, kinds in each.items()
    )


def damaged(summary):
    """The same run with a profile that says that layers took no time."""
    layers = tuple(replace(each, time_s=0.0, kinds_s={}) for each in summary.profile.layers)
    return replace(summary, profile=replace(summary.profile, layers=layers))


def summing(sum_type="UnsortedSegmentSum", **times_ms):
    """A run whose optimizer takes 3 ms of a step, and in which an operation of a type runs."""
    summary = computing(layers=layers_of(**times_ms or {"embedding_7": 0.1}, optimizer=3.0))
    made = OperationProfile("adam/Sum", sum_type, "reduction", 0.01, 10, 0.1)
    return replace(summary, profile=replace(summary.profile, operations=(made,)))


def on_cpu(summary):
    """The same run on a CPU, where a profile's steps take twice as long as the run's."""
    profile = replace(summary.profile, devices=(), step_time_s=2 * summary.step_time_s)
    return replace(summary, environment=Environment({}), profile=profile)


def padded(most, compute_s=80.0):
    """A run of 100 s on examples of 600 numbers, of which 99 % have at most so many."""
    summary = spent(compute_s=compute_s)
    return replace(summary, environment=Environment({}, padding=Padding(600, 0.5 * most, most)))


def frozen(share, gets_arrays=True, epochs=10, validation_s=0.0):
    """A run of 100 s whose frozen layers take a share of each step's computation."""
    layers = layers_of(base=5.0 * share, head=5.0 * (1 - share))[3:]
    summary = on_cpu(computing(layers=layers))
    environment = replace(summary.environment, frozen=FrozenLayers(("base",), gets_arrays))
    start = PipelineStartRecord(epochs - 1, 0.01)
    parts = breakdown(100.0, compute_s=80.0, validation_s=validation_s)
    record = replace(summary.input, pipeline_start=start, breakdown=parts)
    return replace(summary, environment=environment, input=record)


def looping(share, *loops):
    """A run on a CPU in which a share of a step passes between operations."""
    summary = on_cpu(computing(layers=layers_of()))
    profile, rest_s = summary.profile, sum(each.time_s for each in summary.profile.layers)
    between = LayerProfile(BETWEEN, "other", rest_s * share / (1 - share), 0.0, {}, 0.0)
    profile = replace(profile, layers=(*profile.layers, between), loops=loops)
    return replace(summary, profile=profile)


def repeating(share):
    """A run on a CPU whose steps call a model again on the same batch for a share of their time."""
    summary = on_cpu(computing(layers=layers_of()))
    again_s = share * sum(each.time_s for each in summary.profile.layers)
    repeats = (RepeatedCalls("encoder", 3, again_s, ("train.py:72",)),)
    return replace(summary, profile=replace(summary.profile, repeats=repeats))


def in_no_layer(other_ms):
    return on_cpu(computing(layers=layers_of(other=other_ms)))


def in_lines(line_ms, *, backward=False, kind="Mul"):
    """A run on a CPU in which a line of the script takes some milliseconds of each step."""
    summary = on_cpu(computing(layers=layers_of(other=line_ms)))
    *layers, line = summary.profile.layers
    backward_s = 0.2 * line.time_s if backward else 0.0
    largest = (replace(line.largest[0], operation=kind),)
    line = replace(line, path="train.py:9", role="line", backward_s=backward_s, largest=largest)
    return replace(summary, profile=replace(summary.profile, layers=(*layers, line)))


def in_float32(casts_ms=0.2, precision="mixed_bfloat16", kernel="Mul_GPU_DT_FLOAT_DT_FLOAT_kernel"):
    """A run in which an activation takes 0.5 ms of a step, and casts between layers take some."""
    layers = (
        ("model/activation", "layer", {"elementwise": 0.5}, kernel),
        ("model", "layer", {"cast": casts_ms}, "Cast"),
        ("model/dense", "layer", {"matmul": 3.0}, "nvjet"),
    )
    return computing(layers=layers, precision=precision)


MUL = "Mul_GPU_DT_FLOAT_DT_FLOAT_kernel"
DOUBLE, DOUBLE_A100, ODD = (
    "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n",
    "cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1",
    "cutlass_75_tensorop_bf16_s1688gemm_nn_align1",
)
TO_NHWC = "cudnn::ops::nchwToNhwcKernel<float>"


POWER, HOT, SET = "software power cap", "hardware thermal slowdown", "applications clocks setting"
BUSY_HOST = host(70.0)
PYTHON_IN_STEP = PlacementRecord({"GPU:0": {"EagerPyFunc": 1, "Sin": 500}})

FLOAT32, SINGLE = {"precision": "float32"}, {"steps_per_execution": 1}


def in_full_precision(gpu=A100, operations=PRODUCTS, **settings):
    return run((gpu,), {**FLOAT32, **settings}, operations=operations)


def hot(used, **parts):
    return on_gpu(input=QUICK, utilization=used, **parts)


def in_products(ms):
    kinds = {"convolution": ms, "elementwise": 4 - ms}
    return launching(0.0, 4.0, kinds=kinds, precision="float32")


def fusible(ms, layers=(), **kinds):
    kinds |= {"elementwise": ms, "matmul": 4 - ms - sum(kinds.values())}
    return computing(kinds=kinds, layers=layers)


def double(share):
    return DOUBLE, "matmul", share


def starts(seconds, start=QUICKER):
    return spent(epoch_start_s=seconds, start=start)


BOUND = stall(0.9, "upper bound", buffered_batches=0.4)
BURSTS = WaitDistribution(0, 0, 0, 0.1, 10.0)
ALL_ON_CPU = PlacementRecord({"CPU:0": {"MatMul": 9}})
HALF = {"precision": "mixed_float16"}


FIRES = [
    ("cpu-contention warning: time per batch of decode 8 ms", takes_cores()),
    ("cpu-contention warning: of it making batches 20 %", takes_cores(0.7, 0.2)),
    ("cpu-contention warning: of it making", takes_cores(0.4, 0.1, utilization=host(90.0, own=40))),
    ("gil-contention warning: time per batch of rows 8 ms", holds_gil()),
    ("input-bound warning: input stall 10 %", run(input=stall(0.10))),
    ("input-bound critical: wait per step 10 ms", run(input=stall(0.20))),
    ("input-bound warning: input stall at most 90 %", run(input=BOUND)),
    ("input-bound warning: input stall 15.1 %", run(input=stall(0.151, "sampled"))),
    ("input-bound critical: time per batch of augment 20 ms", run(input=held_up_by())),
    ("input-bound critical: a stall every 10 steps", run(input=stall(0.5, distribution=BURSTS))),
    ("throughput-drops warning: after 60 ms", over_time(STEP_TIME, *[40] * 18, *[60] * 5)),
    ("slow-epoch-start warning: of it filling the shuffle buffer 2 s", starts(10.1, SHUFFLES)),
    ("slow-epoch-start warning: of the time in starting later epochs 10.08 %", starts(12.6)),
    ("hang critical: longest 30 s", spent(hangs=(LOADS,))),
    ("retracing warning: traced again 4 times", spent(tracing_s=10.1, tracings=4)),
    ("first-step-not-over warning: cores busy 1", in_first_step(54.0)),
    ("retracing critical: compiled again by XLA 20 times", compiled_again()),
    ("slow-callbacks warning: in callbacks 10.01 s", spent(callbacks_s=10.26)),
    ("long-validation warning: time of validation 50.1 s", spent(validation_s=50.1)),
    ("long-validation info: time of validation 30 s", spent(validation_s=30.0)),
    ("long-validation warning: time", spent(validation_s=40.0, first_step_s=20.0, other_s=5.0)),
    ("low-compute-share warning: time of other 40 %", spent(other_s=40.0, validation_s=20.0)),
    ("low-compute-share warning: time of unknown 80 %", unsure(0.0, 20.0, 0.0)),
    ("low-compute-share warning: time of other 51 %", unsure(None, None, 51.0)),
    ("low-compute-share warning: time of epoch starts 51 %", spent(epoch_start_s=51.0)),
    ("low-compute-share info: compute 49.32 %", spent(wall_s=59.0, first_step_s=29.9)),
    ("low-compute-share warning: compute 49.15 %", spent(wall_s=59.0, first_step_s=30.0)),
    ("low-compute-share warning: compute 49 %", spent(first_step_s=51.0)),
    ("cpu-fallback warning: operations of AsString 2", on_gpu(operations=placed("no kernel"))),
    ("cpu-fallback warning: operations of AsString 2", on_gpu(operations=placed("no such device"))),
    ("cpu-fallback info: operations of AsString 2", run(operations=placed("host function", True))),
    ("cpu-fallback critical: operations on the CPU 9", on_gpu(operations=ALL_ON_CPU)),
    ("launch-bound critical: of a step waiting for launches 76.74 %", launching()),
    ("launch-bound critical: mean time of a kernel 1.2 µs", launching()),
    ("launch-bound warning: kernels per step 500", launching(0.44)),
    ("launch-bound critical: of a step waiting for launches 76.74 %", launching(slowed_ms=1.6)),
    ("tiny-steps info: GPU idle between steps 20 %", computing(steps_per_execution=1)),
    ("unfused-operations critical: of a step in kernels that XLA fuses 60 %", fusible(2.0, cast=1)),
    (
        "unfused-operations warning: share of the GPU time in batch normalization 30 %",
        fusible(1.2, layers_of(conv1_bn=1.2)),
    ),
    ("float64-kernels critical: of a step in these kernels 40 %", computing([double(0.5)])),
    ("float64-kernels warning: of them per step", computing([(DOUBLE_A100, "matmul", 0.3)])),
    ("misaligned-products warning: of a step in these", computing([(ODD, "matmul", 0.3)])),
    ("layout-changes warning: of them per step 10", computing([(TO_NHWC, "data movement", 0.3)])),
    ("python-in-step critical: of a step in Python functions 20 %", computing(python_ms=1.0)),
    ("host-to-device-copy warning: of a step in copies 20 %", copying(1.0)),
    ("host-to-device-copy info: copied to the GPU per step 5000 B", copying(0.6)),
    ("dense-embedding-update critical: of a step in the optimizer 60 %", summing()),
    ("dense-embedding-update warning: of a step in the optimizer 30 %", on_cpu(summing())),
    ("slow-metrics warning: of a step in metrics 11 %", computing(layers=layers_of(metrics=0.55))),
    ("float32-layers info: of a step in layers in float32 14 %", in_float32()),
    ("float16-on-cpu warning: dense products slower by 2", run((), HALF)),
    ("dominant-layer info: of the computation gram 62", computing(layers=layers_of(gram_2=1.0))),
    ("dominant-layer info: of the computation the loss 62", computing(layers=layers_of(loss=1.0))),
    ("compute-outside-layers warning: of the computation 62", in_no_layer(1.0)),
    ("mostly-padding warning: longest of most 48 numbers", padded(48)),
    ("mostly-padding warning: padded to 600 numbers", padded(300)),
    ("frozen-features critical: epochs 10", frozen(0.9)),
    ("repeated-forward-pass warning: of the computation 30 %", repeating(0.3)),
    ("loop-in-step warning: of a step between operations 90 %", looping(0.9, "train.py:9")),
    ("frozen-features warning: epochs 2", frozen(0.9, gets_arrays=False, epochs=2)),
    ("compute-outside-layers warning: of it by line train.py:9 40 %", in_lines(0.4)),
    ("compute-outside-layers info: of it backward 20 %", in_lines(0.4, backward=True)),
    (
        "compute-outside-layers warning: of it backward 20 %",
        in_lines(0.4, backward=True, kind="gradient_tape/Svd"),
    ),
    ("low-utilization warning: busy time of GPU:0 49 %", hot(busy(49.0))),
    ("host-cpu-saturated warning: cores busy 70 %", run(input=stall(0.5), utilization=BUSY_HOST)),
    ("host-cpu-saturated info: this process 50 %", hot(BUSY_HOST)),
    ("page-faults warning: of the CPU time in the kernel 25 %", faulting()),
    ("page-faults warning: kernel time per fault 4 µs", faulting()),
    ("page-faults info: page faults per step 1000", faulting(gpus=(A100,), waits=0.5)),
    ("tiny-steps warning: step time 1.9 ms", run(settings=SINGLE, throughput=throughput(0.0019))),
    ("float32-on-tensor-cores warning: compute capability 7", in_full_precision(V100)),
    ("float32-on-tensor-cores warning: compute capability 8", in_full_precision(tf32=False)),
    ("float32-on-tensor-cores info: compute capability 8", in_full_precision(tf32=True)),
    ("float32-on-tensor-cores info: of a step in products 10.23 %", in_products(0.44)),
    ("memory-nearly-full warning: peak use of GPU:0 90 %", on_gpu(memory=memory(90 * GIB))),
    ("memory-mostly-unused info: peak use of GPU:0 30 %", on_gpu(memory=memory(30 * GIB))),
    (f"throttled warning: readings with {HOT} on GPU:0 10 %", throttled({HOT: 0.1})),
    (f"throttled info: readings with {POWER} on GPU:0 90 %", throttled({POWER: 0.9})),
    (f"throttled warning: readings with {HOT} on GPU:0 30 %", throttled({SET: 1.0, HOT: 0.3})),
    ("other-processes-on-gpu warning: memory held by others on GPU:0 10 %", shared(10 * GIB)),
]


@pytest.mark.parametrize(("expected", "summary"), FIRES)
def test_a_rule_fires_with_its_evidence(expected, summary):
    rule, shown = expected.split(": ")
    code, severity = rule.split()
    found = finding(code, summary)
    assert found.severity == severity
    shown_as = (f"{each.name} {each.value:.4g} {each.unit}" for each in found.evidence)
    assert any(each.startswith(shown) for each in shown_as)
    assert all(hasattr(RULE[code], each.key) for each in found.evidence)
    assert found.advice
    saving = found.saving
    assert saving is None or 0 <= saving.low_s <= (saving.high_s or saving.of_s) <= saving.of_s


QUIET = [
    ("cpu-contention", takes_cores(busy=0.69)),
    ("cpu-contention", takes_cores(by_input=0.19)),
    ("cpu-contention", takes_cores(0.4, 0.1, utilization=host(70.0, own=40.0))),
    ("cpu-contention", takes_cores(waits=0.3)),  # `InputBound` reports it
    ("gil-contention", holds_gil(gil_wait_s=0.0002)),
    ("gil-contention", holds_gil(code_s=0.0019)),
    # Others say more.
    ("memory-mostly-unused", replace(launching(), memory=memory(1))),
    ("memory-mostly-unused", on_gpu(memory=memory(1), input=stall(0.5))),
    ("input-bound", run(input=stall(0.099))),
    ("input-bound", run(input=replace(stall(0.5), wait_s=0.00024))),
    ("input-bound", run(input=stall(0.099, "upper bound"))),
    ("input-bound", run(input=stall(0.149, "sampled"))),
    ("throughput-drops", over_time(STEP_TIME, *[40] * 18, *[49] * 5)),
    ("slow-epoch-start", starts(12.4)),
    ("retracing", spent(tracing_s=9.9, tracings=4)),
    ("retracing", compiled_again(9.9)),
    ("retracing", retraced("shape", "x", spent_s=11.0)),  # one tracing is needed
    # `TracingAgain` reports it.
    ("slow-callbacks", retraced("shape", "x", spent_s=20.0, callbacks_s=36.0)),
    ("first-step-not-over", in_first_step(9.9)),
    ("hang", run(hangs=())),
    ("hang", run(hangs=(replace(LOADS, kind="work"),))),
    ("first-step-not-over", run(throughput=throughput(0.01))),
    ("slow-callbacks", spent(callbacks_s=10.24)),
    # None of them is the user's.
    ("slow-callbacks", spent(callbacks_s=20.0, by_callback={"History": 0.1, "Monitor": 0.2})),
    ("long-validation", spent(validation_s=29.9)),
    ("low-compute-share", spent(other_s=49.9)),
    ("low-compute-share", spent(callbacks_s=51.0)),
    ("low-compute-share", spent(epoch_start_s=51.0, start=SHUFFLES)),
    ("low-compute-share", spent(validation_s=51.0)),
    ("low-compute-share", spent(tracing_s=51.0)),
    ("low-compute-share", spent(first_step_s=40.0, callbacks_s=20.0)),
    ("cpu-fallback", on_gpu(operations=placed("host memory"))),
    ("cpu-fallback", on_gpu(operations=placed("requested"))),
    ("cpu-fallback", on_gpu(operations=placed("variable elsewhere"))),
    ("tiny-steps", launching(0.0, 4.0, 4.4, steps_per_execution=1)),
    ("unfused-operations", fusible(0.99)),
    ("unfused-operations", summing()),
    # Of launches and kernels that XLA would fuse, what takes longer is found.
    ("unfused-operations", launching(2.5, 1.5)),
    ("launch-bound", launching(1.5, 2.5)),
    ("unfused-operations", launching(0.0, 4.0, 4.0, jit_compile=True)),
    ("unfused-operations", computing([("loop_add_fusion", "elementwise", 1.0)], jit_compile=None)),
    ("float64-kernels", computing([double(0.12)])),
    ("float64-kernels", computing([(MUL, "elementwise", 1.0)])),
    ("misaligned-products", computing([(ODD.replace("align1", "align8"), "matmul", 1.0)])),
    ("layout-changes", computing([("SwapDimension1And2InTensor3", "data movement", 1.0)])),
    ("python-in-step", computing(python_ms=0.49)),
    ("host-to-device-copy", copying(0.49)),
    ("dense-embedding-update", summing("Sum")),
    ("dense-embedding-update", summing(metrics=2.0)),  # of many classes, and no embedding
    ("slow-metrics", computing(layers=layers_of(metrics=0.2))),
    ("float32-layers", in_float32(casts_ms=0.09)),
    ("float32-layers", in_float32(precision="float32")),
    ("float32-layers", in_float32(kernel="EigenMetaKernel<Eigen::bfloat16>")),
    ("dominant-layer", computing(layers=layers_of(gram_2=0.25))),
    ("dominant-layer", computing(layers=layers_of())),
    ("compute-outside-layers", in_no_layer(0.85)),
    ("mostly-padding", padded(301)),
    ("frozen-features", frozen(0.1)),
    ("repeated-forward-pass", repeating(0.09)),
    ("repeated-forward-pass", on_cpu(computing(layers=layers_of()))),
    ("loop-in-step", looping(0.9)),
    ("loop-in-step", looping(0.49, "train.py:9")),
    ("mostly-padding", padded(48, compute_s=5.0)),
    ("compute-outside-layers", in_lines(0.29)),
    ("dominant-layer", damaged(computing(layers=layers_of(gram_2=1.0)))),
    ("launch-bound", launching(0.42)),
    ("launch-bound", launching(0.42, slowed_ms=2.0)),
    ("low-utilization", hot(busy(50.0))),
    ("host-cpu-saturated", on_gpu(input=stall(0.5), utilization=host(69.9))),
    ("host-cpu-saturated", run(input=QUICK, utilization=host(32.0, own=30.0))),
    ("host-cpu-saturated", run(input=stall(0.5), utilization=host(90.0, own=32.0))),
    ("host-cpu-saturated", hot(host(90.0, own=32.0))),
    ("page-faults", faulting(kernel_cores=0.13)),
    ("page-faults", faulting(faults_per_s=39_000)),
    ("page-faults", faulting(gpus=(A100,))),
    ("tiny-steps", run(settings=SINGLE, throughput=throughput(0.002))),
    ("tiny-steps", run(settings={"steps_per_execution": 2}, throughput=throughput(0.001))),
    ("float32-on-tensor-cores", run((P100,), FLOAT32)),
    ("float32-on-tensor-cores", run((A100, P100), FLOAT32)),
    ("float32-on-tensor-cores", on_gpu({"precision": "mixed_bfloat16"})),
    ("float32-on-tensor-cores", launching(precision="float32", tf32=False)),
    ("float32-on-tensor-cores", in_products(0.42)),
    ("float32-on-tensor-cores", in_full_precision(V100, PlacementRecord({"GPU:0": {"Sin": 9}}))),
    ("memory-nearly-full", on_gpu(memory=memory(89 * GIB))),
    ("memory-mostly-unused", on_gpu(memory=memory(31 * GIB))),
    ("throttled", throttled({HOT: 0.09})),
    ("throttled", throttled({SET: 1.0, HOT: 0.09})),
    ("throttled", throttled({})),
    ("other-processes-on-gpu", shared(9 * GIB)),
    ("no-gpu", run((A100,))),
    ("float16-on-cpu", run(settings={"precision": "mixed_bfloat16"})),
    ("float16-on-cpu", on_gpu(HALF)),
]


def test_several_steps_per_execution_go_through_keras_loop_once():
    slow = spent(wall_s=60.0, steps=100_000, callbacks_s=18.0)
    assert "slow-callbacks" in judge(slow).passed
    for together in (
        replace(slow, throughput=replace(slow.throughput, executions=2000)),
        replace(slow, environment=Environment({}, steps_per_execution=50)),  # run in progress
    ):
        found = finding("slow-callbacks", together)
        assert row("in_callbacks", 17.5, "s") in evidence(found)


@pytest.mark.parametrize(("code", "summary"), QUIET)
def test_a_rule_is_quiet_under_its_threshold(code, summary):
    assert code in judge(summary).passed


UNREAD = UtilizationRecord(9, gpus_unknown_because="no driver")
OF_CHILDREN = host(90.0, own=30.0, children_cpu_percent=40.0)
ABSTAINS = [
    ("cpu-contention", takes_cores(by_input=None), "the cores that making batches"),
    (
        *("cpu-contention", takes_cores(settings={"settings": {DEBUG_MODE: "True"}})),
        "the debug mode runs tf.data",
    ),
    ("cpu-contention", takes_cores(busy=None), "the cores that making batches"),
    ("cpu-contention", takes_cores(steps=9), "in 10 steps"),
    ("cpu-contention", takes_cores(gpus=(A100,)), "without a GPU"),
    ("gil-contention", run(input=stall(0.02), throughput=throughput()), "waits for the GIL"),
    ("gil-contention", holds_gil(steps=9), "the time of 10 steps"),
    ("gil-contention", holds_gil(work="mapping"), "no Python code"),
    # The time of its code may be waiting, as for a disk.
    ("gil-contention", holds_gil(input_cores=None), "the processor time of the threads"),
    ("input-bound", run(input=InputRecord("fit", unknown_because="no iterator")), "no iterator"),
    ("input-bound", run(input=stall(0.9, steps=9)), "the wait of 9 of the 10 steps"),
    ("input-bound", run(input=stall(0.9, "upper bound")), "upper bound"),
    ("input-bound", run(input=stall(0.9, "upper bound", buffered_batches=1.5)), "upper bound"),
    ("throughput-drops", over_time(STEP_TIME, *[40] * 5, *[60] * 4), "10 points"),
    ("slow-epoch-start", spent(epoch_start_s=90.0), "after the first"),
    ("slow-epoch-start", spent(4.9, epoch_start_s=4.0, start=SHUFFLES), "5 s"),
    ("retracing", spent(4.9, tracing_s=4.0), "5 s"),
    ("first-step-not-over", run(), "in its first step"),
    ("hang", run(), "watched once a second"),
    (
        *("first-step-not-over", in_first_step(54.0, ended_by="Error", ended_kind="error")),
        "exception",
    ),
    ("slow-callbacks", spent(4.9, callbacks_s=4.0), "5 s"),
    ("long-validation", spent(4.9, validation_s=4.0), "5 s"),
    ("low-compute-share", spent(4.9, other_s=4.0), "5 s"),
    ("low-compute-share", run(), "broken down"),
    ("low-compute-share", unsure(None, None, 49.0), "how long steps computed"),
    ("cpu-fallback", run(operations=PlacementRecord(unknown_because="no graph")), "no graph"),
    ("cpu-fallback", run(operations=ALL_ON_CPU), "no GPU"),
    ("launch-bound", run(), "no GPU"),
    ("launch-bound", launching(run_eagerly=True), "slow-settings"),
    ("launch-bound", launching(python_ms=1.0), "Python functions"),
    ("unfused-operations", run(), "no GPU"),
    ("unfused-operations", on_gpu(), "needs a profile"),
    ("float64-kernels", run(), "no GPU"),
    ("misaligned-products", on_gpu(), "needs a profile"),
    ("layout-changes", on_gpu(), "needs a profile"),
    ("dense-embedding-update", computing(), "the time of each layer"),
    ("slow-metrics", computing(), "the time of each layer"),
    ("float32-layers", in_float32(precision=None), "needs the precision"),
    ("python-in-step", on_gpu(), "needs a profile"),
    ("host-to-device-copy", on_gpu(), "needs a profile"),
    ("host-to-device-copy", on_cpu(copying(1.0)), "no GPU"),
    ("dominant-layer", computing(), "needs a profile"),
    ("compute-outside-layers", computing(), "needs a profile"),
    (
        "compute-outside-layers",
        replace(in_no_layer(0.85), environment=Environment({}, run_eagerly=True)),
        "eager steps do not name their layers",
    ),
    ("mostly-padding", run(), "examples of whole numbers"),
    ("frozen-features", replace(frozen(0.9), input=None), "needs two epochs"),
    ("repeated-forward-pass", computing(), "needs a profile"),
    ("loop-in-step", computing(), "needs a profile"),
    ("float16-on-cpu", run(), "needs the precision"),
    ("launch-bound", replace(launching(), operations=PYTHON_IN_STEP), "Python functions"),
    ("launch-bound", run((A100,)), "needs a profile"),
    ("low-utilization", on_gpu(utilization=gpu(4, utilization_percent=1.0)), "read 4 times"),
    ("low-utilization", on_gpu(input=stall(0.5), utilization=busy(1.0)), "input explains"),
    ("low-utilization", on_gpu(utilization=busy(1.0)), "not known"),
    ("low-utilization", on_gpu(utilization=UNREAD), "no driver"),
    ("host-cpu-saturated", run(input=QUICK, utilization=BUSY_HOST), "this run trains on the CPU"),
    ("host-cpu-saturated", run(input=stall(0.5), utilization=host(99, samples=4)), "read 4 times"),
    ("host-cpu-saturated", run(input=QUICK, utilization=OF_CHILDREN), "this run trains on the CPU"),
    ("page-faults", faulting(samples=4), "read 4 times"),
    ("page-faults", replace(faulting(), memory=memory(GIB, "CPU:0")), "already"),
    ("page-faults", replace(faulting(gpus=(A100,)), input=None), "input wait"),
    ("page-faults", replace(faulting(), input=held_up_by("python")), "batches that Python makes"),
    ("tiny-steps", run(throughput=throughput(0.001)), "one execution"),
    ("tiny-steps", tiny(4.9), "5 s"),
    ("tiny-steps", launching(1.0, 0.1, 1.5, steps_per_execution=1), "waits for launches"),
    ("tiny-steps", run((), SINGLE, throughput=throughput(0.001, 99)), "99 of the 100 steps needed"),
    ("float32-on-tensor-cores", run((GPUInfo(0),), FLOAT32), "capability"),
    ("float32-on-tensor-cores", run((A100,)), "precision"),
    ("float32-on-tensor-cores", on_gpu(FLOAT32), "operations of a step"),
    (
        *("float32-on-tensor-cores", replace(in_full_precision(V100), utilization=busy(49.0))),
        "mostly idle",
    ),
    (
        *("float32-on-tensor-cores", replace(in_full_precision(V100), utilization=busy(0.0))),
        "mostly idle",
    ),
    ("memory-nearly-full", on_gpu(memory=memory(99 * GIB, "CPU:0")), "on a GPU"),
    ("memory-nearly-full", run(memory=memory(99 * GIB, "CPU:0")), "no GPU"),
    ("memory-mostly-unused", on_gpu(memory=memory(1, limit_bytes=None)), "limit"),
    ("throttled", on_gpu(utilization=gpu()), "throttle reasons"),
    ("other-processes-on-gpu", shared(None), "by process"),
]


@pytest.mark.parametrize(("code", "summary", "reason"), ABSTAINS)
def test_a_rule_abstains_without_evidence(code, summary, reason):
    assert reason in judge(summary).not_applicable[code]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_reason_is_one_short_line(rule):
    assert rule.abstain().reason == f"needs {rule.requires}"
    long = rule.abstain("Cannot assign a device for operation.\n" + "Registered kernels:\n" * 30)
    assert long.reason == "Cannot assign a device for operation."
    assert len(rule.abstain("long " * 100).reason) <= 100


def test_nothing_known_gives_no_finding_but_the_missing_gpu():
    verdict = judge(run())
    assert [each.code for each in verdict.findings] == ["no-gpu"]
    assert set(verdict.not_applicable) == {rule.code for rule in RULES} - {"no-gpu"}


def test_a_pipeline_may_be_tuned_whose_batches_python_does_not_make():
    pipeline = finding("input-bound", run(input=held_up_by(parallelism=4)))
    assert "tune_input(model, ds) tries such changes" in pipeline.advice[-1]
    python = finding("input-bound", run(input=held_up_by("python", "rows")))
    assert not any("tune_input" in line for line in python.advice)
    contended = finding("input-bound", run(input=held_up_by(gil_wait_s=0.0006)))
    assert "holds the GIL" in contended.advice[0]


def test_a_py_dataset_is_advised_by_its_workers():
    def found(stage=None, **source):
        code = PythonSourceRecord("Photos.__getitem__", "train.py:9", **source)
        pipeline = None if stage is None else PipelineRecord((stage,), stage)
        return finding("input-bound", run(input=stall(0.5, python=code, pipeline=pipeline)))

    def batch(milliseconds):
        return row("time_per_batch_of", milliseconds, "ms", of="Photos.__getitem__")

    assert found().advice[0].startswith("Photos(workers=4)")
    threads = found(workers=2, busy_workers=1.9, time_per_batch_s=0.038)
    assert threads.advice[0].startswith("Photos(workers=2, use_multiprocessing=True")
    assert batch(38.0) in evidence(threads)
    assert row("busy_of", 1.9, of="2 workers") in evidence(threads)
    assert found(workers=2, in_processes=True).advice[0].startswith("Photos(workers=4), if cores")
    # One worker is described by its stage, which is timed at each batch.
    stage = StageRecord("Photos.__getitem__", "generator", "python", cost_per_batch_s=0.0087)
    alone = found(stage, time_per_batch_s=0.001, busy_workers=0.1)
    assert batch(8.7) in evidence(alone)
    assert not any(each.value == 1.0 for each in alone.evidence)


def test_a_late_batch_promises_nothing_while_other_processes_fill_the_cores():
    alone, disturbed = (
        finding("input-bound", run(input=stall(0.5), utilization=host(99.0, own=own))).saving
        for own in (95.0, 40.0)
    )
    assert alone.low_s > 0
    assert (disturbed.low_s, disturbed.upper_bound) == (0.0, True)
    assert disturbed.high_s == alone.high_s


def python_advice(kind="generator", cores=2, gil_wait_s=0.0, busy=0.6, of_stage=None, **source):
    """What is advised where Python code is the bottleneck."""
    name = source.pop("name", "Photos.__getitem__")
    of_stage = {"cost_per_batch_s": 0.02, **(of_stage or {})}
    stage = StageRecord(name, kind, "python", "train.py:9", **of_stage)
    record = stall(
        0.5,
        python=PythonSourceRecord(name, "train.py:9", **source),
        pipeline=PipelineRecord((stage,), stage),
        contention=ContentionRecord(gil_wait_s, busy),
    )
    return finding("input-bound", run((), {"cpu_count": cores}, input=record)).advice


@pytest.mark.parametrize(("cores", "workers"), [(2, 2), (8, 4), (None, 4)])
def test_where_the_gil_is_the_cause_processes_are_advised_and_no_threads(cores, workers):
    def found(gil_wait_s=0.001, **source):
        return python_advice(cores=cores, gil_wait_s=gil_wait_s, **source)

    first, second, *_ = found()
    assert "holds the GIL" in first
    assert "the whole batch with NumPy or TensorFlow operations" in first
    assert second == f"Photos(workers={workers}, use_multiprocessing=True)"
    assert found(workers=2)[1] == "Photos(workers=2, use_multiprocessing=True)"
    assert found(0.0)[0].startswith("Photos(workers=4)")
    assert not any("multiprocessing" in line for line in found(0.0, workers=4))
    first, second = found(name="rows")
    assert "have rows make the whole batch" in first
    assert second.endswith(f"PyDataset with workers={workers}, use_multiprocessing=True")


def test_no_more_processes_are_advised_than_there_are_cores():
    def found(cores, **source):
        return python_advice(cores=cores, gil_wait_s=0.001, **source)

    assert not any("multiprocessing" in line for line in found(1))
    assert found(6, workers=4, in_processes=True)[0].startswith("Photos(workers=6)")
    quick, *rest = found(4, workers=4, in_processes=True)
    assert quick.startswith("Photos(workers=1, use_multiprocessing=False), if a batch is quick")
    assert not any("workers=" in line for line in rest)


def test_a_torch_loader_is_advised_in_its_own_terms():
    def found(cores=8, **source):
        return python_advice(cores=cores, library="torch", **source)

    first, whole = found()
    assert "DataLoader(..., num_workers=4, persistent_workers=True)" in first
    assert whole.startswith("give Photos a __getitems__(indices)")
    workers, lasting, _ = found(workers=4, in_processes=True, restarts_workers=True)
    assert "num_workers=8)" in workers
    assert "DataLoader(..., persistent_workers=True)" in lasting
    assert found(4, workers=4, in_processes=True) == (whole,)
    # Also where epochs start slowly.
    source = PythonSourceRecord("Photos.__getitem__", library="torch", in_processes=True)
    restarted = starting(python=replace(source, restarts_workers=True)).advice
    assert "persistent_workers=True" in restarted[0]
    assert starting(python=source).advice == restarted[1:]


def test_a_grain_dataset_is_advised_by_what_runs_the_slow_stage():
    def found(kind, library="Grain", parallelism=1, **more):
        of_stage = {"cost_per_batch_s": 0.1, "parallelism": parallelism}
        return python_advice(kind, library=library, name="augment", of_stage=of_stage, **more)

    assert "num_threads=32" in found("MapDataset.map", parallelism=16, busy=0.05)[0]
    assert not any("num_threads" in line for line in found("MapDataset.map", busy=0.95))
    enough = found("MapDataset.map", parallelism=32, busy=0.05)
    assert not any("num_threads" in line for line in enough)
    first, _ = found("MapDataset.map", gil_wait_s=0.001)
    assert first.startswith("ds.to_iter_dataset().mp_prefetch(")
    assert "num_workers=2" in first
    assert found("IterDataset.map")[0].startswith("put augment before .to_iter_dataset()")
    loader = found("IterDataset.map", "Grain DataLoader")
    assert loader[0].startswith("grain.DataLoader(..., worker_count=")
    in_processes = found("generator", workers=2, in_processes=True)
    assert not any("num_threads" in line or "ds.to_iter" in line for line in in_processes)


def test_code_that_holds_the_gil_is_named_though_steps_hardly_wait():
    first, second = finding("gil-contention", holds_gil()).advice
    assert "have rows make the whole batch" in first
    assert "use_multiprocessing=True" in second
    shared = finding("gil-contention", rows_in_threads(0.9))
    assert shared.title == (
        "Rows.__getitem__ (train.py:12) slows training down: its 4 threads share the GIL"
    )
    batch = row("time_per_batch_of", pytest.approx(9.0), "ms", of="Rows.__getitem__")
    assert batch in evidence(shared)
    line = LineTime(
        "train.py:14",
        "Rows.__getitem__",
        None,
        "np.random.choice(ids)",
        8.0,
        "python",
        "Rows.__getitem__",
        "train.py:12",
    )
    sampled = replace(rows_in_threads(0.9), stacks=StackTimes(400, 60.0, (line,)))
    named = finding("gil-contention", sampled)
    assert named.title == (f"{shared.title}, 100 % of it in train.py:14: np.random.choice(ids)")
    assert "with size=" in named.advice[0]
    assert bounds(shared) == pytest.approx((0.6, 0.6 + 0.8 * 5))
    short = finding("gil-contention", rows_in_threads(0.9, batch_s=0.005))
    assert bounds(short)[1] == pytest.approx(0.6 + 600 * 0.005)  # its own time at most
    assert finding("input-bound", rows_in_threads(0.9)).severity == "info"
    assert finding("gil-contention", rows_in_threads(0.9, batch_s=0.04)) is not None
    assert finding("gil-contention", rows_in_threads(0.1, batch_s=0.04)) is None  # they wait


def test_a_slow_epoch_start_is_advised_on_what_takes_it():
    shuffled, waits = starts(0.0, SHUFFLES), starts(0.0, PipelineStartRecord(4, mean_s=5.0))
    restarts = PipelineStartRecord(4, mean_s=0.1)
    remark, repeat, worst = (
        finding("slow-epoch-start", starts(seconds, restarts)) for seconds in (20.0, 25.0, 70.0)
    )
    assert "shuffle buffer" in finding("slow-epoch-start", shuffled).advice[0]
    opened = finding("slow-epoch-start", waits)
    assert opened.advice[0].startswith("do once, before fit")
    assert not any("shuffle" in line for line in opened.advice)
    assert (opened.saving.low_s, opened.saving.of_s) == (20.0, 100.0)
    # Without a wait, it is a remark under a quarter of the time.
    assert [line[:11] for line in repeat.advice] == ["ds.repeat()"]
    assert (remark.severity, worst.severity) == ("info", "critical")
    assert remark.title == "Each epoch takes 4.0 s to start"


def test_cores_that_are_taken_for_little_or_by_others_are_no_warning():
    # The same steps as of the warning, within a run that takes ten thousand times as long.
    summary = takes_cores()
    longer = replace(summary, throughput=replace(summary.throughput, wall_s=1e5))
    result = finding("cpu-contention", longer)
    assert (result.severity, result.saving) == ("info", None)
    # Threads that take more than all stages of the pipeline do other work.
    cheap = PipelineRecord((StageRecord("gen", "generator", "python", cost_per_batch_s=0.0005),))
    summary = replace(summary, input=replace(summary.input, pipeline=cheap))
    assert finding("cpu-contention", summary) is None


def starting(start=None, **parts):
    """What a run is advised whose epochs take long to start; its input has such parts."""
    summary = spent(epoch_start_s=25.0, start=start or PipelineStartRecord(4, mean_s=5.0))
    return finding("slow-epoch-start", replace(summary, input=replace(summary.input, **parts)))


def test_epochs_that_start_slowly_are_advised_on_what_fit_was_given():
    assert all(name.startswith(ARRAYS) for name in KERAS_OWN.values())
    stage = StageRecord(KERAS_OWN["grab_batch"], "map", "mapping")
    arrays = starting(pipeline=PipelineRecord((stage,)))
    assert "instead of arrays" in arrays.advice[1]
    dataset = starting(python=PythonSourceRecord("Photographs.__getitem__", workers=2))
    assert "Photographs.__init__" in dataset.advice[0]
    assert not any("ds." in line for line in dataset.advice)


@pytest.mark.parametrize(
    ("epochs", "longest_s", "title"),
    [
        (8, (16.0, 0.7), "One of 8 epoch starts took 16 s"),
        (8, (9.0, 8.0, 0.6), "2 of 8 epoch starts were slow, the longest took 9.0 s"),
        (8, (15.2, 0.6), "Each epoch takes 2.8 s to start"),
        (2, (19.0, 1.0), "One of two epoch starts took 19 s"),
        (1, (20.0,), "Each epoch takes 20 s to start"),
        (3, (5.8, 0.1, 0.1), "Each epoch takes 6.7 s to start"),
        (8, (), "Each epoch takes 2.8 s to start"),
    ],
)
def test_a_few_epochs_that_start_slowly_are_not_called_each(epochs, longest_s, title):
    found = starting(PipelineStartRecord(epochs, 20.0 / epochs, longest_s=longest_s))
    assert found.title == title
    assert any("Other epochs" in line for line in found.advice) is (" epoch starts " in title)


def test_tiny_steps_advise_only_what_the_saving_holds_for():
    (advice,) = finding("tiny-steps", tiny(callbacks_s=4.0)).advice
    assert advice.startswith("compile(steps_per_execution=16)")
    assert "once per sixteen steps" in advice
    for validation_s, severity in ((50.0, "warning"), (92.0, "info")):
        parts = {"validation_s": validation_s, "callbacks_s": 1.0}
        assert finding("tiny-steps", tiny(**parts)).severity == severity


def test_tiny_steps_promise_no_time_in_which_callbacks_were_seen():
    def saving(**parts):
        return finding("tiny-steps", tiny(10.0, 8000, callbacks_s=4.0, **parts)).saving

    with_callback = saving(by_callback={"History": 2.0, "Monitor": 1.2})
    assert with_callback.low_s == pytest.approx(0.8 * 15 / 16)
    assert with_callback.high_s == pytest.approx((0.8 + 6.0) * 15 / 16)
    assert not with_callback.upper_bound
    # A longer execution takes longer to trace, up to as long again.
    assert saving(first_step_s=0.5).low_s == pytest.approx(1.375)
    assert saving(first_step_s=3.0).low_s == 0.0
    # Of time in which no callback was seen, at least what Keras' own loop takes.
    unseen = saving()
    assert unseen.low_s == pytest.approx(8000 * 0.25e-3 * 15 / 16)
    assert unseen.high_s == pytest.approx(10.0 * 15 / 16)
    assert unseen.upper_bound


def validated(validation_s, wait_s, start=None):
    """A run of 100 s with a validation of 1,000 steps, each of which waits a while."""
    waited = InputRecord("validation", wait_s=wait_s, pipeline_start=start)
    steps = throughput(validation_s / 1000)
    return replace(spent(validation_s=validation_s), validation=steps, validation_input=waited)


def test_a_validation_that_waits_for_input_is_advised_to_wait_less():
    waits, computes = (
        finding("long-validation", validated(80.0, wait_s)) for wait_s in (0.075, 0.01)
    )
    assert row("of_it_waiting_for_input", 75.0, "s") in evidence(waits)
    assert "validation_data faster" in waits.advice[0]
    assert "validation_freq" in computes.advice[0]
    assert (waits.severity, computes.severity) == ("critical", "warning")
    # A short one is found with the wait for its first batches.
    assert finding("long-validation", validated(21.0, 0.001)) is None
    waits = finding("long-validation", validated(21.0, 0.016, PipelineStartRecord(4, mean_s=1.0)))
    assert waits.title == "Validation takes 21 % of the time, 95 % of it waiting for data"
    assert (waits.severity, *bounds(waits)) == ("critical", 20.0, 21.0)
    assert row("steps_of_validation", 1000) in evidence(waits)


def test_a_validation_that_goes_over_its_data_again_and_again_is_named():
    summary = validated(72.0, 0.0)
    repeats = replace(summary, validation=replace(summary.validation, passes=32.0))
    found = finding("long-validation", repeats)
    assert found.title == ("Validation takes 72 % of the time: it goes 32 times over the same data")
    assert found.advice[0].startswith("validation_steps counts batches")
    assert bounds(found) == pytest.approx((72.0 * 31 / 32, 72.0))
    once = replace(summary, validation=replace(summary.validation, passes=1.4))
    assert finding("long-validation", once).title == "Validation takes 72 % of the time"


MACHINE = "The machine was busy: other processes used "


def context(summary, **busy):
    return judge(replace(summary, utilization=host(98.0, **busy))).context


def with_settings(summary, **settings):
    return replace(summary, environment=replace(summary.environment, **settings))


def test_other_processes_are_context_and_never_the_verdict():
    others = (ProcessUse("blender", 12, 40.0), ProcessUse("make", 7, 8.0), ProcessUse("sh", 9, 2.0))
    alone = replace(spent(callbacks_s=20.0, first_step_s=5.0), utilization=host(45.0, own=45.0))
    busy = judge(replace(alone, utilization=host(98.0, own=45.0, others=others)))
    assert busy.findings == judge(alone).findings
    # The 80 s that depend on cores took 45 s of processor time on all of them.
    assert busy.context == (
        f"{MACHINE}53 % of the cores (blender, pid 12: 40 %; make, pid 7: 8 %); "
        "times may be up to 1.8× what they would be alone."
    )


@pytest.mark.parametrize(
    ("summary", "busy", "words"),
    [
        (spent(first_step_s=80.0), {"own": 50.0}, "up to 2× what"),
        (spent(input_s=60.0), {"own": 50.0}, "up to 2× what"),
        (validated(80.0, 0.075), {"own": 15.0}, "up to 1.7× what"),  # 25 s of 100 s did not wait
        (on_gpu(input=QUICK), {"own": 30.0}, "longer than"),
        # More cores do not make a first step faster whose one core was busy.
        (with_settings(spent(first_step_s=80.0), cpu_count=2), {"own": 50.0}, "up to 1.1× what"),
        # The time alone leaves the job's workers their cores.
        (spent(first_step_s=5.0), {"own": 30.0, "job_cpu_percent": 30.0}, "up to 1.7× what"),
    ],
)
def test_how_much_longer_times_are_is_told_of_those_that_depend_on_cores(summary, busy, words):
    assert f"times may be {words} they would be alone." in context(summary, **busy)


def test_a_load_that_hardly_delays_the_run_is_not_told():
    # All of the run's time went to a callback: other processes took nothing from its steps.
    assert context(spent(callbacks_s=90.0), own=25.0) is None
    assert context(spent(), own=75.0) is None
    assert judge(replace(spent(), utilization=host(69.9, own=20.0))).context is None
    # What the job's workers use is not that of others.
    busy = context(spent(first_step_s=5.0), own=30.0, job_cpu_percent=30.0)
    assert busy.startswith(f"{MACHINE}38 % of the cores")
    # Nor where no step ran.
    ended = judge(replace(spent(steps=0), utilization=host(98.0, own=5.0)))
    assert (ended.not_applicable["host-cpu-saturated"], ended.context) == ("no step ended", None)


@pytest.mark.parametrize(("input", "severity"), [(QUICK, "info"), (stall(0.5), "warning")])
def test_a_jobs_other_workers_are_not_called_other_processes(input, severity):
    summary = run(input=input, utilization=host(98.0, own=47.0, job_cpu_percent=48.0))
    found = finding("host-cpu-saturated", summary)
    assert found.severity == severity
    assert found.title == "The job's workers share the cores of this host"
    assert row("other_processes_of_the_job", 48.0, "%") in evidence(found)
    assert "fewer workers on this host" in found.advice[0]
    assert "--cpus-per-worker" in found.advice[0]
    assert not any("Stop" in line for line in found.advice)
    # As of a run that is not over: its lines have only what all use, and what this process does.
    for count, is_named in ((1, True), (2, False), (None, False)):
        unknown = on_gpu({"worker": Worker("worker", 0, count)}, input=QUICK)
        assert (context(unknown, own=47.0) is not None) == is_named


def test_a_first_step_names_what_is_traced_for_most_of_it():
    def found(traced_s=0.0, **settings):
        known = {"part": "step", "entry": "Hours.call", "entry_place": "a.py:28"}
        line = LineTime("a.py:31", "Cell.call", None, "", traced_s / 2, **known)
        stacks = StackTimes(400, 60.0, (line, replace(line, place="a.py:32")))
        first = with_settings(spent(first_step_s=51.0), settings=settings)
        return finding("low-compute-share", replace(first, stacks=stacks))

    copies = found(TimeDistributed="TimeDistributed (a.py:3) puts 240 copies into the graph")
    assert copies.title == (
        "TimeDistributed (a.py:3) puts 240 copies into the graph: the first step, which traces "
        "them, took 51 of 100 s"
    )
    assert "leave the wrapper out" in copies.advice[0]
    assert found(40.0).title == (
        "The first step took 51 of 100 s, 40 s of it to trace Hours.call (a.py:28)"
    )
    assert "loops in Python" in found(40.0).advice[0]
    assert found(16.0).title.endswith("the largest part is the first step")


def slow_callbacks(settings=None, callbacks_s=20.0, **by_callback):
    summary = spent(callbacks_s=callbacks_s, by_callback=by_callback)
    return finding("slow-callbacks", with_settings(summary, settings=settings or {}))


def test_the_callback_that_takes_most_is_named_with_its_own_advice():
    saves = slow_callbacks(ModelCheckpoint=18.0, Monitor=0.1)
    assert saves.title == "ModelCheckpoint takes 18 of 100 s"
    assert row("time_in", 18.0, "s", of="ModelCheckpoint") in evidence(saves)
    [advice] = saves.advice
    assert "save less often" in advice
    batches = slow_callbacks({"ModelCheckpoint.save_freq": "save_freq=1"}, ModelCheckpoint=18.0)
    assert batches.title == "ModelCheckpoint(save_freq=1) takes 18 of 100 s"
    assert "save_freq=1 counts batches" in batches.advice[0]
    assert slow_callbacks(Plotter=15.0).advice[0].startswith("Plotter: do its work less often")
    assert slow_callbacks(Plotter=9.0, Logger=8.0).title == "Callbacks slow training down"
    # Our own work is named if it takes long, and not advised on otherwise.
    ours = slow_callbacks(keras_gpukit=18.0, Monitor=0.1)
    assert ours.title == "keras_gpukit takes 18 of 100 s"
    assert "Monitor" in ours.advice[0]
    assert slow_callbacks(keras_gpukit=0.1, Monitor=0.1) is None
    others = slow_callbacks(keras_gpukit=0.1, Plotter=9.0)
    assert not any("Monitor" in line for line in others.advice)


def test_callbacks_are_promised_no_more_than_the_time_of_those_that_are_advised_on():
    named, unnamed, nearly_all = (
        slow_callbacks(callbacks_s=30.25, Plotter=each) for each in (16.0, 9.0, 30.2)
    )
    assert bounds(named) == (16.0, 30.25)
    assert unnamed.saving.low_s == 30.0
    # No callback takes longer than all of them.
    assert nearly_all.saving.low_s == 30.0
    assert row("time_in", 30.0, "s", of="Plotter") in evidence(nearly_all)
    # All callbacks together make it critical.
    assert named.severity == unnamed.severity == "critical"
    share, seconds, *_ = named.evidence
    assert (share.value, seconds.value) == (30.0, 30.0)


def test_a_long_first_step_comes_before_what_slows_the_little_that_follows():
    """As on an H100, where XLA compiled for 40 s and 1200 steps then took 2.2 s."""
    summary = on_gpu(
        {"steps_per_execution": 1, "jit_compile": True},
        input=replace(QUICK, breakdown=breakdown(44.0, first_step_s=40.0, callbacks_s=1.8)),
        throughput=throughput(0.0018, 1200),
        utilization=busy(4.0),
    )
    first, *others = judge(summary).findings
    assert first.title.endswith("go to compute: the largest part is the first step")
    assert first.severity == "warning"
    assert any("jit_compile=False" in line for line in first.advice)
    assert [each.code for each in others] == ["low-utilization", "tiny-steps"]
    assert not any("jit_compile=True" in line for line in others[0].advice)
    # A GPU that idled while the first step was compiled did not idle in the steps.
    assert "low-utilization" in judge(replace(summary, utilization=busy(6.0))).passed


def test_what_is_critical_comes_first_then_the_largest_part_and_remarks_last():
    summary = run(
        *((V100,), {**FLOAT32, **SINGLE}),
        input=stall(0.9, wait_s=0.0009),
        throughput=throughput(0.001),
        operations=PRODUCTS,
        utilization=throttled({POWER: 0.9}).utilization,
    )
    assert codes(summary) == ["input-bound", "tiny-steps", "float32-on-tensor-cores", "throttled"]
    speed = {"input": stall(0.25, wait_s=0.0025), "throughput": throughput()}
    waits, computes = judge(replace(in_full_precision(V100), **speed)).findings[:2]
    assert (waits.code, waits.severity) == ("input-bound", "critical")
    assert (computes.code, computes.severity) == ("float32-on-tensor-cores", "warning")
    assert computes.saving.expected_s > waits.saving.expected_s


def test_idle_gpus_are_told_what_was_left_out():
    settings = {"steps_per_execution": 1, "replicas": 1}
    summary = run((A100, A100), settings, input=QUICK, utilization=gpu(utilization_percent=20.0))
    found = finding("low-utilization", summary)
    assert "strategy='mirrored'" in found.advice[0]
    assert any("steps_per_execution" in line for line in found.advice)
    # A profile explains it otherwise.
    captured = replace(launching(0.1), utilization=gpu(utilization_percent=13.0))
    advice = finding("low-utilization", captured).advice
    assert not any("launches" in line or "jit_compile" in line for line in advice)
    # What tensor cores and multiprocessors did is evidence where the card reads it.
    used = gpu(utilization_percent=96.0, tensor_active_percent=4.0, sm_active_percent=61.0)
    slow = replace(in_full_precision(tf32=False), input=QUICK, utilization=used)
    precision = finding("float32-on-tensor-cores", slow)
    assert row("tensor_cores_of", 4.0, "%", "GPU:0") in evidence(precision)
    idle = hot(gpu(utilization_percent=20.0, sm_active_percent=9.0))
    multiprocessors = row("multiprocessors_of", 9.0, "%", "GPU:0")
    assert multiprocessors in evidence(finding("low-utilization", idle))


def test_a_launch_bound_run_is_told_one_cause_and_the_largest_gain_first():
    settings = {**FLOAT32, **SINGLE, "tf32": False, "jit_compile": False}
    idle = {"memory": memory(1), "utilization": gpu(utilization_percent=13.0)}
    [found] = judge(replace(launching(**settings), operations=PRODUCTS, **idle)).findings
    assert found.code == "launch-bound"
    words = [re.split(r"[(= ]", line)[1] for line in found.advice[:3]]
    assert words == ["jit_compile", "steps_per_execution", "larger"]
    # Of 100 s, the GPU waited for launches in 3.3 of 4.3 ms. XLA may remove nearly all of a step.
    assert bounds(found) == pytest.approx((50 * 3.3 / 4.3, 95))
    # No setting is advised that a run has.
    has = replace(launching(jit_compile=True, steps_per_execution=16), memory=memory(60 * GIB))
    assert [line[:17] for line in finding("launch-bound", has).advice] == ["In your own code,"]


def test_only_products_gain_from_tensor_cores_by_their_full_ratio():
    kinds = {"matmul": 2.0, "elementwise": 2.0}
    captured = launching(0.0, 4.0, 5.0, kinds, **FLOAT32, tf32=False)
    # Of 100 s, products take 40 and become 16× faster, others take 40 and half of it.
    high_s = bounds(finding("float32-on-tensor-cores", captured))[1]
    assert high_s == pytest.approx(40 * 15 / 16 + 20)
    assert "may be" in finding("float32-on-tensor-cores", in_full_precision(tf32=False)).title


@pytest.mark.parametrize(
    ("first_step", "doing", "advice"),
    [
        ({}, "likely traced and compiled by XLA (jit_compile is on), as 1.0 cores", 3),
        ({"jit_compile": False}, "likely traced, or its batch is made, as 1.0 cores", 2),
        ({"cores": 0.1}, "likely waits for its batch, as the process is idle", 1),
        ({"cores": 0.3}, "is traced or compiled, or waits for its batch", 4),
        ({"gpu_percent": 6.0}, "is traced or compiled, or waits for its batch", 4),
    ],
)
def test_a_first_step_says_what_it_does_only_as_far_as_it_shows(first_step, doing, advice):
    found = finding("first-step-not-over", in_first_step(54.0, **first_step))
    assert found.title.startswith("No step has ended after 54 s: the first one ")
    assert doing in found.title
    assert len(found.advice) == advice


SHAPES = ("(None, None, 8)", "(None, None)"), ("(None, None, None, 3)",)


@pytest.mark.parametrize(
    ("open_shapes", "times", "title", "advice"),
    [
        (SHAPES[0], 20, f"for 20 new batch shapes {SHAPES[0][0]}", "padded_shapes=((longest, 8), "),
        (SHAPES[1], 2, f"for 2 new batch shapes {SHAPES[1][0]}", "resize"),
        ((), 1, "once for batches of another size", "drop_remainder=True"),
        (None, 3, "3 times", "the same shape"),
    ],
)
def test_steps_compiled_for_new_shapes_say_which_and_what_to_do(open_shapes, times, title, advice):
    found = finding("retracing", compiled_again(open_shapes=open_shapes, times=times))
    assert found.title == f"XLA compiled the step again {title}: 40 s of 100 s"
    assert len(found.title) <= 100
    assert advice in found.advice[0]
    assert "jit_compile=False" in found.advice[-1]
    # Padded batches may take up to twice the 5 s that the steps computed.
    assert bounds(found) == (35.0, 40.0)


def test_frozen_layers_promise_their_time_after_the_first_epoch():
    known = finding("frozen-features", frozen(0.9, epochs=4, validation_s=10.0))
    again = 0.75 * known.evidence[0].value / 100
    assert bounds(known) == pytest.approx((0.8 * again * 80.0, again * 90.0))
    unknown = finding("frozen-features", frozen(0.9, gets_arrays=False, epochs=4))
    assert bounds(unknown) == pytest.approx((0.0, again * 80.0))
    assert "if nothing in the pipeline is random" in unknown.advice[0]


def test_shapes_of_a_pydataset_are_padded_where_it_makes_them():
    again = compiled_again(open_shapes=("(None, None)",))
    source = PythonSourceRecord("Texts.__getitem__", "train.py:51")
    found = finding("retracing", replace(again, input=replace(again.input, python=source)))
    assert found.advice[0].startswith("Pad axis 1 in Texts.__getitem__ (train.py:51) to few")


@pytest.mark.parametrize(
    ("cause", "argument", "why", "advice"),
    [
        ("Python value", "step", "for new values of step", "tf.constant(step)"),
        ("shape", "x", "for new shapes of x", "reduce_retracing=True"),
        ("made again", None, "as it is made again", "outside the loop"),
        (None, None, "again", "the same shape"),
    ],
)
def test_a_function_traced_again_is_named_with_its_cause(cause, argument, why, advice):
    found = finding("retracing", retraced(cause, argument))
    assert found.title == f"mix (train.py:12) was traced 10 times {why}: 27 s of 100 s"
    assert advice in found.advice[0]
    assert bounds(found) == (27.0, None)
    # A step traced for a smaller last batch is no function that is made again.
    of_step = finding("retracing", spent(tracing_s=40.0, tracings=2, tracings_of_shapes=2))
    said = "The step was traced again 2 times for batches of another size: "
    assert of_step.title.startswith(said)
    assert "drop_remainder=True" in of_step.advice[0]


def test_a_hang_names_what_it_waited_for_and_is_no_compute():
    known = with_hangs(replace(spent(input_s=5.0, mechanism="pipeline model"), hangs=(LOADS,)))
    found = finding("hang", known)
    assert found.title == "No step ended for 30 s: waiting for input, load (train.py:31)"
    assert found.advice[0].startswith("See what load (train.py:31) waits for")
    assert bounds(found) == (28.0, 30.0)
    parts = known.breakdown
    assert (parts.input_s, parts.hangs_s, parts.compute_s) == (5.0, 30.0, 65.0)
    assert with_hangs(known) == known  # also of a run that is judged again
    measured = replace(spent(input_s=35.0), hangs=(LOADS,))  # by a meter that sees a long wait
    assert with_hangs(measured).breakdown == measured.breakdown
    longer = replace(LOADS, step=70, lasted_s=40.0)
    evidence = finding("hang", with_hangs(replace(spent(), hangs=(LOADS, longer)))).evidence
    assert [each.value for each in evidence] == [2, 40.0, 70]


def test_codes_are_unique_and_those_of_rules_that_exist():
    codes = {rule.code for rule in RULES}
    assert len(codes) == len(RULES)
    named = {each.partition(": ")[0] for rule in RULES for each in rule.supersedes}
    named |= {code for rule in RULES for code in rule.same_cause.values()}
    assert named <= codes


def test_no_rule_is_written_and_never_asked():
    for module in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        importlib.import_module(module.name)
    written = {Rule}
    while further := {each for rule in written for each in rule.__subclasses__()} - written:
        written |= further
    asked = {type(rule) for rule in RULES}
    ours = (each for each in written if each.__module__.startswith(rules.__name__))
    assert {each for each in ours if not inspect.isabstract(each)} == asked


ELSEWHERE = (
    # test_worker_rules.py
    "straggler communication-bound uneven-shards batch-not-scaled workers-not-connected "
    # test_out_of_memory.py, test_not_learning.py
    "out-of-memory host-out-of-memory ended-by-error killed "
    "loss-not-finite not-learning data-ran-out "
    # memory/, whole_run/ and setup/test_slow_settings.py
    "host-memory-runs-out memory-grows first-step-memory many-short-calls own-profile "
    "outside-calls eager-step long-evaluation slow-settings preprocessing-in-model"
)


def test_every_rule_is_exercised_by_the_tables():
    here = {rule.code for rule in RULES} - set(ELSEWHERE.split())
    assert {row[0].split()[0] for row in FIRES} == here - {"no-gpu"}
    assert {row[0] for row in QUIET} == here
    assert {row[0] for row in ABSTAINS} == here - {"no-gpu"}


def test_a_stall_of_the_first_epoch_alone_is_named_so():
    first, all_along = (
        finding("input-bound", run(input=stall(0.5, later_stall_fraction=later)))
        for later in (0.01, 0.5)
    )
    assert (first.severity, all_along.severity) == ("warning", "critical")
    assert first.title.startswith("Steps of the first epoch wait for data")
    assert not any("cache()" in line for line in first.advice)
    slow = StageRecord("blur", "map", "mapping", cost_per_batch_s=0.02)
    stages = (StageRecord("cache", "cache", "caching"), slow)
    filling = stall(0.5, later_stall_fraction=0.01, pipeline=PipelineRecord(stages, slow))
    advice = finding("input-bound", run(input=filling)).advice
    assert advice[0].startswith("the first epoch fills the cache")
    assert not any("cache()" in line for line in advice)
    assert by_name(first)["after the first epoch"] == 1.0
    assert "of the steps' time is spent waiting" in all_along.title


def fallen_back(placement):
    return finding("cpu-fallback", run((A100,), operations=placement))


def test_operations_on_the_cpu_are_told_with_their_bytes():
    wrong = Fallback("MatMul", 9, "no such device", "the script asks for GPU:1.", ("dense/MatMul",))
    result = fallen_back(PlacementRecord({"CPU:0": {}}, (wrong,)))
    assert result.severity == "critical"
    assert result.advice == ("MatMul in dense/MatMul: the script asks for GPU:1.",)
    # Python functions have the bytes that they take and return.
    python = Fallback("EagerPyFunc", 2, "host function", "It calls Python.", ("augment",), 4096)
    placement = PlacementRecord({"GPU:0": {"EagerPyFunc": 2, "MatMul": 9}}, (python,))
    result = fallen_back(placement)
    assert result.title == "Python functions in the step run on the host"
    assert evidence(result) == [
        row("operations_of", 2, of="EagerPyFunc"),
        row("data_of", 4096, "B", of="EagerPyFunc"),
    ]
    both = replace(placement, fallbacks=(python, *placed("no kernel").fallbacks))
    assert fallen_back(both).title == "Operations fell back to the CPU"
    # Bytes copied are evidence where all are known.
    copies = DeviceCopies("GPU:0", "CPU:0", 2, 4096)
    placement = replace(placed("no kernel"), copies=(copies,))
    assert row("bytes_copied_per_step", 4096, "B") in evidence(fallen_back(placement))
    unknown = fallen_back(replace(placement, copies=(copies, replace(copies, unknown=1))))
    assert [*by_name(unknown)][-1] == "copies between devices per step"
