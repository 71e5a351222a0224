"""Finds the tensors that a step copies between devices, from the sends in its partition graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any

from keras_gpukit.layer_names import layer_of, spelt_with_layers
from keras_gpukit.placement.names import is_in_loop, is_own, operation_name, short_device
from keras_gpukit.placement.registry import dtype_bytes, dtype_name
from keras_gpukit.records.operations import SentTensor
from keras_gpukit.records.placement import CopiedTensor, DeviceCopies

# Only the sending side of a copy, so that each pair of send and receive counts once.
_SENDS = frozenset({"_Send", "_HostSend"})
_LARGEST_LISTED = 5

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
    return frozenset(_output(send) for _, send in _sends(partitions))


def read_sent(
    partitions: Collection[Any],
    shapes: Shapes,
) -> tuple[SentTensor, ...]:
    """Returns the tensors that are sent to another device."""
    into_host = {
        _way(node) for graph in partitions for node in graph.node if node.op == "_HostRecv"
    }
    sent = []
    for _, send in _sends(partitions):
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


def sum_copies(sent: Collection[SentTensor], layers: Collection[str]) -> tuple[DeviceCopies, ...]:
    """Sums up the copies for each pair of source and target device, sorted by bytes, descending."""
    by_ends: defaultdict[tuple[str, str], list[SentTensor]] = defaultdict(list)
    for each in sent:
        by_ends[each.source, each.target].append(each)
    copies = [_sum(source, target, found, layers) for (source, target), found in by_ends.items()]
    return tuple(sorted(copies, key=lambda each: -(each.size_bytes or 0)))


def _sum(source: str, target: str, sent: list[SentTensor], layers: Collection[str]) -> DeviceCopies:
    crossing = [each for each in sent if not each.host_only]
    sizes = [each.size_bytes for each in crossing if each.size_bytes is not None]
    largest = sorted(crossing, key=lambda each: -(each.size_bytes or 0))[:_LARGEST_LISTED]
    return DeviceCopies(
        source=source,
        target=target,
        count=len(sent),
        size_bytes=sum(sizes) if sizes or not crossing else None,
        unknown=len(crossing) - len(sizes),
        in_loops=sum(each.in_loop for each in crossing),
        host_only=len(sent) - len(crossing),
        largest=tuple(
            CopiedTensor(
                spelt_with_layers(each.operation, layers),
                layer_of(each.operation, layers),
                each.dtype,
                each.shape,
                each.size_bytes,
            )
            for each in largest
            if each.shape is not None and each.size_bytes
        ),
    )


def _sends(partitions: Collection[Any]) -> Iterator[tuple[Any, Any]]:
    """Yields each send of a tensor, after its graph; leaves out sends that only order others."""
    for graph in partitions:
        empty = {node.name for node in graph.node if _is_empty_constant(node)}
        for node in graph.node:
            if is_copy(node) and _output(node)[0] not in empty:
                yield graph, node


def _is_empty_constant(node: Any) -> bool:
    """Whether a node is an empty constant, which the partitioner sends as a control signal."""
    if node.op != "Const":
        return False
    return any(dim.size == 0 for dim in node.attr["value"].tensor.tensor_shape.dim)


def output_of(tensor: str) -> Output:
    """Returns the node output that an input of a node names."""
    name, _, index = tensor.partition(":")
    return name, int(index or 0)


def _output(send: Any) -> Output:
    return output_of(send.input[0])


def _way(node: Any) -> tuple[bytes, ...]:
    return tuple(node.attr[key].s for key in ("tensor_name", "send_device", "recv_device"))
