"""Plans how operations run, and how training is distributed over devices and processes."""

from __future__ import annotations

from keras_gpukit.configure.actions import Draft
from keras_gpukit.configure.settings import Settings
from keras_gpukit.distributed import strategies
from keras_gpukit.distributed.strategies import Resources
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.rules.compute.precision import TF32_FROM, choose_policy, lowest_capability, misfit


def plan_variables(draft: Draft, settings: Settings) -> None:
    """Plans the environment variables that TensorFlow reads when it starts a GPU."""
    if settings.allocator is not None:
        reason = f'allocator="{settings.allocator}"'
        draft.set_variable("TF_GPU_ALLOCATOR", settings.allocator, reason)
    if settings.gpu_threads is not None:
        mode, count = settings.gpu_threads
        draft.set_variable("TF_GPU_THREAD_MODE", mode, f"gpu_threads: mode {mode}")
        if count is not None:
            draft.set_variable("TF_GPU_THREAD_COUNT", str(count), f"gpu_threads: {count} threads")


def plan_execution(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> None:
    """Plans settings for GPUs and CPUs; all but the placement log can be set at any time."""
    if settings.log_device_placement is not None:
        draft.do(
            "log_device_placement", settings.log_device_placement, "as asked", must_come_first=True
        )
    if settings.soft_placement is not None:
        draft.do("soft_placement", settings.soft_placement, "as asked")
    _plan_determinism(draft, settings)
    _plan_tf32(draft, settings, gpus)
    _plan_precision(draft, settings, gpus)


def plan_jit(draft: Draft, settings: Settings, gpus: int, replicas: int) -> None:
    """Plans the use of XLA, which depends on how training is distributed."""
    if settings.jit is None:
        return
    if settings.jit is True and replicas > 1:
        raise ValueError(
            f"`jit=True` contradicts training {replicas} replicas in step: XLA cannot compile a "
            'step that spans devices. Use jit="auto", or `strategy="none"`. '
            f"Received: jit=True, strategy={settings.strategy!r}"
        )
    if settings.jit != "auto":
        reason = "as asked; for Keras: model.compile(jit_compile=setup.jit_compile)"
        draft.do("jit", settings.jit, reason)
    elif settings.deterministic:
        draft.do("jit", False, "not every operation is deterministic under XLA")
    elif replicas > 1:
        draft.do("jit", False, "XLA cannot compile a step that spans devices")
    elif gpus == 0:
        draft.do("jit", False, "on a CPU, compiling seldom pays")
    else:
        draft.do("jit", True, "XLA fuses small operations on a GPU")


def _plan_determinism(draft: Draft, settings: Settings) -> None:
    if settings.seed is not None:
        draft.do("seed", settings.seed, "of Python, NumPy and TensorFlow")
    if settings.deterministic:
        draft.do("deterministic", True, "the same run gives the same numbers, more slowly")
    elif draft.machine.state.deterministic:
        forced = draft.machine.environment.get("TF_DETERMINISTIC_OPS")
        by = "an earlier call" if forced is None else f"TF_DETERMINISTIC_OPS={forced}"
        draft.warnings.append(
            f"Operations are deterministic, and slower, because of {by}; TensorFlow has no way "
            "to turn that off again."
        )


def _plan_tf32(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> None:
    if settings.tf32 is None:
        return
    draft.do("tf32", settings.tf32, "as asked" if gpus else "as asked; it is about GPUs only")
    oldest = lowest_capability(gpus)
    if settings.tf32 and draft.machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        draft.warnings.append(
            "NVIDIA_TF32_OVERRIDE=0 in the environment keeps TF32 off, whatever tf32=True asks."
        )
    if settings.tf32 and oldest is not None and oldest < TF32_FROM:
        draft.warnings.append(
            "tf32=True has no effect below compute capability 8.0; a GPU here has "
            f"{oldest[0]}.{oldest[1]}."
        )


def _plan_precision(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> None:
    if settings.mixed_precision is None:
        return
    if settings.mixed_precision == "auto":
        draft.do("dtype_policy", *choose_policy(gpus))
        return
    draft.do("dtype_policy", settings.mixed_precision, "as asked")
    if problem := misfit(settings.mixed_precision, gpus):
        draft.warnings.append(f"{problem[0].upper()}{problem[1:]}.")


def plan_strategy(draft: Draft, settings: Settings, gpus: int) -> int:
    """Plans the strategy."""
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
