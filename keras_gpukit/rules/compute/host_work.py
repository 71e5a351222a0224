"""Whether work of the host takes much of each step: Python functions, and copies of the batch."""

from __future__ import annotations

from collections.abc import Sequence

from keras_gpukit.records.placement import PythonFunction, PythonRole
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import own_step_s
from keras_gpukit.rules.rule import NO_GPU, Measure, Outcome, Rule, Share
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, severity

HALF_THE_BYTES = 0.5
MOST_NAMED = 3


class PythonInStep(Rule):
    """`tf.py_function` and `tf.numpy_function` in the model: the GPU waits for the host."""

    code = "python-in-step"
    title = "Python functions take much of each step"
    requires = "a profile of the steps"
    charts = ("captures", "layers")
    supersedes = (
        "low-utilization",
        "dominant-layer",
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
            advice=_advice({each.role for each in called}),
            saving=saving,
            title=f"{_subject(called)} {100 * share:.0f} % of each step{waits}",
        )


class BatchCopy(Rule):
    """Copies from the host during which no GPU computes.

    One thread of the host copies a batch to pinned memory, and the GPU copies it from there. On an
    H100 that took 5.6 to 6.1 ms of each step for batches of 34 MB, 0.6 ms of them on the GPU, and
    0.5 to 0.8 ms for batches of 4 MB. So the time follows from the bytes.
    """

    code = "host-to-device-copy"
    title = "Copies to the GPU take much of each step"
    requires = "a profile of a GPU's steps"
    charts = ("captures", "layers")
    of_a_step_in_copies = Share("While copies to the GPU run, it idles for {value} of a step")
    copied_to_the_GPU_per_step = Measure("A step copies {value}", "B")

    def judge(self, summary: RunSummary) -> Outcome:
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or not profile.devices:
            return self.abstain(None if summary.environment.gpus else NO_GPU)
        share = min(profile.parts_s.get("host to device", 0.0) / own_s, 1.0)
        if share < WARNING_FRACTION:
            return None
        sizes = [each.host_to_device_bytes for each in profile.devices]
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
        names = ", ".join(f"{each.name} ({each.place})" for each in called[:MOST_NAMED])
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
