"""Work in the model that belongs elsewhere: on the CPU, in Python, in copies, in the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from keras_gpukit.layer_names import LayerNames
from keras_gpukit.records.finding import Figure
from keras_gpukit.records.pipeline import ARRAYS
from keras_gpukit.records.placement import Fallback, PlacementRecord, PythonFunction, PythonRole
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.compute.profile_shares import ProfileRule, computed_s, own_step_s
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.rule import NO_GPU, Measure, Outcome, Rule, Share, host_readings
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, of_run, severity
from keras_gpukit.rules.whole_run.time_parts import NOTABLE_FRACTION, TimeRule

# Not "host memory": TensorFlow keeps shapes and loop counters there for speed.
# Not "requested" and not "variable elsewhere": an operation that the user placed has not fallen
# back.
BLAMED_CAUSES = ("no such device", "no kernel", "dtype", "host function")
MOST_NAMED = 3
PYTHON = "host function"
"""Cause of Python functions of the step to be on the CPU."""


class CPUFallback(Rule):
    """Operations of the training step that TensorFlow placed on the CPU although there is a GPU."""

    code = "cpu-fallback"
    title = "Operations fell back to the CPU"
    requires = "the placement of the training step's operations"
    charts = ("placement",)
    operations_on_the_CPU = Measure("{value} operations run on the CPU")
    operations_of = Measure("{value} {of} operations are affected")
    data_of = Measure("{of} takes and returns {value}", "B")
    copies_between_devices_per_step = Measure("Each step copies {value} times between devices")
    bytes_copied_per_step = Measure(", {value} in all", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        record = summary.operations
        if record is None or not record.operations:
            return self.abstain(record.unknown_because if record else None)
        if summary.environment.gpus and not any("GPU" in device for device in record.operations):
            wrong = [
                fallback for fallback in record.fallbacks if fallback.cause == "no such device"
            ]
            advice = tuple(dict.fromkeys(_advise(fallback) for fallback in wrong))[:MOST_NAMED]
            return self.find(
                "critical",
                self.operations_on_the_CPU(sum(record.by_device.values())),
                advice=advice or ("Build and compile the model outside `tf.device('/CPU:0')`",),
                title="No operation of the training step ran on a GPU",
            )
        if not summary.environment.gpus and not record.predicted:
            return self.abstain(NO_GPU)
        blamed = [fallback for fallback in record.fallbacks if fallback.cause in BLAMED_CAUSES]
        if not blamed:
            return None
        about = PYTHON if all(fallback.cause == PYTHON for fallback in blamed) else ""
        return self.find(
            "info" if record.predicted else "warning",
            *_evidence(record, blamed),
            advice=tuple(_advise(fallback) for fallback in blamed[:MOST_NAMED]),
            title=_title(record, about),
            about=about,
        )


def _title(record: PlacementRecord, about: str) -> str | None:
    if about == PYTHON:
        where = " on a GPU machine, too" if record.predicted else ""
        return f"Python functions in the step run on the host{where}"
    return "Operations would fall back to the CPU on a GPU machine" if record.predicted else None


def _evidence(record: PlacementRecord, blamed: list[Fallback]) -> Iterator[Figure]:
    for fallback in blamed[:MOST_NAMED]:
        yield CPUFallback.operations_of(fallback.count, fallback.operation)
        if fallback.python_bytes:
            yield CPUFallback.data_of(fallback.python_bytes, fallback.operation)
    if not record.predicted and record.transfers is not None:
        yield CPUFallback.copies_between_devices_per_step(record.transfers)
        if record.copied_bytes:
            yield CPUFallback.bytes_copied_per_step(record.copied_bytes)


def _advise(fallback: Fallback) -> str:
    where = f" in {fallback.names[0]}" if fallback.names else ""
    return f"{fallback.operation}{where}: {fallback.reason}"


HALF_THE_BYTES = 0.5


class PythonInStep(Rule):
    """`tf.py_function` and `tf.numpy_function` in the model: the GPU waits for the host."""

    code = "python-in-step"
    title = "Python functions take much of each step"
    requires = "a profile of the steps"
    charts = ("captures", "layers")
    supersedes = (
        "low-utilization",
        "dominant-layer",
        "compute-outside-layers",
        "host-to-device-copy",
        "cpu-fallback: host function",
    )
    of_a_step_in_Python_functions = Share("Python functions take {value} of a step")

    def judge(self, summary: RunSummary) -> Outcome:
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or profile.python_s is None:
            return self.abstain()
        share = min(profile.python_s / own_s, 1.0)
        if share < WARNING_FRACTION:
            return None
        most = share
        if profile.devices:  # their inputs and results are copied, and launches begin again
            most = max(share, 1 - profile.parts_s.get("device compute", 0.0) / own_s)
        saving = of_compute(summary, most, low=share, basis="Python functions in a profile")
        called = summary.operations.python if summary.operations else ()
        waits = ", and the GPU waits" if profile.devices else ""
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_Python_functions(share),
            advice=_advice({function.role for function in called}),
            saving=saving,
            title=f"{_subject(called)} {100 * share:.0f} % of each step{waits}",
        )


class BatchCopy(ProfileRule):
    """Copies from the host during which no GPU computes; their time follows from the bytes."""

    code = "host-to-device-copy"
    title = "Copies to the GPU take much of each step"
    of_a_step_in_copies = Share("While copies to the GPU run, it idles for {value} of a step")
    copied_to_the_GPU_per_step = Measure("A step copies {value}", "B")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        share = min(profile.parts_s.get("host to device", 0.0) / own_s, 1.0)
        if share < WARNING_FRACTION:
            return None
        sizes = [device.host_to_device_bytes for device in profile.devices]
        copied = sum(size / profile.steps for size in sizes if size is not None)
        saving = of_compute(
            summary, share, low=HALF_THE_BYTES * share, basis="copies to the GPU in a profile"
        )
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_copies(share),
            *([self.copied_to_the_GPU_per_step(copied)] if copied else ()),
            advice=(
                "Smaller numbers: `uint8` images have a quarter of the bytes of `float32`, and "
                "`keras.layers.Rescaling(1 / 255)` in the model converts them on the GPU",
                "Leave out what the model does not use, and enlarge or pad on the GPU",
            ),
            saving=saving,
            title=f"Copies to the GPU take {100 * share:.0f} % of each step",
        )


def _subject(called: Sequence[PythonFunction]) -> str:
    """Returns what takes the time: a function with its place and its role, if there is one."""
    if len(called) != 1:
        names = ", ".join(f"{function.name} ({function.place})" for function in called[:MOST_NAMED])
        return f"Python functions take{names and f', as {names},'}"
    (only,) = called
    role = "" if only.role == "step" else f" as the {only.role} {only.part or ''}".rstrip()
    return f"{only.name} ({only.place}) runs Python within the step{role}: it takes"


def _advice(roles: set[PythonRole]) -> tuple[str, ...]:
    """Returns what to change; what a metric needs once per epoch is no work of each step."""
    in_operations = "rite it with TensorFlow operations"
    if roles == {"metric"}:
        return (
            "Compute it once per epoch, in a callback's `on_epoch_end` or with `evaluate`, and "
            "leave it out of `metrics=`",
            f"Or w{in_operations}, or take one of `keras.metrics`",
        )
    if roles == {"loss"}:
        return (f"W{in_operations}: its gradient runs in Python, too",)
    return (
        f"W{in_operations}, which run on the GPU",
        "Or call it in the input, where batches are made while the steps compute: "
        "`ds.map(lambda x, y: (tf.numpy_function(f, [x], tf.float32), y))`",
    )


MARGIN = 0.1
BUSY_PERCENT = 100 * CORES_BUSY_FRACTION
TO_INPUT = (
    "run these layers in the input: "
    "`ds.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)`"
)
ALONE = "in that, `augment = keras.Sequential([...])` has these layers and no others"
FROM_ARRAYS = (
    "make a dataset of arrays: "
    "`ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(n)`"
)


class PreprocessingInModel(TimeRule):
    """Keras' preprocessing layers, such as `RandomRotation`, as layers of the trained model."""

    code = "preprocessing-in-model"
    title = "Preprocessing layers in the model take much of each step"
    requires = "a profile of the steps of a model that has preprocessing layers"
    charts = ("captures", "layers")
    of_each_step = Share("They take {value} of each step")
    share_of = Share(", {of} {value}")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        layers, profile = summary.environment.preprocessing, summary.profile
        if not layers:
            return self.abstain("the model has no preprocessing layers, or they are not known")
        if profile is None or not profile.operations or not profile.step_time_s:
            return self.abstain()
        times_s = _times_s(profile, layers)
        waiting_s = sum(profile.parts_s.get(part, 0.0) for part in ("input wait", "between steps"))
        step_s, computing_s = profile.step_time_s - waiting_s, parts.compute_s or 0.0
        together_s, (parallel_s, unlisted_s) = sum(times_s.values()), _unsure_s(profile)
        low = max(together_s - parallel_s, 0.0) / step_s
        high = min((together_s + unlisted_s) / step_s, 1.0)
        high = min(high * (1 + MARGIN), (1 + high) / 2)  # the rest keeps half of its time at least
        saving = of_run(
            summary,
            low * (1 - MARGIN) * computing_s,
            high * (computing_s + parts.first_step_s / 2),
            basis="their operations in a profile",
        )
        if saving is None or saving.fraction < NOTABLE_FRACTION:
            return None
        shares = {layer: time_s / step_s for layer, time_s in times_s.most_common(MOST_NAMED)}
        name = next(iter(shares))
        fewer = f"fewer or cheaper layers: {name} takes {100 * shares[name]:.0f} % of each step"
        return self.find(
            severity(saving, summary),
            self.of_each_step(low),
            *(self.share_of(share, layer) for layer, share in shares.items()),
            advice=_preprocessing_advice(summary, fewer),
            saving=saving,
            title=f"Preprocessing in the model takes {100 * low:.0f} % of each step, mostly {name}",
        )


def _times_s(profile: ProfileRecord, layers: Collection[str]) -> Counter[str]:
    """Returns the seconds per step of each layer's operations."""
    times_s: Counter[str] = Counter()
    names = LayerNames(frozenset(layers), numbered=True)
    for operation in profile.operations:
        if layer := names.of(operation.name):
            times_s[layer.split("/")[0]] += operation.time_s / profile.steps  # type: ignore[assignment]
    return times_s


def _unsure_s(profile: ProfileRecord) -> tuple[float, float]:
    """Returns the seconds per step that operations ran in parallel, and those of unlisted ones."""
    first = profile.operations[0]
    all_s = first.time_s / first.share / profile.steps if first.share else 0.0
    busy_s = computed_s(profile)
    listed = sum(operation.share for operation in profile.operations)
    return max(all_s - busy_s, 0.0), max(1 - listed, 0.0) * all_s


def _preprocessing_advice(summary: RunSummary, fewer: str) -> tuple[str, ...]:
    if is_input_bound(summary):
        return (fewer,)
    stages = summary.pipeline.stages if summary.pipeline else ()
    how = [ALONE]
    if any(stage.name.startswith(ARRAYS) for stage in stages):
        how.append(FROM_ARRAYS)
    host = host_readings(summary)
    if summary.environment.gpus or host is None or (host.cpu_percent or 0.0) < BUSY_PERCENT:
        return TO_INPUT, *how, fewer
    return fewer, f"{TO_INPUT}; it saves only as much as cores are idle", *how
