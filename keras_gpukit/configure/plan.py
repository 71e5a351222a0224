"""Turns settings and facts into a plan: pure, so any machine can be planned for on any other."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from keras_gpukit.configure.plan_gpus import Draft, plan_devices, plan_memory
from keras_gpukit.configure.settings import Settings
from keras_gpukit.distributed import strategies
from keras_gpukit.records.codec import to_dict
from keras_gpukit.records.environment import GPUInfo
from keras_gpukit.records.installation import Action, Cause, Machine
from keras_gpukit.rules.compute.precision import TF32_FROM, choose_policy, lowest_capability, misfit
from keras_gpukit.rules.setup.gpu_problems import newer_gpus
from keras_gpukit.rules.setup.no_gpu import NOT_WANTED, why_no_gpu

_ABOUT_GPUS = ("devices", "memory", "logical_gpus", "tf32", "allocator", "gpu_threads")


@dataclass(frozen=True)
class Plan:
    """The actions that `configure_gpus` will take, in order; pure data.

    Attributes:
        gpus: Indices of the GPUs that will be used.
        logical_gpus: Number of logical GPUs on these GPUs.
        actions: Actions to take, in the necessary order.
        too_late: Actions that TensorFlow can no longer take, a subset of `actions`.
        warnings: Sentences on overridden settings and on what is probably not intended.
        not_applied: Arguments that concern only GPUs, if no GPU is used.
        causes: Reasons why no GPU is used; empty if one is.
        notes: Effects of the strategy on the loss and the batch, or why no strategy is used.
    """

    gpus: tuple[int, ...] = ()
    logical_gpus: int = 0
    actions: tuple[Action, ...] = ()
    too_late: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{action} ({action.reason})" for action in self.actions]
        return "\n".join(
            [*map(str, self.causes), *lines, *map("Warning: {}".format, self.warnings)]
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the plan as plain dicts, lists, strings and numbers, ready for JSON."""
        return {
            **to_dict(replace(self, actions=(), too_late=())),
            "actions": [action.to_dict() for action in self.actions],
            "too_late": [action.to_dict() for action in self.too_late],
        }

    def value_of(self, kind: str) -> Any:
        """Returns the value that a kind of action sets; None if the plan has no such action."""
        return next((action.value for action in self.actions if action.kind == kind), None)


def plan(settings: Settings, machine: Machine) -> Plan:
    """Decides which actions to take, in the necessary order.

    Environment variables come first, since TensorFlow reads them when it starts its devices. Then
    the visible GPUs are chosen, since memory is set for each. The strategy comes last, since
    creating one starts the devices.

    Raises:
        ValueError: If the machine cannot do what was asked, or if arguments contradict each other
            on this machine.
    """
    draft = Draft(machine)
    gpus = plan_devices(draft, settings)
    logical = 0
    if gpus:
        _plan_variables(draft, settings)
        logical = plan_memory(draft, settings, gpus)
    _plan_execution(draft, settings, gpus)
    draft.warnings.extend(map(str, newer_gpus(gpus, machine.build)))
    replicas = _plan_strategy(draft, settings, logical)
    _plan_jit(draft, settings, logical, replicas)
    if machine.keras_backend != "tensorflow":
        draft.warnings.append(
            f"Keras runs on {machine.keras_backend}: strategy, XLA and memory settings reach "
            "TensorFlow only (KERAS_BACKEND chooses)."
        )
    actions = sorted(draft.actions, key=lambda action: _ORDER.index(action.kind))
    late = [a for a in actions if a.must_come_first and not holds(a, machine)]
    return Plan(
        gpus=tuple(gpu.index for gpu in gpus),
        logical_gpus=logical,
        actions=tuple(actions),
        too_late=tuple(late) if machine.state.initialized else (),
        warnings=tuple(draft.warnings),
        not_applied=() if gpus else _not_applied(settings),
        causes=_causes(settings, machine) if not gpus else (),
        notes=tuple(draft.notes),
    )


# A given strategy can be refused, so it comes before anything is changed. Growth is turned off
# before limits are set, because limits would silently drop it.
_ORDER = (
    "given_strategy",
    "environment",
    "visible_gpus",
    "memory_growth",
    "memory_limit_mib",
    "log_device_placement",
    "seed",
    "deterministic",
    "soft_placement",
    "tf32",
    "jit",
    "dtype_policy",
    *strategies.ACTIONS,
)


def _not_applied(settings: Settings) -> tuple[str, ...]:
    """Returns the arguments that were given and concern only GPUs."""
    defaults = {field.name: field.default for field in fields(Settings)}
    asked = ((name, getattr(settings, name)) for name in _ABOUT_GPUS)
    return tuple(
        f"{name}={value!r}"
        for name, value in asked
        if value != defaults[name] and (name, value) != ("devices", "none")
    )


def _causes(settings: Settings, machine: Machine) -> tuple[Cause, ...]:
    if settings.devices == "none" and machine.gpus:
        return (NOT_WANTED,)
    return why_no_gpu(machine)


def _plan_variables(draft: Draft, settings: Settings) -> None:
    """Plans the environment variables that TensorFlow reads when it starts a GPU."""
    if settings.allocator is not None:
        reason = f'allocator="{settings.allocator}"'
        draft.set_variable("TF_GPU_ALLOCATOR", settings.allocator, reason)
    if settings.gpu_threads is not None:
        mode, count = settings.gpu_threads
        draft.set_variable("TF_GPU_THREAD_MODE", mode, f"gpu_threads: mode {mode}")
        if count is not None:
            draft.set_variable("TF_GPU_THREAD_COUNT", str(count), f"gpu_threads: {count} threads")


def _plan_execution(draft: Draft, settings: Settings, gpus: tuple[GPUInfo, ...]) -> None:
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


def _plan_jit(draft: Draft, settings: Settings, gpus: int, replicas: int) -> None:
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


def _plan_strategy(draft: Draft, settings: Settings, gpus: int) -> int:
    """Plans the strategy, and returns the number of its replicas."""
    if not isinstance(settings.strategy, str):
        draft.do("given_strategy", settings.strategy, "as given")
        return int(settings.strategy.num_replicas_in_sync)
    there = strategies.Resources(draft.machine, gpus, settings.worker_timeout_s)
    name, choice = strategies.choose(settings.strategy, there)
    draft.warnings.extend(choice.warnings)
    if choice.value is None:
        if settings.strategy == "auto":
            draft.notes.append(f"No strategy, as {choice.reason}.")
        return choice.replicas
    over_cluster = isinstance(choice.value, strategies.ClusterTask)
    first = over_cluster and draft.machine.cluster_strategy is None
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


def holds(action: Action, machine: Machine) -> bool | None:
    """Whether an action's setting already holds; None if that cannot be read."""
    state = machine.state
    if action.kind == "environment":
        return bool(machine.environment.get(str(action.name)) == action.value)
    if action.kind == "memory_growth":
        return all(bool(state.growth[gpu]) is action.value for gpu in action.gpus)
    if action.kind == "memory_limit_mib":
        return all(state.memory_limit_mib[gpu] == action.value for gpu in action.gpus)
    if action.kind == "seed" or action.kind.endswith("strategy"):
        return None
    return bool(getattr(state, action.kind) == action.value)


def differences(planned: Plan, now: Machine) -> tuple[str, ...]:
    """Returns a sentence for each setting that turned out other than planned."""
    state = now.state
    differing = [
        f"TensorFlow accepted {action}, but it is not in effect."
        for action in planned.actions
        if holds(action, now) is False
    ]
    forced = now.environment.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    if state.growth_dropped and not forced:
        differing.append("TensorFlow accepted memory growth, but it is not in effect.")
    started = state.logical_gpus
    if started is not None and started < planned.logical_gpus:
        # TensorFlow lists GPUs that it then ignores: too old, or with too few multiprocessors.
        differing.append(
            f"TensorFlow started {started} of the {planned.logical_gpus} logical GPUs planned; "
            "what is placed on the others runs on the CPU. Its log says why: look for `Ignoring "
            "visible gpu device`."
        )
    return tuple(differing)
