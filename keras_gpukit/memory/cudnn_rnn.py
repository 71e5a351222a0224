"""Memory of cuDNN's kernel for LSTM and GRU layers, which Keras uses on a GPU.

The forward pass keeps a reserve space until the backward pass, and both take a workspace. cuDNN
does not document their sizes, and TensorFlow's graph does not know them. The formulas were found by
measuring 26 shapes on an H100 with cuDNN 9.19 and TensorFlow 2.21. The reserve space is right to
0.2 % or better. So is the workspace to 1 MiB, where the allocator's rounding did not hide it. Other
versions of cuDNN and other GPUs are untested; cuDNN 7 was reported to reserve as much
(pytorch/pytorch, issue 2895).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from keras_gpukit.memory.step_graph import GraphNode, StepGraph

FORWARD, BACKWARD = "CudnnRNNV3", "CudnnRNNBackpropV3"
RESERVE = 3
"""Index of the forward operation's output that is the reserve space."""
_INPUTS, _PARAMETERS, _HIDDEN, _RESERVED = 0, 3, 5, 11
"""Indices of the inputs; the last two belong to the backward operation."""
_FIXED_BYTES = 8 * 2**20


@dataclass(frozen=True)
class _Mode:
    """Sizes for one type of layer.

    Attributes:
        reserved: Reserve space, in sequences of hidden states: batch × time steps × units.
        hidden: Part of the workspace, in sequences of hidden states.
        inputs: Part of the workspace, in sequences of inputs: batch × time steps × features.
        states: Part of the workspace, in hidden states of one time step.
    """

    reserved: int
    hidden: int
    inputs: int
    states: int


_MODES = {"lstm": _Mode(5, 5, 1, 10), "gru": _Mode(6, 4, 2, 5)}


def reserve_shape(mode: str, dtype: str, hidden: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the shape of the reserve space, in elements of the dtype; None if unknown."""
    if mode not in _MODES:
        return None
    # TensorFlow casts bfloat16 to float32 for cuDNN.
    elements = 2 if dtype == "bfloat16" else 1
    return (*hidden[:-1], elements * _MODES[mode].reserved * hidden[-1])


def workspace_bytes(graph: StepGraph, node: GraphNode, batch_size: int) -> int:
    """Returns the workspace of a forward or backward operation in bytes; 0 if unknown."""
    is_forward = node.operation == FORWARD
    hidden_shape = graph.shape((node.name, 0) if is_forward else node.inputs[_HIDDEN], batch_size)
    reserved = graph.shape(
        (node.name, RESERVE) if is_forward else node.inputs[_RESERVED], batch_size
    )
    inputs = graph.shape(node.inputs[_INPUTS], batch_size)
    parameters = graph.shape(node.inputs[_PARAMETERS], batch_size)
    if not (hidden_shape and reserved and inputs and parameters):
        return 0
    sequences = reserved[-1] // hidden_shape[-1]
    is_cast = sequences not in {each.reserved for each in _MODES.values()}
    sequences //= 2 if is_cast else 1
    mode = next(each for each in _MODES.values() if each.reserved == sequences)
    hidden, states = prod(hidden_shape), prod(hidden_shape) // hidden_shape[1]
    elements = mode.hidden * hidden + mode.inputs * prod(inputs) + prod(parameters)
    elements += mode.states * states
    if is_cast:  # inputs and outputs as float32; in the backward pass the reserve space too
        cast = hidden + prod(inputs)
        elements += cast if is_forward else 2 * cast + sequences * hidden
    return elements * (4 if is_cast else node.item_bytes[0]) + _FIXED_BYTES
