"""Whether operations run on the expected device, why one runs on the CPU, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import get_args

from keras_gpukit.layer_names import NO_LAYERS, LayerNames
from keras_gpukit.records.placement import (
    PYTHON_OPERATIONS,
    Fallback,
    FallbackCause,
    Kernel,
    Operation,
    OperationKernels,
    OperationKind,
    PlacedOperations,
)

Registry = Callable[[str], OperationKernels | None]
Why = tuple[FallbackCause, str]

_ANY = ("", "*")


def is_missing(requested: str, devices: Collection[str]) -> bool:
    """Whether no device matches the requested one; False if the devices are unknown."""
    return bool(requested and devices) and not any(is_met(requested, device) for device in devices)


def is_met(requested: str, device: str) -> bool:
    """Whether a device matches the requested one."""
    (kind, number), (real_kind, real_number) = _parts(requested), _parts(device)
    return kind == real_kind and number in (*_ANY, real_number)


def nearest(requested: str, devices: Collection[str]) -> str | None:
    """Returns the device most similar to a requested one that does not exist; None if none is."""
    kind, number = _parts(requested)
    alike = [device for device in devices if _parts(device)[0] in kind]
    wanted = int(number) if number.isdecimal() else 0
    return min(alike, key=lambda device: abs(int(_parts(device)[1]) - wanted), default=None)


def no_such_device(requested: str, device: str, devices: Collection[str]) -> Why:
    """Explains that soft placement ran operations elsewhere, and which device to request."""
    like = nearest(requested, devices)
    if like:
        advice = f"Ask for {like}."
    elif _parts(requested)[0] == "GPU":
        advice = "`keras-gpukit doctor` says why there are no GPUs."
    else:
        advice = "Ask for one of these."
    return "no such device", (
        f"the script asks for {requested}, and TensorFlow has only {', '.join(sorted(devices))}. "
        f"Soft placement ran it on {device} without a warning. {advice}"
    )


def _parts(device: str) -> tuple[str, str]:
    kind, _, number = device.partition(":")
    return kind.upper(), number


@dataclass(frozen=True)
class Surroundings:
    """Properties of the machine and the model that affect which operations are fallbacks.

    Attributes:
        devices: Devices that TensorFlow lists; empty if they are unknown.
    """

    devices: tuple[str, ...]
    knows_gpu_kernels: bool
    has_strategy: bool
    layers: LayerNames = NO_LAYERS

    @property
    def has_gpu(self) -> bool:
        """Whether TensorFlow has a GPU."""
        return any(device.startswith("GPU") for device in self.devices)

    @property
    def predicted(self) -> bool:
        """Whether the answer is for a run on a GPU, since this machine has none."""
        return self.knows_gpu_kernels and not self.has_gpu

    @property
    def trust_requests(self) -> bool:
        """Whether a request for the CPU is deliberate, not just for lack of a GPU."""
        return self.has_gpu or not self.has_strategy  # a strategy requests the only device


_NAMES_SHOWN = 3
# Operation types at the end of the input pipeline, which belongs on the host.
_INPUT_PREFIXES = ("Iterator", "MultiDeviceIterator", "AnonymousIterator", "Optional")
_CASTS = ("float32", "float16", "int64", "int32")


def find_fallbacks(
    operations: Iterable[Operation], registry: Registry, around: Surroundings
) -> tuple[Fallback, ...]:
    """Returns the operations that run on the CPU outside the input pipeline, and why they do.

    Operations without a known reason are left out.
    """
    on_cpu: dict[OperationKind, list[str]] = defaultdict(list)
    for operation in operations:
        if operation.device.startswith("CPU") or operation.kind.type in PYTHON_OPERATIONS:
            on_cpu[operation.kind].append(operation.name)
    groups: dict[tuple[str, FallbackCause, str], list[str]] = defaultdict(list)
    for kind, names in on_cpu.items():
        if not around.predicted and is_missing(kind.requested, around.devices):
            why: Why | None = no_such_device(kind.requested, "CPU:0", around.devices)
        else:
            why = explain(kind, registry, around)
        if why:
            cause, reason = why
            groups[original_type(kind.type, registry), cause, reason] += names
    found = [
        Fallback(type_, len(names), cause, reason, tuple(dict.fromkeys(names))[:_NAMES_SHOWN])
        for (type_, cause, reason), names in groups.items()
    ]
    # "host memory" costs next to nothing, so it comes last.
    return tuple(
        sorted(found, key=lambda fallback: (fallback.cause == "host memory", -fallback.count))
    )


def explain(kind: OperationKind, registry: Registry, around: Surroundings) -> Why | None:
    """Returns the cause and reason why operations of a kind run on the CPU; None if unknown."""
    if is_input(kind.type):
        return None
    if kind.type in PYTHON_OPERATIONS:  # TensorFlow places EagerPyFunc on a GPU
        return "host function", (
            f"{kind.type} calls Python, which runs on the host on whatever device it is placed; "
            "what it reads or makes with NumPy crosses between GPU and host. Write it with "
            "TensorFlow operations, or do it in the input pipeline (dataset.map)."
        )
    if around.trust_requests and "CPU" in kind.requested.upper():
        return "requested", (
            f"a tf.device scope or a strategy asks for {kind.requested}. Remove it to let "
            "TensorFlow choose."
        )
    return not_for_gpu(kind, registry) or (
        None if around.predicted else kept_by_graph(kind, "the CPU", registry)
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
            return next((type_ for type_ in (bare, f"_{bare}") if registry(type_)), operation_type)
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
        refused = min((_refused(kind, kernel) for kernel in known.gpu), key=len)
        given = " and ".join(f"{name}={', '.join(dict(kind.types)[name])}" for name in refused)
        takes = {
            dtype
            for kernel in known.gpu
            for name in refused
            for dtype in kernel.allowed.get(name, ())
        }
        cast = next((f" Cast to {dtype} before it." for dtype in _CASTS if dtype in takes), "")
        return "dtype", (
            f"the GPU kernels of {type_} take {', '.join(sorted(takes))}, not {given}.{cast}"
        )
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


_CAUSES: tuple[FallbackCause, ...] = get_args(FallbackCause)
_USUAL = ("requested", "host memory")


def judge_placement(
    kind: OperationKind, device: str, registry: Registry, around: Surroundings
) -> tuple[bool, Why | None]:
    """Returns whether operations run on the expected device, with cause and reason if known.

    The expected device is the requested one. If none was requested, it is a GPU if there is one.
    Operations that were requested on the CPU get a cause and a reason too.
    """
    on_cpu = device.startswith("CPU")
    if kind.ignored_request and not is_met(kind.ignored_request, device):
        return False, (
            "compiled",
            f"XLA compiles it together with the operations around it, which run on {device}; the "
            f"request for {kind.ignored_request} has no effect. Use compile(jit_compile=False) to "
            "place operations one by one.",
        )
    if is_missing(kind.requested, around.devices):
        return False, no_such_device(kind.requested, device, around.devices)
    if kind.requested and not is_met(kind.requested, device):
        known = not_for_gpu(kind, registry) if on_cpu else None
        return False, known or kept_by_graph(kind, device, registry)
    runs_on_host = on_cpu or kind.type in PYTHON_OPERATIONS
    if not runs_on_host or is_input(kind.type) or not (around.has_gpu or around.predicted):
        return True, None
    why = explain(kind, registry, around)
    if why is None:
        return around.predicted, None  # without a GPU, every operation is rightly on the CPU
    return not on_cpu or why[0] == "requested", why


def by_likely_mistake(row: PlacedOperations) -> tuple[int, int]:
    """Returns a sort key: likely mistakes, unknown reasons, usual causes, then all other rows."""
    if row.cause in _USUAL:
        return len(_CAUSES) + 1 + _USUAL.index(row.cause), -row.count
    if row.cause is not None:
        return _CAUSES.index(row.cause), -row.count
    return len(_CAUSES) + (3 if row.expected else 0), -row.count
