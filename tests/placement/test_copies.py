"""What a step copies between devices: on two logical CPUs, and in graphs with GPUs made by hand."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf
from google.protobuf import text_format
from helpers import prepared
from helpers.processes import TESTS
from placement.cases.two_devices import EXAMPLES, NARROW, WIDE

from keras_gpukit.layer_names import NO_LAYERS
from keras_gpukit.placement import summing_up
from keras_gpukit.placement.copies import infer_shapes, read_sent, sent_outputs, sum_copies
from keras_gpukit.placement.summing_up import Surroundings, make_record
from keras_gpukit.records import Operation, OperationKind, SentTensor, StepOperations


@pytest.fixture(scope="module")
def placed():
    """The placement of a model on two devices, by mode."""
    done = prepared.run(TESTS / "placement" / "cases" / "two_devices.py", "one", "several")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["one", "several"])
def test_bytes_are_those_of_the_tensors_that_cross(placed, mode):
    there, back = (
        next(each for each in placed[mode]["copies"] if each["source"] == source)
        for source in ("CPU:0", "CPU:1")
    )
    assert (there["target"], back["target"]) == ("CPU:1", "CPU:0")
    scalars = [each for each in there["largest"] if not each["shape"]]
    assert len(scalars) == (mode == "several")  # whether Keras' loop turns again, one byte
    sizes = {tuple(each["shape"]): each["size_bytes"] for each in there["largest"] if each["shape"]}
    # Kernel and batch go there, and the product comes back.
    assert sizes == {
        (WIDE, NARROW): 4 * WIDE * NARROW,
        (EXAMPLES, WIDE): 4 * EXAMPLES * WIDE,
    }
    assert there["size_bytes"] == sum(sizes.values()) + len(scalars)
    assert back["size_bytes"] == 4 * EXAMPLES * NARROW
    assert there["unknown"] == back["unknown"] == 0
    assert there["in_loops"] == 0


def test_the_largest_tensors_have_the_name_of_their_layer(placed):
    back = next(each for each in placed["one"]["copies"] if each["source"] == "CPU:1")
    assert "far" in {each["layer"] for each in back["largest"]}


def test_requested_and_actual_device_of_a_layer_with_the_reason(placed):
    rows = [row for row in placed["one"]["rows"] if row["layer"] == "far"]
    products = {(row["requested"], row["device"]) for row in rows if row["operation"] == "MatMul"}
    assert products == {("CPU:1", "CPU:1"), (None, "CPU:0")}  # forward, and the gradient
    (astray,) = (row for row in rows if row["operation"] == "Softplus")
    assert (astray["requested"], astray["expected"]) == ("GPU:7", False)
    assert astray["cause"] == "no such device"
    assert "only CPU:0, CPU:1" in astray["reason"]
    assert placed["one"]["rows"][0] == astray


# A GPU next to a CPU, which no test machine has

CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}:0" for name in ("CPU", "GPU"))


def way(name, source, target):
    values = {"tensor_name": name, "send_device": source, "recv_device": target}
    return " ".join(
        f'attr {{ key: "{key}" value {{ s: "{value}" }} }}' for key, value in values.items()
    )


BATCH = """node { name: "get" op: "IteratorGetNext" input: "iterator" device: "CPU:0"
  attr { key: "output_types" value { list { type: [DT_FLOAT, DT_STRING] } } }
  attr { key: "output_shapes" value { list {
    shape { dim { size: -1 } dim { size: 8 } } shape { dim { size: -1 } } } } } }
  node { name: "iterator" op: "Placeholder" attr { key: "dtype" value { type: DT_RESOURCE } } }
  node { name: "get/shape" op: "Shape" input: "get" attr { key: "T" value { type: DT_FLOAT } } }
"""
ON_CPU = f"""{BATCH}
  node {{ name: "s0" op: "_Send" input: "get" attr {{ key: "T" value {{ type: DT_FLOAT }} }}
    {way("batch", CPU, GPU)} }}
  node {{ name: "s1" op: "_Send" input: "get:1" attr {{ key: "T" value {{ type: DT_STRING }} }}
    {way("text", CPU, GPU)} }}
  node {{ name: "s2" op: "_Send" input: "get/shape" attr {{ key: "T" value {{ type: DT_INT32 }} }}
    {way("shape", CPU, GPU)} }}
  node {{ name: "order" op: "Const" input: "^get" attr {{ key: "value" value {{
    tensor {{ dtype: DT_FLOAT tensor_shape {{ dim {{ size: 0 }} }} }} }} }} }}
  node {{ name: "s3" op: "_Send" input: "order" attr {{ key: "T" value {{ type: DT_FLOAT }} }}
    {way("order", CPU, GPU)} }}
  node {{ name: "s4" op: "_Send" input: "gpukit_clock/now" {way("clock", CPU, GPU)} }}
  node {{ name: "s5" op: "_Send" input: "get" {way("clocked", CPU, GPU)}
    attr {{ key: "_dst" value {{ s: "net/gpukit_clock/now" }} }} }}
"""
ON_GPU = f"""
  node {{ name: "r0" op: "_Recv" {way("batch", CPU, GPU)} }}
  node {{ name: "r1" op: "_HostRecv" {way("text", CPU, GPU)} }}
  node {{ name: "r2" op: "_HostRecv" {way("shape", CPU, GPU)} }}
  node {{ name: "r3" op: "_Recv" {way("order", CPU, GPU)} }}
"""


def graph(text):
    return text_format.Parse(text, tf.compat.v1.GraphDef())


@pytest.mark.parametrize(("batch_size", "size_bytes"), [(32, 4 * 32 * 8), (None, None)])
def test_only_what_crosses_to_the_gpus_memory_counts(batch_size, size_bytes):
    partitions = [graph(ON_CPU), graph(ON_GPU)]
    shapes = infer_shapes(graph(BATCH), sent_outputs(partitions), batch_size)
    (copies,) = sum_copies(read_sent(partitions, shapes), NO_LAYERS)
    assert (copies.source, copies.target, copies.count) == ("CPU:0", "GPU:0", 3)
    assert (copies.size_bytes, copies.unknown) == (size_bytes, 0 if batch_size else 1)
    # Text and shapes stay in host memory, where the GPU's kernels read them.
    assert copies.host_only == 2


def test_copies_are_summed_up_by_their_ends_the_most_bytes_first():
    def sent(source, target, size_bytes):
        return SentTensor("op", source, target, "float32", (1,), size_bytes)

    copies = sum_copies(
        [
            sent("GPU:0", "CPU:0", 30),
            sent("CPU:0", "GPU:0", 40),
            sent("CPU:0", "GPU:0", 10),
            sent("GPU:0", "CPU:0", None),
        ],
        NO_LAYERS,
    )
    assert [(each.source, each.size_bytes, each.unknown) for each in copies] == [
        ("CPU:0", 50, 0),
        ("GPU:0", 30, 1),
    ]


def test_of_many_operations_those_that_a_table_leaves_out_are_counted(monkeypatch):
    monkeypatch.setattr(summing_up, "MOST_ROWS", 1)
    kinds = ["MatMul"] * 2 + ["Relu"] * 3 + ["Add"] * 4
    ran = tuple(Operation(OperationKind(each), "op", "CPU:0") for each in kinds)
    around = Surroundings(("CPU:0",), knows_gpu_kernels=False, has_strategy=False)
    record = make_record(StepOperations(ran, 0, "graph"), around, lambda type_: None)
    (row,) = record.rows
    assert (record.rows_left_out, record.operations_left_out) == (2, 9 - row.count)
