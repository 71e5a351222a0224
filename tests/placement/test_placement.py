"""Placement: reading it from TensorFlow, and saying why an operation is on the CPU."""

from __future__ import annotations

import json
import threading
from collections import Counter

import keras
import pytest
import tensorflow as tf
from google.protobuf import text_format
from helpers import prepared
from helpers.processes import TESTS
from placement.cases.two_devices import EXAMPLES, NARROW, WIDE
from placement.cases.watching import HostBound, StatefulNoise, fit, make_model, trained, watched_fit

import keras_gpukit as gpukit
from keras_gpukit.frameworks import tf_functions, tf_runtime
from keras_gpukit.layer_names import LayerNames
from keras_gpukit.profiling.placement.aggregation import make_record, not_compilable
from keras_gpukit.profiling.placement.graphs import find_step, read_step
from keras_gpukit.profiling.placement.operation_names import (
    is_in_loop,
    operation_kernels,
    operation_name,
    short_device,
    xla_refuses,
)
from keras_gpukit.profiling.placement.probe import PlacementProbe
from keras_gpukit.records import OWN_SCOPE, Operation, OperationKind, StepOperations
from keras_gpukit.rules.compute.placement_causes import Surroundings, explain

needs_gpu_kernels = pytest.mark.skipif(
    not tf.sysconfig.get_build_info()["is_cuda_build"], reason="a TensorFlow without GPU kernels"
)


# Names


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("IteratorGetNext", "IteratorGetNext"),
        ("StatefulPartitionedCall/net/dense/MatMul", "net/dense/MatMul"),
        ("StatefulPartitionedCall_1/net/dense/PartitionedCall/mul", "net/dense/mul"),
        ("while/cond/StatefulPartitionedCall/net/dense/MatMul", "net/dense/MatMul"),
        (
            "while/body/_1/while/cond/then/_9/while/cond/StatefulPartitionedCall/net/dense/MatMul",
            "net/dense/MatMul",
        ),
        ("StatefulPartitionedCall/net/rnn/while/body/_5/net/rnn/while/mul", "net/rnn/while/mul"),
    ],
)
def test_operation_name_drops_functions_and_loops(node, expected):
    assert operation_name(node) == expected


def test_names_of_loops_and_devices():
    assert is_in_loop("StatefulPartitionedCall/net/rnn/while/body/_5/net/rnn/while/mul")
    # Keras' own loop over the steps of one execution is none of the model.
    assert not is_in_loop("while/body/_1/while/cond/StatefulPartitionedCall/net/dense/MatMul")
    assert short_device("/job:localhost/replica:0/task:0/device:GPU:0") == "GPU:0"


# Graphs with GPUs in them, written by hand, there being no GPU


def step_graphs(text):
    whole = text.replace('on "', 'device: "/job:localhost/replica:0/task:0/device:')
    return text_format.Parse(whole, tf.compat.v1.RunMetadata.FunctionGraphs())


TWO_DEVICES = """
  pre_optimization_graph {
    node { name: "StatefulPartitionedCall" op: "StatefulPartitionedCall"
           attr { key: "f" value { func { name: "step" } } } }
    library { function { signature { name: "step" }
      node_def { name: "net/dense_1/ReadVariableOp" op: "ReadVariableOp" }
      node_def { name: "net/update/AssignSubVariableOp" op: "AssignSubVariableOp" }
      node_def { name: "net/pin_1/Relu" op: "Relu" device: "/device:CPU:0" }
      node_def { name: "net/text_1/AsString" op: "AsString" }
      node_def { name: "net/dense_1/MatMul" op: "MatMul" } } }
  }
  partition_graphs {
    node { name: "StatefulPartitionedCall/net/dense_1/MatMul" op: "MatMul" on "GPU:0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "r" op: "_Recv" on "GPU:0" }
    node { name: "c" op: "Const" on "GPU:0" }
  }
  partition_graphs {
    node { name: "StatefulPartitionedCall/net/pin_1/Relu" op: "Relu" on "CPU:0"
           attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "StatefulPartitionedCall/net/text_1/AsString" op: "AsString" on "CPU:0" }
    node { name: "get" op: "IteratorGetNext" on "CPU:0" }
    node { name: "s" op: "_Send" on "CPU:0" }
  }
"""

COMPILED = """
  pre_optimization_graph {
    node { name: "StatefulPartitionedCall" op: "StatefulPartitionedCall"
           attr { key: "f" value { func { name: "step" } } } }
    library { function { signature { name: "step" }
    node_def { name: "net/MatMul" op: "MatMul" }
    node_def { name: "net/AsString" op: "AsString" device: "/device:CPU:0" }
    node_def { name: "net/call" op: "PartitionedCall"
               attr { key: "f" value { func { name: "inner" } } } } }
    function { signature { name: "inner" } node_def { name: "Relu" op: "Relu" } } } }
  partition_graphs {
    node { name: "get" op: "IteratorGetNext" device: "/device:CPU:0" }
    node { name: "StatefulPartitionedCall" op: "StatefulPartitionedCall" device: "/device:GPU:0"
           attr { key: "_XlaMustCompile" value { b: true } }
           attr { key: "f" value { func { name: "step" } } } }
  }
"""

ON_GPU_MACHINE = Surroundings(
    devices=("CPU:0", "GPU:0"),
    knows_gpu_kernels=True,
    has_strategy=False,
    layers=LayerNames(frozenset({"pin", "text", "dense"}), numbered=True),
)


def test_partitions_give_operations_by_device_and_transfers():
    reading = read_step(step_graphs(TWO_DEVICES))
    kinds = [(each.kind.type, each.device, each.kind.requested) for each in reading.operations]
    assert kinds == [
        ("MatMul", "GPU:0", ""),
        ("Relu", "CPU:0", "CPU:0"),
        ("AsString", "CPU:0", ""),
        ("IteratorGetNext", "CPU:0", ""),
    ]
    assert reading.operations[0].kind.types == (("T", ("float32",)),)
    record = make_record(reading, ON_GPU_MACHINE, {}.get)
    assert (record.transfers, record.mechanism) == (1, "graph")


@needs_gpu_kernels
def test_fallbacks_beside_a_gpu():
    # What only a machine with a GPU reaches.
    reading = read_step(step_graphs(TWO_DEVICES))
    record = make_record(reading, ON_GPU_MACHINE, operation_kernels)
    assert not record.predicted
    assert record.by_device == {"CPU:0": 3, "GPU:0": 1}
    assert {each.operation: (each.cause, each.names) for each in record.fallbacks} == {
        "Relu": ("requested", ("net/pin/Relu",)),
        "AsString": ("no kernel", ("net/text/AsString",)),
    }


def test_what_xla_compiles_counts_where_the_call_runs():
    # On a GPU, which no test machine has.
    reading = read_step(step_graphs(COMPILED))
    record = make_record(reading, ON_GPU_MACHINE, operation_kernels)
    assert record.mechanism == "xla"
    assert record.operations == {
        "CPU:0": {"IteratorGetNext": 1},
        "GPU:0": {"MatMul": 1, "AsString": 1, "Relu": 1},
    }
    assert record.fallbacks == ()
    (part,) = record.compiled_parts
    assert (part.device, part.operations) == ("GPU:0", 3)
    rows = {row.operation: row for row in record.rows}
    assert rows["MatMul"].compiled
    assert not rows["IteratorGetNext"].compiled
    # XLA pays no heed to devices within what it compiles.
    assert (rows["AsString"].requested, rows["AsString"].device) == ("CPU:0", "GPU:0")
    assert rows["AsString"].cause == "compiled"


def test_what_xla_has_no_kernel_for_is_named_if_it_is_outside_of_what_is_compiled():
    # As XLA's own clustering leaves it, which compiles what it can.
    around = [("MatMul", "cluster_0"), ("AsString", ""), ("IteratorGetNext", ""), ("Sum", "")]
    ran = [Operation(OperationKind(type_), type_, "GPU:0", part) for type_, part in around]
    kernels = {"Sum": False, "AsString": True, "MatMul": False}
    assert not_compilable(ran, lambda type_, device: kernels[type_]) == ("AsString",)
    assert not_compilable(ran, lambda type_, device: None) is None
    assert not_compilable(ran[1:], lambda type_, device: True) is None


def test_the_step_is_the_graph_that_reads_and_assigns_variables():
    step = step_graphs(TWO_DEVICES)
    beside = step_graphs(COMPILED)
    found = find_step([beside, step, beside])
    assert found.pre_optimization_graph == step.pre_optimization_graph
    assert read_step(found) == read_step(step)
    assert find_step([beside]) is None
    assert find_step([]) is None


# What an operation of another thread leaves.
OTHER_THREAD = """
  pre_optimization_graph { node { name: "Mul" op: "Mul" } }
  partition_graphs { node { name: "Mul" op: "Mul" on "CPU:0" } }
"""


def test_a_step_whose_graphs_other_threads_split_is_read_as_a_whole():
    whole, other = step_graphs(TWO_DEVICES), step_graphs(OTHER_THREAD)
    traced, parts = (type(whole)() for _ in range(2))
    traced.pre_optimization_graph.CopyFrom(whole.pre_optimization_graph)
    parts.partition_graphs.extend(whole.partition_graphs)
    for entries in ([traced, other, parts], [other, traced, parts], [traced, parts, other]):
        assert read_step(find_step(entries)) == read_step(whole)
    traced.partition_graphs.extend(other.partition_graphs)
    assert read_step(find_step([traced, parts])) == read_step(whole)


def test_without_gpu_kernels_nothing_is_predicted():
    reading = StepOperations((Operation(OperationKind("CPUOnly"), "t", "CPU:0"),))
    around = Surroundings(("CPU:0",), knows_gpu_kernels=False, has_strategy=False)
    record = make_record(reading, around, {}.get)
    assert record.operations == {"CPU:0": {"CPUOnly": 1}}
    assert (record.fallbacks, record.predicted) == ((), False)


@needs_gpu_kernels
@pytest.mark.parametrize(
    ("type_", "types", "cause"),
    [
        ("AsString", {"T": "float32"}, "no kernel"),
        ("MatMul", {"T": "int32"}, "dtype"),
        ("MatMul", {"T": "float32"}, None),
        ("FusedBatchNormV3", {"T": "float64", "U": "float64"}, "dtype"),
        ("FusedBatchNormV3", {"T": "float32", "U": "float32"}, None),
        ("AddV2", {"T": "int32"}, "host memory"),
        ("AddV2", {"T": "float32"}, None),
        ("Shape", {"T": "float32", "out_type": "int32"}, "host memory"),
        ("Reshape", {"T": "float32", "Tshape": "int32"}, None),
        ("ReadVariableOp", {"dtype": "float32"}, None),
        ("ReadVariableOp", {"dtype": "int32"}, "dtype"),
        ("AssignVariableOp", {"dtype": "int64"}, None),
        ("_MklNativeFusedMatMul", {"T": "float32"}, None),
    ],
)
def test_reason_from_tensorflows_own_registry(type_, types, cause):
    kind = OperationKind(type_, tuple((name, (dtype,)) for name, dtype in types.items()))
    around = Surroundings(("CPU:0",), knows_gpu_kernels=True, has_strategy=False)
    found = explain(kind, operation_kernels, around)
    assert (found and found[0]) == cause


# Real steps


@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_compiled_step(steps_per_execution):
    record = watched_fit(make_model(HostBound(), steps_per_execution=steps_per_execution))
    assert record.mechanism == "graph"
    assert record.unknown_because is None
    assert record.transfers == 0
    counts = record.operations["CPU:0"]
    # Three products of matrices forward, the integers' among them; two gradients by weights, one
    # by the activations.
    assert counts["MatMul"] + counts["_FusedMatMul"] == 6
    assert counts["EagerPyFunc"] == 2
    assert not {"Const", "_Arg", "_Retval", "NoOp", "Identity"} & counts.keys()


@needs_gpu_kernels
def test_compiled_step_predicts_what_a_gpu_would_leave():
    record = watched_fit(make_model(HostBound(name="host_bound")))
    assert record.predicted
    found = {each.operation: each for each in record.fallbacks}
    assert {operation: each.cause for operation, each in found.items()} == {
        "EagerPyFunc": "host function",
        "AsString": "no kernel",
        "StringToNumber": "no kernel",
        "MatMul": "dtype",
        "Softmax": "requested",
        "Sum": "host memory",
        "StatelessRandomGetKeyCounter": "host memory",
    }
    assert found["AsString"].names[0].endswith("/host_bound/AsString")


@needs_gpu_kernels
@pytest.mark.parametrize("call", [tf.py_function, tf.numpy_function])
def test_what_python_functions_take_and_return(call):
    class Python(keras.layers.Layer):
        def call(self, x):
            known = tf.stop_gradient(tf.ensure_shape(call(lambda t: t, [x], x.dtype), x.shape))
            return x + known + tf.reduce_sum(call(lambda t: t, [known[:2]], x.dtype))

    placement = gpukit.DevicePlacement(None)
    fit(make_model(Python()), placement)
    (found,) = (each for each in placement.summary.fallbacks if each.cause == "host function")
    # A batch of 8 by 16 goes in and comes out; two rows go in, and nothing says what comes out.
    assert found.python_bytes == 4 * (2 * 8 * 16 + 2 * 16)


@needs_gpu_kernels
def test_an_ordinary_model_has_no_fallback_that_matters():
    record = watched_fit(make_model())
    assert {each.cause for each in record.fallbacks} <= {"host memory"}


@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(4, marks=pytest.mark.long)])
def test_xla_step(steps_per_execution):
    record = watched_fit(make_model(jit_compile=True, steps_per_execution=steps_per_execution))
    assert record.mechanism == "xla"
    assert record.operations["CPU:0"]["MatMul"] == 5
    assert "StatefulPartitionedCall" not in record.operations["CPU:0"]
    (part,) = record.compiled_parts
    assert part.operations == sum(row.count for row in record.rows if row.compiled)
    assert record.not_compilable == ()  # by XLA's own kernels, which it lists once it has compiled
    assert xla_refuses("AsString", "CPU:0")


def test_an_eager_step_a_step_built_before_and_a_stop_without_start_are_unknown():
    assert "no graph" in watched_fit(make_model(run_eagerly=True)).unknown_because
    model = make_model()
    fit(model)
    record = watched_fit(model)
    assert record.operations == {}
    assert "model.compile(...)" in record.unknown_because
    assert "start()" in PlacementProbe(make_model()).stop().unknown_because


def test_operations_belong_to_the_layers_that_made_them_whatever_these_are_called():
    def dense(activation, name):
        return keras.layers.Dense(8, activation, name=name)

    backbone = keras.Sequential([dense("relu", "mix"), dense("tanh", "mix_1")], name="backbone")
    record = watched_fit(make_model(backbone, dense("elu", "mix_1")))
    layers = {row.operation: row.layer for row in record.rows}
    # A graph fuses activations with their products.
    assert layers["TanhGrad"] == "backbone/mix_1"
    assert layers.get("EluGrad", "mix_1") == "mix_1"  # not in graphs of TensorFlow 2.22


@pytest.fixture(scope="module")
def two_devices():
    """What two logical CPUs give, which have to be set up before TensorFlow."""
    done = prepared.run(TESTS / "placement" / "cases" / "two_devices.py")
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["one", "several"])
def test_bytes_are_those_of_the_tensors_that_cross(two_devices, mode):
    by_source = {each["source"]: each for each in two_devices[mode]["copies"]}
    there, back = by_source["CPU:0"], by_source["CPU:1"]
    assert (there["target"], back["target"]) == ("CPU:1", "CPU:0")
    scalars = [each for each in there["largest"] if not each["shape"]]
    assert len(scalars) == (mode == "several")  # whether Keras' loop turns again, one byte
    sizes = {tuple(each["shape"]): each["size_bytes"] for each in there["largest"] if each["shape"]}
    # Kernel and batch go there, and the product comes back.
    assert sizes == {(WIDE, NARROW): 4 * WIDE * NARROW, (EXAMPLES, WIDE): 4 * EXAMPLES * WIDE}
    assert there["size_bytes"] == sum(sizes.values()) + len(scalars)
    assert back["size_bytes"] == 4 * EXAMPLES * NARROW
    assert there["unknown"] == back["unknown"] == there["in_loops"] == 0
    assert mode == "several" or "far" in {each["layer"] for each in back["largest"]}


def test_requested_and_actual_device_of_a_layer_with_the_reason(two_devices):
    rows = [row for row in two_devices["one"]["rows"] if row["layer"] == "far"]
    products = {(row["requested"], row["device"]) for row in rows if row["operation"] == "MatMul"}
    assert products == {("CPU:1", "CPU:1"), (None, "CPU:0")}  # forward, and the gradient
    (astray,) = (row for row in rows if row["operation"] == "Softplus")
    assert (astray["requested"], astray["expected"]) == ("GPU:7", False)
    assert astray["cause"] == "no such device"
    assert "only CPU:0, CPU:1" in astray["reason"]
    assert two_devices["one"]["rows"][0] == astray


def test_mirrored_step_has_a_partition_for_each_device(two_devices):
    mirrored = two_devices["mirrored"]
    first, second = mirrored["operations"]["CPU:0"], mirrored["operations"]["CPU:1"]
    for operation in ("MatMul", "CollectiveReduceV2"):
        assert first[operation] == second[operation]
    assert mirrored["transfers"] > 0
    # The strategy asks for the CPU because there is nothing else.
    assert "requested" not in mirrored["causes"]


# Harmless


def test_losses_and_weights_are_bit_identical():
    assert trained(True, StatefulNoise()) == trained(False, StatefulNoise())


def test_second_fit_has_the_record_of_the_first():
    model = make_model()
    first, second = watched_fit(model), watched_fit(model)
    assert second is first
    assert not collects_graphs()  # nothing stays on after a step
    model.compile("sgd", "mse", jit_compile=False)
    assert watched_fit(model).operations != first.operations


def collects_graphs():
    tf.function(lambda: tf.constant(1) + 1)()
    return bool(tf_runtime.take_collected_graphs())


def test_a_step_that_raises_leaves_nothing_on():
    class Broken(StatefulNoise):
        def call(self, x):
            raise ZeroDivisionError

    model = make_model()
    model.compute_loss = Broken().call
    with pytest.raises(TypeError):
        watched_fit(model)
    assert not collects_graphs()


def test_a_users_trace_is_left_alone():
    tf.summary.trace_on(graph=True)
    try:
        record = watched_fit(make_model())
    finally:
        tf.summary.trace_off()
    assert "tf.summary.trace_on" in record.unknown_because


def test_operations_of_another_thread_take_nothing_from_the_step():
    over = threading.Event()

    def loads_data():
        while not over.is_set():
            tf.reduce_sum(tf.ones(4))

    alone = watched_fit(make_model())
    thread = threading.Thread(target=loads_data)
    thread.start()
    try:
        record = watched_fit(make_model())
    finally:
        over.set()
        thread.join()
    assert Counter(alone.operations["CPU:0"]) <= Counter(record.operations["CPU:0"])
    # Where both threads' graphs are in one, an operation of the other may count.
    assert sum(record.by_device.values()) < 1.1 * sum(alone.by_device.values())


@pytest.mark.parametrize("name", ["enable_graph_collection", "take_collected_graphs"])
def test_a_private_name_that_goes_makes_placement_unknown(monkeypatch, name):
    if name == "take_collected_graphs":
        monkeypatch.setattr(tf_runtime, "enable_graph_collection", lambda: None)
    monkeypatch.setattr(tf_runtime, name, lambda: tf.no_such_name)
    record = watched_fit(make_model())
    assert record.operations == {}
    assert f"TensorFlow {tf.__version__}" in record.unknown_because


# Private names: each of these fails when TensorFlow drops what it stands on


def test_graph_collection_and_the_registry_are_there():
    tf_runtime.enable_graph_collection()
    assert collects_graphs()
    assert not collects_graphs()
    assert {kernel.device_type for kernel in tf_functions.registered_kernels("MatMul")} >= {"CPU"}
    assert tf_functions.op_def("MatMul").output_arg[0].name == "product"
    assert tf_functions.op_def("NoSuchOperation") is None


def test_operations_that_this_package_adds_are_left_out():
    class Clocked(keras.layers.Layer):
        def call(self, inputs):
            with tf.name_scope(OWN_SCOPE):
                now = tf.timestamp()
            with tf.name_scope("own"):
                then = tf.timestamp()
            with tf.control_dependencies([now, then]):
                return tf.identity(inputs)

    counted = watched_fit(make_model(Clocked())).operations["CPU:0"]
    assert counted["Timestamp"] == 1
