"""Why an operation is on the CPU, from a registry written by hand."""

from __future__ import annotations

import pytest

from keras_gpukit.records import Kernel, Operation, OperationKernels, OperationKind
from keras_gpukit.rules.compute.placement_causes import explain, find_fallbacks


def kernels(*gpu, inputs=("x",), outputs=("y",), uses_resource=False):
    return OperationKernels(inputs, outputs, uses_resource, gpu)


FLOATS = Kernel({"T": frozenset({"float32", "float16"})}, frozenset())
REGISTRY = {
    "Good": kernels(FLOATS),
    "CPUOnly": kernels(),
    "Shape": kernels(Kernel({}, frozenset({"y"}))),
    "Reshape": kernels(Kernel({}, frozenset({"shape"})), inputs=("x", "shape")),
    "Gather": kernels(Kernel({}, frozenset()), uses_resource=True),
    "VarHandleOp": kernels(Kernel({"dtype": frozenset({"float32"})}, frozenset())),
    "ReadVariableOp": kernels(Kernel({}, frozenset()), uses_resource=True),
    "_FusedGood": kernels(FLOATS),
}


def why(type_, predicted=True, trust_requests=True, **kind):
    kind = OperationKind(type_, **kind)
    return explain(kind, REGISTRY.get, predicted=predicted, trust_requests=trust_requests)


@pytest.mark.parametrize(
    ("kind", "cause", "words"),
    [
        ({"type_": "CPUOnly"}, "no kernel", "no GPU kernel for CPUOnly"),
        (
            {"type_": "Good", "types": (("T", ("int32",)),)},
            "dtype",
            "Good take float16, float32, not T=int32. Cast to float32",
        ),
        ({"type_": "_MklGood", "types": (("T", ("int32",)),)}, "dtype", "kernels of Good"),
        ({"type_": "_MklNativeFusedGood", "types": (("T", ("int32",)),)}, "dtype", "_FusedGood"),
        ({"type_": "Shape"}, "host memory", "keeps y in host memory"),
        (
            {"type_": "ReadVariableOp", "types": (("dtype", ("int32",)),)},
            "dtype",
            "no GPU variables of dtype int32",
        ),
        ({"type_": "EagerPyFunc"}, "host function", "calls Python"),
        ({"type_": "Good", "requested": "CPU:0"}, "requested", "asks for CPU:0"),
        ({"type_": "Gather", "predicted": False}, "variable elsewhere", "created on the CPU"),
    ],
)
def test_reason(kind, cause, words):
    found = why(**kind)
    assert found is not None
    assert found[0] == cause
    assert words in found[1]


@pytest.mark.parametrize(
    "kind",
    [
        {"type_": "Good", "types": (("T", ("float32",)),)},
        {"type_": "Good", "requested": "CPU:0", "trust_requests": False},
        {"type_": "Good", "requested": "GPU:0"},
        {"type_": "Reshape"},
        {"type_": "Gather"},
        {"type_": "CPUOnly", "compiled": True},
        {"type_": "IteratorGetNext"},
        {"type_": "TensorSliceDataset"},
        {"type_": "NeverHeardOf"},
        {"type_": "_MklNeverHeardOf"},
    ],
)
def test_no_reason(kind):
    assert why(**kind) is None


def test_fallbacks_are_grouped_and_cheap_ones_last():
    shapes = [Operation(OperationKind("Shape"), f"s{i}", "CPU:0") for i in range(5)]
    texts = [Operation(OperationKind("CPUOnly"), f"t{i // 2}", "CPU:0") for i in range(4)]
    on_gpu = [Operation(OperationKind("CPUOnly"), "g", "GPU:0")]
    found = find_fallbacks(
        [*shapes, *texts, *on_gpu], REGISTRY.get, predicted=False, trust_requests=True
    )
    assert [(each.operation, each.count, each.names) for each in found] == [
        ("CPUOnly", 4, ("t0", "t1")),
        ("Shape", 5, ("s0", "s1", "s2")),
    ]


def test_python_runs_on_the_host_on_whatever_device_it_is_placed():
    types = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
    placed = [Operation(OperationKind(each), each, "GPU:0") for each in types]
    found = find_fallbacks(placed, REGISTRY.get, predicted=False, trust_requests=True)
    assert [(each.operation, each.cause) for each in found] == [
        (each, "host function") for each in types
    ]


def test_a_request_for_no_device_is_a_reason_beside_a_gpu():
    asked = [Operation(OperationKind("Good", requested="GPU:3"), "x", "CPU:0")]

    def causes(**around):
        found = find_fallbacks(asked, REGISTRY.get, trust_requests=True, **around)
        return [each.cause for each in found]

    assert causes(predicted=False, devices=("CPU:0", "GPU:0")) == ["no such device"]
    assert causes(predicted=False, devices=("CPU:0", "GPU:3")) == []
    # Where there is no GPU at all, one would have run it.
    assert causes(predicted=True, devices=("CPU:0",)) == []
