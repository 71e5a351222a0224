"""Whether an operation is where it was expected, and why not. The GPUs are made up."""

from __future__ import annotations

import pytest

from keras_gpukit.records import Kernel, OperationKernels, OperationKind, PlacedOperations
from keras_gpukit.rules.compute.placement_causes import (
    by_likely_mistake,
    is_missing,
    judge_placement,
    nearest,
)

FLOATS = Kernel({"T": frozenset({"float32"})}, frozenset())
INTS_ON_HOST = Kernel({"T": frozenset({"int32"})}, frozenset({"x", "y"}))
REGISTRY = {
    "MatMul": OperationKernels(("x",), ("y",), False, (FLOATS,)),
    "AddV2": OperationKernels(("x",), ("y",), False, (FLOATS, INTS_ON_HOST)),
    "AsString": OperationKernels(("x",), ("y",), False, ()),
    "ReadVariableOp": OperationKernels((), ("value",), True, (Kernel({}, frozenset()),)),
    "VarHandleOp": OperationKernels((), ("handle",), False, (Kernel({}, frozenset()),)),
}.get
TWO_GPUS = ("CPU:0", "GPU:0", "GPU:1")


def kind(type_, dtype="float32", **arguments):
    return OperationKind(type_, (("T", (dtype,)),), **arguments)


def judge(kind, device, devices=TWO_GPUS, predicted=False):
    return judge_placement(
        kind, device, REGISTRY, devices=devices, predicted=predicted, trust_requests=True
    )


@pytest.mark.parametrize(
    ("kind", "device", "expected", "cause"),
    [
        (kind("MatMul"), "GPU:0", True, None),
        (kind("AsString"), "CPU:0", False, "no kernel"),
        (kind("MatMul", "int32"), "CPU:0", False, "dtype"),
        (kind("AddV2", "int32"), "CPU:0", False, "host memory"),
        (kind("EagerPyFunc"), "CPU:0", False, "host function"),
        (kind("EagerPyFunc"), "GPU:0", True, "host function"),  # so TensorFlow says, of no Python
        (kind("MatMul", requested="CPU:0"), "CPU:0", True, "requested"),
        # Asked onto a GPU, and not there
        (kind("MatMul", "int32", requested="GPU:1"), "CPU:0", False, "dtype"),
        (kind("MatMul", requested="GPU:*"), "GPU:1", True, None),
        (kind("MatMul", requested="GPU:0"), "GPU:1", False, None),
        (kind("MatMul", requested="GPU:2"), "GPU:0", False, "no such device"),
        (kind("MatMul", requested="GPU:2"), "CPU:0", False, "no such device"),
        # Where its variable is, or another operation
        (kind("ReadVariableOp", requested="GPU:0"), "GPU:1", False, "variable elsewhere"),
        (kind("ReadVariableOp"), "CPU:0", False, "variable elsewhere"),
        (kind("MatMul", colocated="table/lookup"), "CPU:0", False, "variable elsewhere"),
        # No reason is known
        (kind("MatMul"), "CPU:0", False, None),
        (kind("NeverHeardOf"), "CPU:0", False, None),
        (kind("IteratorGetNext"), "CPU:0", True, None),
        # Within what XLA compiled
        (kind("AsString", compiled=True), "GPU:0", True, None),
        (kind("MatMul", compiled=True, ignored_request="CPU:0"), "GPU:0", False, "compiled"),
        (kind("MatMul", compiled=True, ignored_request="GPU:0"), "GPU:0", True, None),
    ],
)
def test_where_an_operation_was_expected(kind, device, expected, cause):
    found, why = judge(kind, device)
    assert (found, why and why[0]) == (expected, cause)


def test_without_a_gpu_only_what_a_gpu_would_leave_has_a_reason():
    cpu = ("CPU:0",)
    assert judge(kind("MatMul"), "CPU:0", cpu, predicted=True) == (True, None)
    assert judge(kind("AsString"), "CPU:0", cpu, predicted=True)[1][0] == "no kernel"
    assert judge(kind("AsString"), "CPU:0", cpu) == (True, None)
    assert judge(kind("ReadVariableOp"), "CPU:0", cpu, predicted=True) == (True, None)


def test_a_name_of_no_device_is_answered_with_those_that_are():
    _, (_, reason) = judge(kind("MatMul", requested="GPU:4"), "GPU:0")
    assert "asks for GPU:4" in reason
    assert "only CPU:0, GPU:0, GPU:1" in reason
    assert "ran it on GPU:0" in reason
    assert "Ask for GPU:1." in reason
    _, (_, reason) = judge(kind("MatMul", requested="GPU:0"), "CPU:0", ("CPU:0",))
    assert "keras-gpukit doctor" in reason
    _, (_, reason) = judge(kind("MatMul", requested="CUDA:0"), "GPU:0")
    assert reason.endswith("Ask for one of these.")


@pytest.mark.parametrize(
    ("requested", "like"),
    [("GPU:9", "GPU:1"), ("CPU:1", "CPU:0"), ("GPUS:0", "GPU:0"), ("FPGA:0", None)],
)
def test_the_nearest_device_is_of_the_same_or_a_similar_kind(requested, like):
    assert is_missing(requested, TWO_GPUS)
    assert nearest(requested, TWO_GPUS) == like


def test_nothing_is_missing_where_the_devices_are_not_known():
    assert not is_missing("GPU:7", ())
    assert not is_missing("", TWO_GPUS)
    assert not is_missing("gpu:1", TWO_GPUS)


def test_mistakes_come_before_what_is_usual():
    def row(cause=None, expected=False, count=1):
        return PlacedOperations("A", None, "CPU:0", count, expected=expected, cause=cause)

    rows = [
        row(expected=True, count=90),
        row("host memory", count=50),
        row("requested", expected=True, count=40),
        row(),
        row("variable elsewhere"),
        row("no kernel"),
        row("no kernel", count=3),
        row("no such device"),
    ]
    found = [(each.cause, each.count) for each in sorted(rows, key=by_likely_mistake)]
    assert found == [
        ("no such device", 1),
        ("no kernel", 3),
        ("no kernel", 1),
        ("variable elsewhere", 1),
        (None, 1),
        ("requested", 40),
        ("host memory", 50),
        (None, 90),
    ]
