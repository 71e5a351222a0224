"""Why an operation runs on the CPU, and what to do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from keras_gpukit.records.operations import (
    PYTHON_OPERATIONS,
    Kernel,
    Operation,
    OperationKernels,
    OperationKind,
)
from keras_gpukit.records.placement import Fallback, FallbackCause
from keras_gpukit.rules.setup.requested_device import is_missing, no_such_device

Registry = Callable[[str], OperationKernels | None]
Why = tuple[FallbackCause, str]

_NAMES_SHOWN = 3
# Operation types at the end of the input pipeline, which belongs on the host.
_INPUT_PREFIXES = ("Iterator", "MultiDeviceIterator", "AnonymousIterator", "Optional")
_CASTS = ("float32", "float16", "int64", "int32")


def find_fallbacks(
    operations: Iterable[Operation],
    registry: Registry,
    *,
    predicted: bool,
    trust_requests: bool,
    devices: Collection[str] = (),
) -> tuple[Fallback, ...]:
    """Returns the operations that run on the CPU outside the input pipeline, and why they do.

    Operations without a known reason are left out.

    Args:
        operations: Operations that ran in the step.
        registry: Returns the kernels of an operation type.
        predicted: Whether they run on the CPU because there is no GPU.
        trust_requests: Whether a request for the CPU is deliberate, not just for lack of a GPU.
        devices: Devices that TensorFlow lists; empty if unknown.
    """
    on_cpu: dict[OperationKind, list[str]] = defaultdict(list)
    for operation in operations:
        if operation.device.startswith("CPU") or operation.kind.type in PYTHON_OPERATIONS:
            on_cpu[operation.kind].append(operation.name)
    groups: dict[tuple[str, FallbackCause, str], list[str]] = defaultdict(list)
    for kind, names in on_cpu.items():
        if not predicted and is_missing(kind.requested, devices):
            why: Why | None = ("no such device", no_such_device(kind.requested, "CPU:0", devices))
        else:
            why = explain(kind, registry, predicted=predicted, trust_requests=trust_requests)
        if why:
            cause, reason = why
            groups[original_type(kind.type, registry), cause, reason] += names
    found = [
        Fallback(type_, len(names), cause, reason, tuple(dict.fromkeys(names))[:_NAMES_SHOWN])
        for (type_, cause, reason), names in groups.items()
    ]
    # "host memory" costs next to nothing, so it comes last.
    return tuple(sorted(found, key=lambda each: (each.cause == "host memory", -each.count)))


def explain(
    kind: OperationKind, registry: Registry, *, predicted: bool, trust_requests: bool
) -> Why | None:
    """Returns the cause and reason why operations of a kind run on the CPU; None if unknown."""
    if is_input(kind.type):
        return None
    if kind.type in PYTHON_OPERATIONS:  # TensorFlow places EagerPyFunc on a GPU
        return "host function", (
            f"{kind.type} calls Python, which runs on the host on whatever device it is placed; "
            "what it reads or makes with NumPy crosses between GPU and host. Write it with "
            "TensorFlow operations, or do it in the input pipeline (dataset.map)."
        )
    if trust_requests and "CPU" in kind.requested.upper():
        return "requested", (
            f"a tf.device scope or a strategy asks for {kind.requested}. Remove it to let "
            "TensorFlow choose."
        )
    return not_for_gpu(kind, registry) or (
        None if predicted else kept_by_graph(kind, "the CPU", registry)
    )


def is_input(operation_type: str) -> bool:
    """Whether operations of a type are the end of the input pipeline, which runs on the host."""
    return operation_type.startswith(_INPUT_PREFIXES) or "Dataset" in operation_type


def not_for_gpu(kind: OperationKind, registry: Registry) -> Why | None:
    """Returns why TensorFlow's kernels keep operations of a kind off a GPU; None if they do not."""
    type_ = original_type(kind.type, registry)
    known = registry(type_)
    # XLA has kernels of its own. oneDNN fuses operations for the CPU; a GPU run would not do so.
    if kind.compiled or known is None or type_.startswith("_Mkl"):
        return None
    return _from_kernels(kind, type_, known, registry)


def kept_by_graph(kind: OperationKind, device: str, registry: Registry) -> Why | None:
    """Returns why the graph itself keeps operations of a kind on a device; None if it does not."""
    known = registry(original_type(kind.type, registry))
    if kind.compiled or known is None:
        return None
    if known.uses_resource:
        return "variable elsewhere", (
            f"the variable or table it uses was created on {device}, and such operations run where "
            "it is. Create it on the device that computes with it, unless it is too large for that."
        )
    if kind.colocated:
        return "variable elsewhere", (
            f"the graph keeps it on the device of {kind.colocated}, which is on {device}."
        )
    return None


def original_type(operation_type: str, registry: Registry) -> str:
    """Returns the type that an operation had before oneDNN rewrote it for the CPU."""
    for prefix in ("_MklNative", "_Mkl"):
        if operation_type.startswith(prefix):
            bare = operation_type[len(prefix) :]
            return next((each for each in (bare, f"_{bare}") if registry(each)), operation_type)
    return operation_type


def _from_kernels(
    kind: OperationKind, type_: str, known: OperationKernels, registry: Registry
) -> Why | None:
    """Returns why the kernels keep an operation off a GPU; None if they do not."""
    if not known.gpu:
        return "no kernel", (
            f"TensorFlow has no GPU kernel for {type_}. Do it in the input pipeline (dataset.map), "
            "or use an operation that has one."
        )
    variable = registry("VarHandleOp") if type_.endswith("VariableOp") else None
    if variable and all(_refused(kind, kernel) for kernel in variable.gpu):
        return "dtype", (
            f"its variable is on the CPU: TensorFlow has no GPU variables of dtype "
            f"{dict(kind.types)['dtype'][0]}. Make it float32 or int64."
        )
    fitting = [kernel for kernel in known.gpu if not _refused(kind, kernel)]
    if not fitting:
        return "dtype", _dtype_reason(kind, type_, known.gpu)
    kept = fitting[0].host_arguments
    # A kernel that keeps only one of its arguments in host memory, such as Reshape's shape, runs
    # on the GPU.
    if (known.outputs or known.inputs) and kept.issuperset(known.outputs or known.inputs):
        dtypes = ", ".join(sorted({dtype for _, values in kind.types for dtype in values}))
        arguments = ", ".join(name for name in (*known.inputs, *known.outputs) if name in kept)
        return "host memory", (
            f"for {dtypes or 'any dtype'} the GPU kernel of {type_} keeps {arguments} in host "
            "memory: usual for shapes and counters, and cheap unless these are large."
        )
    return None


def _refused(kind: OperationKind, kernel: Kernel) -> list[str]:
    """Returns the type attributes whose dtype the kernel does not support."""
    return [
        name
        for name, dtypes in kind.types
        if name in kernel.allowed and not kernel.allowed[name].issuperset(dtypes)
    ]


def _dtype_reason(kind: OperationKind, type_: str, kernels: tuple[Kernel, ...]) -> str:
    refused = min((_refused(kind, kernel) for kernel in kernels), key=len)
    given = " and ".join(f"{name}={', '.join(dict(kind.types)[name])}" for name in refused)
    takes = set[str]().union(*(each.allowed.get(name, ()) for each in kernels for name in refused))
    cast = next((f" Cast to {dtype} before it." for dtype in _CASTS if dtype in takes), "")
    return f"the GPU kernels of {type_} take {', '.join(sorted(takes))}, not {given}.{cast}"
