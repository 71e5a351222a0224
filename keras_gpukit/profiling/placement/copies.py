"""Finds the tensors that a step copies between devices, and their sizes.

The copies are the sends in its partition graphs. Sizes come from TensorFlow's shape inference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any

from keras_gpukit.layer_names import LayerNames
from keras_gpukit.profiling.placement.operation_names import (
    dtype_bytes,
    dtype_name,
    is_in_loop,
    is_own,
    operation_name,
    short_device,
)
from keras_gpukit.records.placement import PYTHON_OPERATIONS, CopiedTensor, DeviceCopies, SentTensor

# Only the sending side of a copy, so that each pair of send and receive counts once.
_SENDS = frozenset({"_Send", "_HostSend"})
_LARGEST_LISTED = 5
# Operations that return a batch. Its size is open in the graph if the last batch may be smaller.
_GIVES_BATCH = ("IteratorGetNext", "OptionalGetValue")

Output = tuple[str, int]
"""One output of a node: the node's name and the output's index."""
Shapes = Mapping[Output, tuple[int, ...] | None]


def is_copy(node: Any) -> bool:
    """Whether a node sends a tensor of the model to another device; clocks do not count."""
    if node.op not in _SENDS:
        return False
    receiver = node.attr["_dst"].s.decode() if "_dst" in node.attr else ""
    return not (is_own(receiver) or any(map(is_own, node.input)))


def sent_outputs(partitions: Collection[Any]) -> frozenset[Output]:
    """Returns the node outputs that are sent to another device."""
    return frozenset(map(_output, _sends(partitions)))


def read_sent(partitions: Collection[Any], shapes: Shapes) -> tuple[SentTensor, ...]:
    """Returns the tensors that are sent to another device."""
    into_host = {
        _way(node) for graph in partitions for node in graph.node if node.op == "_HostRecv"
    }
    sent = []
    for send in _sends(partitions):
        output, dtype = _output(send), send.attr["T"].type
        shape, item_bytes = shapes.get(output), dtype_bytes(dtype)
        name = operation_name(output[0])
        source, target = (
            short_device(send.attr[end].s.decode()) for end in ("send_device", "recv_device")
        )
        ends_in_host = (
            source.startswith("CPU") or send.op == "_HostSend",
            target.startswith("CPU") or _way(send) in into_host,
        )
        sent.append(
            SentTensor(
                name,
                source,
                target,
                dtype_name(dtype),
                shape,
                None if shape is None or item_bytes is None else prod(shape) * item_bytes,
                in_loop=is_in_loop(output[0]),
                host_only=all(ends_in_host) and "GPU" in source + target,
            )
        )
    return tuple(sent)


def sum_copies(sent: Collection[SentTensor], layers: LayerNames) -> tuple[DeviceCopies, ...]:
    """Sums up the copies for each pair of source and target device, sorted by bytes, descending."""
    by_ends: defaultdict[tuple[str, str], list[SentTensor]] = defaultdict(list)
    for tensor in sent:
        by_ends[tensor.source, tensor.target].append(tensor)
    copies = [_sum(source, target, found, layers) for (source, target), found in by_ends.items()]
    return tuple(sorted(copies, key=lambda device_copies: -(device_copies.size_bytes or 0)))


def _sum(source: str, target: str, sent: list[SentTensor], layers: LayerNames) -> DeviceCopies:
    crossing = [tensor for tensor in sent if not tensor.host_only]
    sizes = [tensor.size_bytes for tensor in crossing if tensor.size_bytes is not None]
    largest = sorted(crossing, key=lambda tensor: -(tensor.size_bytes or 0))[:_LARGEST_LISTED]
    return DeviceCopies(
        source=source,
        target=target,
        count=len(sent),
        size_bytes=sum(sizes) if sizes or not crossing else None,
        unknown=len(crossing) - len(sizes),
        in_loops=sum(tensor.in_loop for tensor in crossing),
        host_only=len(sent) - len(crossing),
        largest=tuple(
            CopiedTensor(
                layers.spelt(tensor.operation),
                layers.of(tensor.operation),
                tensor.dtype,
                tensor.shape,
                tensor.size_bytes,
            )
            for tensor in largest
            if tensor.shape is not None and tensor.size_bytes
        ),
    )


def _sends(partitions: Collection[Any]) -> Iterator[Any]:
    """Yields each send of a tensor; leaves out sends that only order others."""
    for graph in partitions:
        empty = {node.name for node in graph.node if _is_empty_constant(node)}
        for node in graph.node:
            if is_copy(node) and _output(node)[0] not in empty:
                yield node


def _is_empty_constant(node: Any) -> bool:
    """Whether a node is an empty constant, which the partitioner sends as a control signal."""
    if node.op != "Const":
        return False
    return any(dim.size == 0 for dim in node.attr["value"].tensor.tensor_shape.dim)


def _output_of(tensor: str) -> Output:
    """Returns the node output that an input of a node names."""
    name, _, index = tensor.partition(":")
    return name, int(index or 0)


def _output(send: Any) -> Output:
    return _output_of(send.input[0])


def _way(node: Any) -> tuple[bytes, ...]:
    return tuple(node.attr[key].s for key in ("tensor_name", "send_device", "recv_device"))


def infer_shapes(graph: Any, outputs: Collection[Output], batch_size: int | None) -> Shapes:
    """Returns the shapes of node outputs in a graph; None for an unknown shape."""
    import tensorflow as tf

    needed = tf.compat.v1.GraphDef(versions=graph.versions)
    for node in _that_make({name for name, _ in outputs}, graph):
        node.attr.pop("_class", None)  # may name nodes that are left out
        if node.op in _GIVES_BATCH and batch_size is not None:
            _fill_in(node, batch_size)
        needed.node.append(node)
    shapes: dict[Output, tuple[int, ...] | None] = {}
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(needed, name="")
        for name, index in outputs:
            shape = imported.get_operation_by_name(name).outputs[index].shape
            shapes[name, index] = tuple(shape) if shape.is_fully_defined() else None
    return shapes


def _that_make(names: set[str], graph: Any) -> Iterator[Any]:
    """Yields the nodes with these names, and all nodes whose tensors they depend on."""
    by_name = {node.name: node for node in graph.node}
    seen, left = set(names), list(names)
    while left:
        node = by_name[left.pop()]
        tensors = [tensor for tensor in node.input if not tensor.startswith("^")]
        del node.input[:]
        node.input.extend(tensors)
        sources = {tensor.partition(":")[0] for tensor in tensors} - seen
        seen |= sources
        left += sources
        yield node


def _fill_in(node: Any, batch_size: int) -> None:
    for shape in node.attr["output_shapes"].list.shape:
        if shape.dim and shape.dim[0].size == -1:
            shape.dim[0].size = batch_size


def python_inputs(graph: Any) -> frozenset[Output]:
    """Returns the node outputs that Python functions take."""
    return frozenset(output for node in _calls(graph) for output in _inputs(node))


def python_bytes(graph: Any, shapes: Shapes, batch_size: int | None) -> dict[str, int]:
    """Returns the bytes that Python functions take and return, by operation type.

    TensorFlow does not know the shape of what they return, unless a `tf.ensure_shape` follows. An
    open first dimension there counts as the batch. Tensors of unknown size are left out, and so are
    types without any of known size.
    """
    ensured = {
        _output_of(node.input[0]): _ensured(node, batch_size)
        for node in graph.node
        if node.op == "EnsureShape"
    }
    sums: Counter[str] = Counter()
    for node in _calls(graph):
        taken = zip((shapes.get(pair) for pair in _inputs(node)), _dtypes(node, "Tin"), strict=True)
        returned = (
            (ensured.get((node.name, index)), dtype)
            for index, dtype in enumerate(_dtypes(node, "Tout"))
        )
        for shape, dtype in (*taken, *returned):
            item_bytes = dtype_bytes(dtype)
            if shape is not None and item_bytes is not None:
                sums[node.op] += prod(shape) * item_bytes
    return dict(sums)


def _calls(graph: Any) -> list[Any]:
    return [node for node in graph.node if node.op in PYTHON_OPERATIONS]


def _inputs(node: Any) -> list[Output]:
    return [_output_of(tensor) for tensor in node.input if not tensor.startswith("^")]


def _dtypes(node: Any, name: str) -> list[int]:
    return list(node.attr[name].list.type)


def _ensured(node: Any, batch_size: int | None) -> tuple[int, ...] | None:
    shape = node.attr["shape"].shape
    sizes = [dim.size for dim in shape.dim]
    if sizes and sizes[0] == -1 and batch_size is not None:
        sizes[0] = batch_size
    return None if shape.unknown_rank or -1 in sizes else tuple(sizes)
