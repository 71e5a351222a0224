"""What TensorFlow's messages and its allocator's log say, in the wording of 2.21."""

import pytest

from keras_gpukit.layer_names import LayerNames
from keras_gpukit.memory.oom_message import OOMMessage, read_message, read_state

MIB = 2**20
TENSOR = (
    "OOM when allocating tensor with shape[128,64,64,64] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc"
)
GRAPH = f"Graph execution error:\n\nDetected at node m_1/conv_b_1/Relu defined at\n{TENSOR}\n\t [["
GRAPH += "{{node m_1/conv_b_1/Relu}}]]\nHint: ... [Op:__inference_multi_step_on_iterator_1225]"
EAGER = (
    "Exception encountered when calling Conv2D.call().\n\n{{function_node __wrapped__BiasAdd_"
    f"device_/job:localhost/replica:0/task:0/device:GPU:1}}}} {TENSOR} [Op:BiasAdd] name: "
)
XLA = "Out of memory while trying to allocate 646.17MiB.\n\t [[{{node StatefulPartitionedCall}}]]"
LOG = """\
W0000 1 bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB \
(rounded to 67108864)requested by op x
I0000 1 bfc_allocator.cc:1085] Next region of size 16777216
I0000 1 bfc_allocator.cc:1105] InUse at 7f4ce2fff040 of size 6291456 next 121
I0000 1 bfc_allocator.cc:1105] Free  at 7f4ce35ff040 of size 10485760 next 184
I0000 1 bfc_allocator.cc:1119] Total size in pool: 16.00MiB memory_limit_: 96.00MiB \
available size: 80.00MiB curr_region_allocation_bytes_: 33554432
"""


@pytest.mark.parametrize(
    ("text", "operation", "is_type"),
    [(GRAPH, "m_1/conv_b_1/Relu", False), (EAGER, "BiasAdd", True)],
)
def test_the_message_names_tensor_device_and_operation(text, operation, is_type):
    assert read_message(text) == OOMMessage(
        (128, 64, 64, 64), "float", 128 * MIB, "GPU:1", operation, is_type
    )


def test_what_xla_and_constants_ask_for_and_no_other_resource():
    message = read_message(XLA)
    assert message is not None
    assert (message.shape, message.asked_bytes) == (None, int(646.17 * MIB))
    text = (
        "Cannot parse tensor from proto: goo.gle/debugproto\ndtype: DT_FLOAT\ntensor_shape {\n"
        "  dim {\n    size: 768\n  }\n  dim {\n    size: 96\n  }\n}\n\n"
        "\t [[{{node StatefulPartitionedCall/AddN_5/tmp_var_zeros}}]]"
    )
    message = read_message(text)
    assert message is not None
    assert (message.shape, message.asked_bytes) == ((768, 96), 4 * 768 * 96)
    assert read_message("Too many open files") is None


def test_the_log_has_what_was_in_use_and_the_largest_free_block_unless_it_is_damaged():
    state = read_state("something before\n" + LOG.replace("64.00MiB", "1MiB") + LOG)
    assert state is not None
    assert state.asked_bytes == 64 * MIB
    assert state.in_use_bytes == 6 * MIB
    assert state.free_bytes == 90 * MIB
    assert state.largest_free_bytes == 80 * MIB
    assert state.limit_bytes == 96 * MIB
    assert read_state("") is None
    assert read_state(LOG[: LOG.index("InUse")]) is None


NAMES = frozenset({"conv2d", "conv2d_1", "backbone"})


@pytest.mark.parametrize(
    ("numbered", "operation", "layer"),
    [
        (True, "model_1/conv2d_1/Relu", "conv2d"),
        (True, "model_1/conv2d_1_2/Relu", "conv2d_1"),
        (True, "gradient_tape/model_1/backbone_1/conv2d_1/Conv2DBackpropFilter", "backbone/conv2d"),
        (True, "adam/add", None),
        # In the body of a loop
        (True, "model_1/backbone_1/while/model_1/backbone_1/while/conv2d_1/mul", "backbone/conv2d"),
        # Without a scope of its building, only further calls are numbered.
        (False, "model/conv2d/Relu", "conv2d"),
        (False, "model/conv2d_1/Relu", "conv2d_1"),
        (False, "model/conv2d_1_1/Relu", "conv2d_1"),
        (False, "model/backbone_1/conv2d/Relu", "backbone/conv2d"),
    ],
)
def test_an_operation_belongs_to_the_layer_whose_scope_it_is_in(numbered, operation, layer):
    assert LayerNames(NAMES, numbered=numbered).of(operation) == layer


def test_names_are_shown_with_layers_as_the_model_calls_them():
    layers = LayerNames(NAMES, numbered=True)
    spelt = layers.spelt("model_1/backbone_1/conv2d_1_2/Relu_1")
    assert spelt == "model_1/backbone/conv2d_1/Relu_1"
