"""What TensorFlow has after a plan was applied, against what was planned."""

from __future__ import annotations

from keras_gpukit.configure.actions import Plan
from keras_gpukit.configure.machine import Machine


def differences(planned: Plan, now: Machine) -> tuple[str, ...]:
    """Returns a sentence for each thing that turned out other than planned.

    Args:
        planned: What was applied.
        now: The machine as it was read afterwards.
    """
    state = now.state
    differing = [
        f"TensorFlow does not have {action}, though it took it."
        for action in planned.actions
        if action.holds(now) is False
    ]
    forced = now.environment.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    if state.growth_dropped and not forced:
        differing.append("TensorFlow took memory growth but will not grow memory.")
    started = state.logical_gpus
    if started is not None and started < planned.logical_gpus:
        # It lists GPUs that it then ignores: too old, or with too few multiprocessors.
        differing.append(
            f"TensorFlow started {started} of the {planned.logical_gpus} logical GPUs planned; "
            "what is placed on the others runs on the CPU. Its log says why: look for `Ignoring "
            "visible gpu device`."
        )
    return tuple(differing)
