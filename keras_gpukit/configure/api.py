"""`configure_gpus`: sets the GPUs up in one call."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from keras_gpukit.arguments import Verbose
from keras_gpukit.configure.plan import Plan, differences, holds, plan
from keras_gpukit.configure.settings import check
from keras_gpukit.configure.setup import GPUSetup
from keras_gpukit.distributed import strategies
from keras_gpukit.distributed.clusters import read_cluster
from keras_gpukit.errors import AlreadyInitializedError, GPUKitWarning, NoGPUError
from keras_gpukit.records.installation import Action, Machine
from keras_gpukit.reports.terminal import print_anywhere
from keras_gpukit.sensors.installation import read_environment, read_machine, read_state


def configure_gpus(
    *,
    devices: str | int | Sequence[int | str] = "all",
    memory: str | int | Sequence[str | int] = "growth",
    logical_gpus: int | Sequence[str | int] | Mapping[int, Any] | None = None,
    soft_placement: bool | None = None,
    log_device_placement: bool | None = None,
    mixed_precision: str | None = None,
    jit: bool | str | None = None,
    tf32: bool | None = None,
    deterministic: bool = False,
    seed: int | None = None,
    allocator: str | None = None,
    gpu_threads: int | str | tuple[str, int] | None = None,
    strategy: Any = "auto",
    worker_timeout_s: float = 600.0,
    require_gpu: bool = False,
    verbose: Verbose = "auto",
) -> GPUSetup:
    """Sets the GPUs up for training with Keras on TensorFlow.

    Call it first: most settings take effect only before TensorFlow starts its devices, and creating
    an optimizer or a tensor starts them. Everything is checked before anything is changed. On a
    machine without a GPU, the call reports why, and training runs on the CPU. You can call it again
    with the same arguments.

    Arguments win over environment variables; a warning names each variable that was overridden.

    Args:
        devices: `"all"`, `"none"`, or a GPU or a list of GPUs by index or UUID. Indices count the
            GPUs that TensorFlow lists, after `CUDA_VISIBLE_DEVICES`. UUIDs are those of
            `nvidia-smi -L`; the beginning of a UUID is enough.
        memory: `"growth"` takes GPU memory as needed, `"all"` takes all of it at the start, and a
            size limits it: `"8GiB"`, `"500 MB"`, or bytes as an int, rounded down to MiB. A list
            has one of these for each GPU used, in order of index. Growth applies to all GPUs or
            none.
        logical_gpus: How to split each GPU: the number of logical GPUs of the same size, a list
            with the size of each, or a dict from a GPU's index to one of these. A number divides
            the size in `memory`, or nine tenths of the GPU if `memory` has no size. Memory of split
            GPUs does not grow.
        soft_placement: Whether an operation without a kernel for its device falls back to
            another device. None leaves the setting unchanged; TensorFlow's default is True.
        log_device_placement: Whether TensorFlow prints the device of each operation. None leaves
            the setting unchanged.
        mixed_precision: Name of the dtype policy of layers created from now on, or `"auto"`:
            mixed_bfloat16 if all GPUs used have compute capability 8.0 or more, mixed_float16
            from 7.0, else float32. These are the first capabilities with Tensor Cores for the
            type, see https://www.tensorflow.org/guide/mixed_precision. None leaves the policy
            unchanged.
        jit: Whether XLA clusters operations automatically; `"auto"` does so on one GPU only. None
            leaves the setting unchanged. Keras has a separate setting for the training step: pass
            `jit` on with `model.compile(jit_compile=setup.jit_compile)`.
        tf32: Whether float32 matrix products may use TensorFloat-32, on GPUs from compute
            capability 8.0. None leaves the setting unchanged; TensorFlow's default is True.
        deterministic: Whether the same run gives the same numbers, at a cost in speed. This needs
            `seed`, and cannot be combined with `jit=True`.
        seed: Seed for Python, NumPy and TensorFlow, from 0 to 2**32 - 1.
        allocator: `"cuda_malloc_async"`, `"cuda_malloc"` or `"memory_guard"`, for
            `TF_GPU_ALLOCATOR`. None leaves the setting unchanged.
        gpu_threads: Threads that start kernels, for `TF_GPU_THREAD_MODE` and
            `TF_GPU_THREAD_COUNT`: the number of private threads per GPU, a mode (`"global"`,
            `"gpu_private"`, `"gpu_shared"`), or a pair of mode and number. None leaves the
            settings unchanged.
        strategy: How training is distributed:

            - `"auto"` chooses `"parameter_server"` if the environment describes a cluster with
              parameter servers, `"multi_worker"` for any other cluster, else `"mirrored"` over two
              or more logical GPUs, else `"none"`.
            - `"none"` uses no strategy.
            - `"one_device"` uses the first GPU, or the CPU without a GPU.
            - `"mirrored"` trains in step on all logical GPUs. Without a GPU it uses the logical
              CPUs if there are several, else no strategy, with a warning.
            - `"multi_worker"` trains in step with the other processes of the cluster.
            - `"parameter_server"` trains asynchronously: the chief coordinates the workers.
            - A `tf.distribute` strategy is used as it is. Create it after an earlier call with
              `"none"`, since creating a strategy starts the devices.

            A process has one strategy of each kind: a later call returns the same one.
        worker_timeout_s: Seconds to wait for the other processes of a cluster.
        require_gpu: Whether having no GPU is an error.
        verbose: 1, 2 and "auto" print the setup with its warnings. In a cluster, only the chief
            prints all of it. The other workers print a line on their GPUs, and what turned out
            other than asked. With 0, each warning is issued as a `GPUKitWarning` instead.

    Returns:
        The setup, with the reason for each setting. Build and compile the model within its
        `scope()`.

    Raises:
        TypeError: If an argument is of a wrong type.
        ValueError: If an argument has a wrong value, two contradict each other, or the machine
            cannot do what was asked.
        ClusterError: If the environment's description of a cluster is wrong or incomplete.
        WorkerError: If another process of the cluster does not answer in time, or this one cannot
            listen at its address.
        NoGPUError: If `require_gpu` is True and no GPU can be used; the message says why.
        AlreadyInitializedError: If TensorFlow has started its devices and a setting can no longer
            be made. Settings that are still possible are made before the error is raised.
    """
    settings = check(**locals())  # so far, they are the arguments
    # The cluster is read first, so that a wrong environment is reported immediately. Strategies
    # within this process need no cluster.
    over_cluster = settings.strategy in ("auto", "multi_worker", "parameter_server")
    cluster = read_cluster(os.environ) if over_cluster else None
    machine = replace(
        read_machine(),
        mirrored_devices=strategies.mirrored_devices(),
        cluster=cluster,
        cluster_strategy=strategies.cluster_strategy(),
    )
    planned = plan(settings, machine)
    if settings.require_gpu and not planned.gpus:
        raise NoGPUError(" ".join(["A GPU is required.", *map(str, planned.causes)]))
    if planned.too_late:
        raise AlreadyInitializedError(_apply_what_still_can_be(planned, machine))
    made = apply(planned.actions, machine)
    state = read_state()
    differing = differences(planned, replace(machine, state=state, environment=read_environment()))
    setup = GPUSetup(
        devices=tuple(machine.gpus[index] for index in planned.gpus),
        plan=planned,
        state=state,
        warnings=(*planned.warnings, *differing),
        strategy=made,
    )
    if settings.verbose:
        print_anywhere(setup.printed)
    else:
        for warning in setup.warnings:
            warnings.warn(warning, GPUKitWarning, stacklevel=2)
    return setup


def apply(actions: tuple[Action, ...], machine: Machine) -> Any:
    """Applies the actions that do not hold already, in order, and returns the strategy made."""
    strategy = None
    for action in actions:
        if action.kind == "given_strategy":
            strategy = strategies.adopt(action.value)
        elif action.kind in strategies.ACTIONS:
            strategy = strategies.make(strategies.ACTIONS[action.kind], action.value)
        elif not holds(action, machine):
            _set(action)
    return strategy


def _set(action: Action) -> None:
    import keras
    import tensorflow as tf

    config, value, gpus = tf.config, action.value, tf.config.list_physical_devices("GPU")
    match action.kind:
        case "environment":
            os.environ[str(action.name)] = value
        case "visible_gpus":
            config.set_visible_devices([gpus[index] for index in value], "GPU")
        case "memory_growth":
            for index in action.gpus:
                config.experimental.set_memory_growth(gpus[index], value)
        case "memory_limit_mib":
            for index in action.gpus:
                parts = [config.LogicalDeviceConfiguration(memory_limit=mib) for mib in value]
                config.set_logical_device_configuration(gpus[index], parts)
        case "log_device_placement":
            tf.debugging.set_log_device_placement(value)
        case "seed":
            keras.utils.set_random_seed(value)
        case "deterministic":
            config.experimental.enable_op_determinism()
        case "soft_placement":
            config.set_soft_device_placement(value)
        case "tf32":
            config.experimental.enable_tensor_float_32_execution(value)
        case "jit":
            config.optimizer.set_jit("autoclustering" if value else False)
        case "dtype_policy":
            keras.config.set_dtype_policy(value)


def _apply_what_still_can_be(planned: Plan, machine: Machine) -> str:
    """Applies the actions that are possible at any time, and returns the message of the error.

    No strategy is created, because its devices are not set up.
    """
    possible = tuple(
        action
        for action in planned.actions
        if not (action.must_come_first or action.kind.endswith("strategy"))
    )
    apply(possible, machine)
    late = "; ".join(map(str, planned.too_late))
    done = "; ".join(map(str, possible)) or "nothing"
    return (
        f"TensorFlow has already started its devices, so it is too late for: {late}. "
        f"{likely_starter()} Call configure_gpus() before it, best right after the imports. "
        f"Still possible, and done: {done}."
    )


def likely_starter() -> str:
    """Returns a sentence on what probably started TensorFlow's devices.

    TensorFlow does not record the call, so this looks for objects that cannot be created without
    starting the devices. It walks over every object in the process, which takes up to a second.
    """
    if strategies.mirrored_devices() is not None:
        return "The MirroredStrategy of this process probably started them."
    import keras
    import tensorflow as tf

    kinds: list[tuple[type, str]] = [
        (tf.distribute.Strategy, "a tf.distribute strategy"),
        (keras.Optimizer, "a Keras optimizer (making one creates its variables)"),
        (keras.Layer, "a Keras layer with weights"),
        (tf.Variable, "a tf.Variable"),
        (tf.data.Iterator, "an iterator over a tf.data.Dataset"),
        (tf.Tensor, "a tensor"),
    ]
    # Look at the type, not at the object: a proxy's __class__ would run foreign code.
    types = {type(candidate) for candidate in gc.get_objects()}
    for kind, description in kinds:
        # TensorFlow itself keeps its default strategy, which starts nothing.
        found = [t for t in types if issubclass(t, kind) and not t.__name__.startswith("_Default")]
        if found:
            names = ", ".join(sorted(t.__name__ for t in found)[:3])
            return f"What started them is probably {description}: this process holds {names}."
    return (
        "What started them is unknown. Anything that computes starts them, such as "
        "tf.constant(…), and so does tf.config.list_logical_devices()."
    )
