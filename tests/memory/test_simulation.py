"""Which tensors a step holds when, on graphs made by hand."""

from types import SimpleNamespace

import pytest

from keras_gpukit.memory.kernels import workspace_bytes
from keras_gpukit.memory.simulation import BFC, Simulation
from keras_gpukit.memory.step_graph import TRACED_BATCH, GraphNode, StepGraph
from keras_gpukit.memory.step_memory import StepMemory

KIB = 1024


def node(name, operation, *inputs, columns=256):
    sources = tuple(each if isinstance(each, tuple) else (each, 0) for each in inputs)
    return GraphNode(name, operation, sources, ((TRACED_BATCH, columns),), (4,))


def step(*nodes, results=()):
    return StepGraph(nodes, frozenset((name, 0) for name in results))


def peak(graph, batch_size=1, limit_bytes=None, **options):
    settings = {"order": "oldest first", "workspace": lambda node: 0, **options}
    return Simulation(graph, batch_size, BFC(limit_bytes), **settings).run()


CHAIN = (
    node("x", "Placeholder"),
    node("a", "MatMul", "x"),
    node("b", "MatMul", "a"),
    node("c", "MatMul", "b"),
)


def test_a_tensor_is_freed_after_its_last_use_and_sizes_follow_the_batch():
    assert peak(step(*CHAIN)).in_use_bytes == 2 * KIB
    backward = node("gradient_tape/a", "MatMul", "c", "a", "b")
    assert peak(step(*CHAIN, backward)).in_use_bytes == 4 * KIB
    assert peak(step(*CHAIN[:2], node("r", "Reshape", "a"))).in_use_bytes == KIB
    assert peak(step(*CHAIN), batch_size=8).in_use_bytes == 16 * KIB


def test_an_activation_writes_over_its_input_if_nothing_else_needs_that():
    alone = step(*CHAIN[:2], node("r", "Relu", "a"))
    shared = step(*CHAIN[:2], node("r", "Relu", "a"), node("s", "MatMul", "r", "a"))
    assert peak(alone).in_use_bytes == KIB
    assert peak(alone, order="as written").in_use_bytes == 2 * KIB
    assert peak(shared).in_use_bytes == 3 * KIB


def test_the_order_decides_how_long_gradients_wait():
    nodes = [node("x", "Placeholder")]
    for index in range(4):
        before = "x" if not index else f"g{index - 1}"
        nodes += [node(f"g{index}", "MatMul", before), node(f"w{index}", "MatMul", before)]
        nodes.append(node(f"u{index}", "MatMul", f"w{index}", columns=1))
    graph = step(*nodes)
    oldest, newest = (peak(graph, order=f"{each} first") for each in ("oldest", "newest"))
    assert oldest.in_use_bytes != newest.in_use_bytes


def test_eager_steps_keep_the_forward_pass_until_the_backward_pass():
    graph = step(*CHAIN, node("gradient_tape/d", "MatMul", "c"))
    kept = peak(graph, order="as written", keeps_forward=True)
    assert kept.in_use_bytes == 3 * KIB


def test_workspace_counts_while_its_operation_runs():
    graph = step(*CHAIN)
    most = peak(graph, workspace=lambda node: 4 * KIB if node.name == "a" else 0)
    assert most.in_use_bytes == 5 * KIB


def test_a_limit_is_kept_and_what_is_taken_already_counts_for_it():
    with pytest.raises(MemoryError):
        peak(step(*CHAIN), batch_size=1024, limit_bytes=KIB)
    allocator = BFC(limit_bytes=6 * 2**20)
    allocator.allocate(2 * 2**20)
    with pytest.raises(MemoryError):
        allocator.allocate(5 * 2**20)


class FitsUpTo(StepMemory):
    """A step that fits into memory up to a batch size."""

    def __init__(self, most):
        self.graph, self.fits = SimpleNamespace(scales=True), lambda size, limit_bytes: size <= most


@pytest.mark.parametrize("most", [1, 15, 16, 17, 1000])
def test_the_largest_batch_is_the_last_one_that_fits(most):
    assert FitsUpTo(most).largest_batch(KIB) == most


def test_a_chunk_is_divided_if_it_is_twice_as_large_and_free_neighbours_become_one():
    allocator = BFC()
    large, _ = allocator.allocate(1000 * KIB), allocator.allocate(KIB)
    allocator.free(large)
    used = allocator.in_use_bytes
    allocator.allocate(600 * KIB)
    assert allocator.in_use_bytes - used == 1000 * KIB
    allocator = BFC()
    chunks = [allocator.allocate(500 * KIB) for _ in range(4)]
    for chunk in (chunks[1], chunks[3], chunks[2]):
        allocator.free(chunk)
    allocator.allocate(1500 * KIB)
    assert allocator.pool_bytes == 2048 * KIB


def test_a_convolution_takes_as_much_as_its_tensors_or_a_share_of_the_cache():
    tensors = (3, 3, 64, 64), [(16, 32, 32, 64), (4,), (16, 32, 32, 64)]
    elements = 2 * 16 * 32 * 32 * 64 + 9 * 64 * 64 + 4
    assert workspace_bytes("Conv2D", *tensors, on_gpu=True) == 4 * elements
    assert workspace_bytes("MatMul", *tensors, on_gpu=True) == 0
    assert workspace_bytes("Conv2D", *tensors, on_gpu=False) == 0
    patches, others = 32 * 32 * 576, 32 * 32 * 64 + 576 * 64
    share = workspace_bytes("Conv2DBackpropFilter", *tensors, on_gpu=False)
    assert share == 30 * 2**20 * patches // (patches + others)
