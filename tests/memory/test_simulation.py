"""Which tensors a step holds when, on graphs made by hand."""

from __future__ import annotations

import pytest

from keras_gpukit.memory.bfc import BFC
from keras_gpukit.memory.kernels import cpu_workspace_bytes
from keras_gpukit.memory.simulation import Simulation
from keras_gpukit.memory.step_graph import TRACED_BATCH, Node, StepGraph

KIB = 1024


def node(name, operation, *inputs, columns=256):
    sources = tuple(each if isinstance(each, tuple) else (each, 0) for each in inputs)
    return Node(name, operation, sources, ((TRACED_BATCH, columns),), (4,))


def step(*nodes, results=()):
    return StepGraph(nodes, frozenset((name, 0) for name in results))


def peak(graph, batch_size=1, allocator=None, **options):
    settings = {"order": "oldest first", "workspace": lambda node: 0, **options}
    return Simulation(graph, batch_size, allocator or BFC(), **settings).run()


CHAIN = (
    node("x", "Placeholder"),
    node("a", "MatMul", "x"),
    node("b", "MatMul", "a"),
    node("c", "MatMul", "b"),
)


def test_a_tensor_is_freed_after_its_last_use():
    assert peak(step(*CHAIN)).in_use_bytes == 2 * KIB


def test_what_the_backward_pass_needs_is_held_until_then():
    backward = node("gradient_tape/a", "MatMul", "c", "a", "b")
    assert peak(step(*CHAIN, backward)).in_use_bytes == 4 * KIB


def test_an_activation_writes_over_its_input_if_nothing_else_needs_that():
    alone = step(*CHAIN[:2], node("r", "Relu", "a"))
    shared = step(*CHAIN[:2], node("r", "Relu", "a"), node("s", "MatMul", "r", "a"))
    assert peak(alone).in_use_bytes == KIB
    assert peak(alone, in_place=False).in_use_bytes == 2 * KIB
    assert peak(shared).in_use_bytes == 3 * KIB


def test_a_reshape_takes_nothing():
    assert peak(step(*CHAIN[:2], node("r", "Reshape", "a"))).in_use_bytes == KIB


def test_sizes_follow_the_batch():
    assert peak(step(*CHAIN), batch_size=8).in_use_bytes == 16 * KIB


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
    kept = peak(graph, order="as written", in_place=False, keeps_forward=True)
    assert kept.in_use_bytes == 3 * KIB


def test_workspace_counts_while_its_operation_runs():
    graph = step(*CHAIN)
    most = peak(graph, workspace=lambda node: 4 * KIB if node.name == "a" else 0)
    assert most.in_use_bytes == 5 * KIB


def test_workspaces_of_two_operations_can_be_held_at_once():
    graph = step(*CHAIN)
    needs = {"a": 4 * KIB, "b": 8 * KIB}

    def most(**options):
        return peak(graph, workspace=lambda node: needs.get(node.name, 0), **options)

    assert most().in_use_bytes == 10 * KIB
    assert most(overlaps=True).in_use_bytes == 14 * KIB


def test_a_limit_is_kept():
    with pytest.raises(MemoryError):
        peak(step(*CHAIN), batch_size=1024, allocator=BFC(limit_bytes=KIB))


def test_a_chunk_is_divided_only_if_it_is_twice_as_large():
    allocator = BFC()
    large, _ = allocator.allocate(1000 * KIB), allocator.allocate(KIB)
    allocator.free(large)
    used = allocator.in_use_bytes
    allocator.allocate(600 * KIB)
    assert allocator.in_use_bytes - used == 1000 * KIB


def test_free_neighbours_become_one_chunk():
    allocator = BFC()
    chunks = [allocator.allocate(500 * KIB) for _ in range(4)]
    for chunk in (chunks[1], chunks[3], chunks[2]):
        allocator.free(chunk)
    allocator.allocate(1500 * KIB)
    assert allocator.pool_bytes == 2048 * KIB


def test_a_convolution_s_gradient_takes_patches_of_as_many_images_as_the_cache_holds():
    filters, gradient = (3, 3, 64, 64), (16, 32, 32, 64)
    unit = 32 * 32 * 576 + 32 * 32 * 64 + 576 * 64
    images = -(-(30 * 2**20 // 4) // unit)
    needs = cpu_workspace_bytes("Conv2DBackpropFilter", filters, [None, (4,), gradient], 2)
    assert needs == 4 * images * 32 * 32 * 576
