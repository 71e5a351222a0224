"""What a step copies between devices, in graphs with GPUs made by hand."""

from __future__ import annotations

import pytest
import tensorflow as tf
from google.protobuf import text_format

from keras_gpukit.layer_names import NO_LAYERS
from keras_gpukit.profiling.placement import aggregation
from keras_gpukit.profiling.placement.aggregation import make_record
from keras_gpukit.profiling.placement.copies import (
    infer_shapes,
    read_sent,
    sent_outputs,
    sum_copies,
)
from keras_gpukit.records import Operation, OperationKind, SentTensor, StepOperations
from keras_gpukit.rules.compute.placement_causes import Surroundings

# A GPU next to a CPU, which no test machine has.
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
    up, down = ("CPU:0", "GPU:0"), ("GPU:0", "CPU:0")
    sent = [
        SentTensor("op", *way, "float32", (1,), size_bytes)
        for way, size_bytes in ((down, 30), (up, 40), (up, 10), (down, None))
    ]
    copies = [(each.source, each.size_bytes, each.unknown) for each in sum_copies(sent, NO_LAYERS)]
    assert copies == [("CPU:0", 50, 0), ("GPU:0", 30, 1)]


def test_of_many_operations_those_that_a_table_leaves_out_are_counted(monkeypatch):
    monkeypatch.setattr(aggregation, "MOST_ROWS", 1)
    kinds = ["MatMul"] * 2 + ["Relu"] * 3 + ["Add"] * 4
    ran = tuple(Operation(OperationKind(each), "op", "CPU:0") for each in kinds)
    around = Surroundings(("CPU:0",), knows_gpu_kernels=False, has_strategy=False)
    record = make_record(StepOperations(ran), around, lambda type_: None)
    (row,) = record.rows
    assert (record.rows_left_out, record.operations_left_out) == (2, 9 - row.count)
