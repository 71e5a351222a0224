"""Plans how training is distributed over devices and processes."""

from __future__ import annotations

from keras_gpukit.configure.actions import Draft
from keras_gpukit.configure.settings import Settings
from keras_gpukit.distributed import strategies
from keras_gpukit.distributed.strategies import Resources


def plan_strategy(draft: Draft, settings: Settings, gpus: int) -> int:
    """Plans the strategy.

    Args:
        draft: The plan so far.
        settings: The checked arguments of `configure_gpus`.
        gpus: Number of logical GPUs that will be used.

    Returns:
        The number of replicas that will train in step.

    Raises:
        ValueError: If the strategy is not possible here.
    """
    if not isinstance(settings.strategy, str):
        draft.do("given_strategy", settings.strategy, "as given")
        return int(settings.strategy.num_replicas_in_sync)
    there = Resources(draft.machine, gpus, settings.worker_timeout_s)
    name, choice = strategies.choose(settings.strategy, there)
    draft.warnings.extend(choice.warnings)
    if choice.value is None:
        if settings.strategy == "auto":
            draft.notes.append(f"No strategy, as {choice.reason}.")
        return choice.replicas
    first = choice.must_come_first
    draft.do(f"{name}_strategy", choice.value, choice.reason, must_come_first=first)
    if choice.meaning:
        draft.notes.append(choice.meaning)
    if name == "multi_worker" and settings.seed is None:
        draft.warnings.append(
            "Unless the script sets a seed, as with keras.utils.set_random_seed(…), each worker "
            "shuffles arrays in an order of its own, so that an epoch repeats some examples and "
            "misses others: give configure_gpus(seed=…)."
        )
    return choice.replicas
