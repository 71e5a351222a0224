"""Whether an operation is where it was expected, and why not. The GPUs and kernels are made up."""

import pytest

from keras_gpukit import records
from keras_gpukit.rules.compute.placement_causes import (
    Surroundings,
    by_likely_mistake,
    explain,
    find_fallbacks,
    is_missing,
    judge_placement,
    nearest,
)


def kernels(*gpu, inputs=("x",), outputs=("y",), uses_resource=False):
    return records.OperationKernels(inputs, outputs, uses_resource, gpu)


def kernel(dtypes=(), on_host=(), argument="T"):
    return records.Kernel({argument: frozenset(dtypes)} if dtypes else {}, frozenset(on_host))


FLOATS = kernel(("float32", "float16"))
REGISTRY = {
    "MatMul": kernels(FLOATS),
    "AddV2": kernels(FLOATS, kernel(("int32",), ("x", "y"))),
    "AsString": kernels(),
    "Shape": kernels(kernel(on_host=("y",))),
    "Reshape": kernels(kernel(on_host=("shape",)), inputs=("x", "shape")),
    "Gather": kernels(kernel(), uses_resource=True),
    "VarHandleOp": kernels(kernel(("float32",), argument="dtype")),
    "ReadVariableOp": kernels(kernel(), uses_resource=True),
    "_FusedMatMul": kernels(FLOATS),
}.get
TWO_GPUS = ("CPU:0", "GPU:0", "GPU:1")
WITHOUT = ("CPU:0",)


def around(devices=WITHOUT, *, knows_gpu_kernels=True, has_strategy=False):
    return Surroundings(devices, knows_gpu_kernels, has_strategy)


def kind(type_, dtype=None, argument="T", **arguments):
    return records.OperationKind(type_, ((argument, (dtype,)),) if dtype else (), **arguments)


@pytest.mark.parametrize(
    ("kind", "cause", "words"),
    [
        (kind("AsString"), "no kernel", "no GPU kernel for AsString"),
        (kind("MatMul", "int32"), "dtype", "take float16, float32, not T=int32. Cast to float32"),
        (kind("_MklMatMul", "int32"), "dtype", "kernels of MatMul"),
        (kind("_MklNativeFusedMatMul", "int32"), "dtype", "_FusedMatMul"),
        (kind("Shape"), "host memory", "keeps y in host memory"),
        (kind("ReadVariableOp", "int32", "dtype"), "dtype", "no GPU variables of dtype int32"),
        (kind("EagerPyFunc"), "host function", "calls Python"),
        (kind("MatMul", requested="CPU:0"), "requested", "asks for CPU:0"),
    ],
)
def test_reason(kind, cause, words):
    found = explain(kind, REGISTRY, around())
    assert found is not None
    assert found[0] == cause
    assert words in found[1]


@pytest.mark.parametrize(
    ("kind", "has_strategy"),
    [
        (kind("MatMul", "float32"), False),
        (kind("MatMul", requested="CPU:0"), True),
        (kind("MatMul", requested="GPU:0"), False),
        (kind("AsString", compiled=True), False),
        *((kind(each), False) for each in ("Reshape", "Gather", "IteratorGetNext")),
        *(
            (kind(each), False)
            for each in ("TensorSliceDataset", "NeverHeardOf", "_MklNeverHeardOf")
        ),
    ],
)
def test_no_reason(kind, has_strategy):
    assert explain(kind, REGISTRY, around(has_strategy=has_strategy)) is None


def test_a_variable_that_was_created_on_the_cpu_is_a_reason_where_it_is_known():
    found = explain(kind("Gather"), REGISTRY, around(TWO_GPUS))
    assert (found[0], "created on the CPU" in found[1]) == ("variable elsewhere", True)


def fallbacks(*operations, devices=TWO_GPUS):
    found = find_fallbacks(operations, REGISTRY, around(devices))
    return [(each.operation, each.cause, each.count, each.names) for each in found]


def test_fallbacks_are_grouped_and_cheap_ones_last():
    shapes = [records.Operation(kind("Shape"), f"s{i}", "CPU:0") for i in range(5)]
    texts = [records.Operation(kind("AsString"), f"t{i // 2}", "CPU:0") for i in range(4)]
    assert fallbacks(*shapes, *texts, records.Operation(kind("AsString"), "g", "GPU:0")) == [
        ("AsString", "no kernel", 4, ("t0", "t1")),
        ("Shape", "host memory", 5, ("s0", "s1", "s2")),
    ]
    # Python runs on the host, on whatever device it is placed.
    types = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
    placed = [records.Operation(kind(each), each, "GPU:0") for each in types]
    assert [each[:2] for each in fallbacks(*placed)] == [(each, "host function") for each in types]


def test_a_request_for_no_device_is_a_reason_next_to_a_gpu():
    asked = records.Operation(kind("MatMul", requested="GPU:3"), "x", "CPU:0")
    [found] = fallbacks(asked, devices=("CPU:0", "GPU:0"))
    assert found[1] == "no such device"
    assert fallbacks(asked, devices=("CPU:0", "GPU:3")) == []
    # Where there is no GPU at all, one would have run it.
    assert fallbacks(asked, devices=WITHOUT) == []


def judge(kind, device, devices=TWO_GPUS, predicted=False):
    return judge_placement(kind, device, REGISTRY, around(devices, knows_gpu_kernels=predicted))


@pytest.mark.parametrize(
    ("kind", "device", "expected", "cause"),
    [
        (kind("MatMul", "float32"), "GPU:0", True, None),
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
        (kind("MatMul", "float32"), "CPU:0", False, None),
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
    assert judge(kind("MatMul", "float32"), "CPU:0", WITHOUT, predicted=True) == (True, None)
    assert judge(kind("AsString"), "CPU:0", WITHOUT, predicted=True)[1][0] == "no kernel"
    assert judge(kind("AsString"), "CPU:0", WITHOUT) == (True, None)
    assert judge(kind("ReadVariableOp"), "CPU:0", WITHOUT, predicted=True) == (True, None)


def test_a_name_of_no_device_is_answered_with_those_that_are():
    def reason(requested, device="GPU:0", devices=TWO_GPUS):
        return judge(kind("MatMul", "float32", requested=requested), device, devices)[1][1]

    said = reason("GPU:4")
    for words in ("asks for GPU:4", "only CPU:0, GPU:0, GPU:1", "ran it on GPU:0"):
        assert words in said
    assert "Ask for GPU:1." in said
    assert "keras-gpukit doctor" in reason("GPU:0", "CPU:0", WITHOUT)
    assert reason("CUDA:0").endswith("Ask for one of these.")


@pytest.mark.parametrize(
    ("requested", "like"),
    [("GPU:9", "GPU:1"), ("CPU:1", "CPU:0"), ("GPUS:0", "GPU:0"), ("FPGA:0", None)],
)
def test_the_nearest_device_is_of_the_same_or_a_similar_kind(requested, like):
    assert is_missing(requested, TWO_GPUS)
    assert nearest(requested, TWO_GPUS) == like
    # Nothing is missing where the devices are not known, and in any case of letters.
    assert not is_missing(requested, ())
    assert not is_missing("", TWO_GPUS)
    assert not is_missing("gpu:1", TWO_GPUS)


def test_mistakes_come_before_what_is_usual():
    ranked = [
        ("no such device", False, 1),
        ("no kernel", False, 3),
        ("no kernel", False, 1),
        ("variable elsewhere", False, 1),
        (None, False, 1),
        ("requested", True, 40),
        ("host memory", False, 50),
        (None, True, 90),
    ]
    rows = [
        records.PlacedOperations("A", None, "CPU:0", count, expected=expected, cause=cause)
        for cause, expected, count in reversed(ranked)
    ]
    found = sorted(rows, key=by_likely_mistake)
    assert [(each.cause, each.expected, each.count) for each in found] == ranked
