"""Predicts the memory that training steps of a model need, for any batch size, without running."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Callable
from math import prod
from typing import Any

from keras_gpukit.frameworks.older_keras import calls_are_numbered
from keras_gpukit.layer_names import is_backward, layer_names
from keras_gpukit.memory.kernels import (
    RNN_BACKWARD,
    RNN_FORWARD,
    rnn_workspace_bytes,
    workspace_bytes,
)
from keras_gpukit.memory.model_state import execution_of, size_of, sizes_of_variables
from keras_gpukit.memory.simulation import BFC, Order, Peak, Simulation
from keras_gpukit.memory.step_graph import GraphNode, trace_step
from keras_gpukit.records.memory import Execution, HeldTensor, MemoryByCause, MemoryPrediction
from keras_gpukit.rules.compute.batch_size import predicted_limit_bytes

LARGEST_LISTED = 5
# The search for the largest batch starts at the first size. It ends at the second for models whose
# steps need the same memory for every batch size.
_FIRST_LOOKED_AT, _LARGEST_BATCH = 16, 2**40

_LOWER, _UPPER = 0, 1
"""The bounds of a prediction. Only the upper one counts workspace, and a forward pass that an eager
step keeps."""
_ORDERS: dict[Execution, tuple[Order, Order]] = {
    "graph": ("oldest first", "newest first"),
    "eager": ("as written", "as written"),
    "xla": ("oldest first", "as written"),
}
"""The order of operations that gives each bound."""
# On a CPU, the input pipeline allocates its batches from the same allocator. The step holds one
# batch. In the worst case, the pipeline holds another one that is ready.
_BATCHES = (1, 2)


class StepMemory:
    """Predicts the memory use of one model's training steps."""

    def __init__(self, model: Any, spec: Any, other_bytes: int = 0) -> None:
        import tensorflow as tf

        self.execution = execution_of(model)
        self.graph, used = trace_step(model, spec, optimized=self.execution == "graph")
        self._model = model.name
        self._layers = layer_names(model, numbered=calls_are_numbered()).with_name(model.name)
        self._weights, self._slots = sizes_of_variables(model, used)
        self.trainable_bytes = sum(size_of(variable) for variable in model.trainable_variables)
        self.other_bytes = other_bytes
        self._block_factor = 1.0
        tensors = tf.nest.flatten(spec)
        self._example_bytes = sum(
            prod(tensor.shape[1:]) * tensor.dtype.size
            for tensor in tensors
            if tensor.shape.rank and tensor.shape[1:].is_fully_defined()
        )
        self._on_gpu = _has_gpu()

    def layer_of(self, operation: str) -> str | None:
        """Returns the layer of an operation; None if it is in no layer, but in the model itself."""
        layer = self._layers.of(operation) or ""
        return layer.removeprefix(self._model).lstrip("/") or None

    def predict(self, batch_size: int) -> MemoryPrediction:
        """Returns the predicted memory of training steps with a batch size."""
        runs = [self._run(bound, batch_size) for bound in (_LOWER, _UPPER)]
        causes = sorted((memory for memory, _ in runs), key=lambda memory: memory.total_bytes)
        peak = max((peak for _, peak in runs), key=lambda peak: peak.in_use_bytes)
        return MemoryPrediction(
            batch_size=batch_size,
            execution=self.execution,
            low=causes[0],
            high=causes[-1],
            largest=self._largest(peak, batch_size),
            unknown_because=self._left_out(),
        )

    def asked_in_one_block(self, asked_bytes: int, batch_size: int) -> None:
        """Scales later predictions up to the memory that XLA requested for a whole step.

        XLA allocates the memory of a step as one block. If the block was larger than predicted,
        `fits` and `largest_batch` scale the predicted block by the same factor.
        """
        step_bytes = self._block_bytes(batch_size)
        self._block_factor = max(asked_bytes / step_bytes, 1.0) if step_bytes else 1.0

    def fits(self, batch_size: int, limit_bytes: int) -> bool:
        """Whether a batch is predicted to fit with a margin, whatever the order of operations."""
        allowed = predicted_limit_bytes(limit_bytes)
        try:
            if self.execution == "xla":
                allocator = self._allocator(batch_size, _BATCHES[_UPPER], allowed)
                # XLA holds the old and the new values of the variables at the same time.
                for size in (*self._weights, *self._slots):
                    allocator.allocate(size)
                allocator.allocate(int(self._block_bytes(batch_size) * self._block_factor))
                return True
            for bound in (_LOWER, _UPPER):
                self._run(bound, batch_size, allowed)
        except MemoryError:
            return False
        return True

    def largest_batch(self, limit_bytes: int) -> int | None:
        """Returns the largest batch size predicted to fit with a margin; None if no size fits.

        The result does not depend on the batch size given to `predict`. It is also None if the
        model takes one batch size only.
        """
        if not self.graph.scales or not self.fits(1, limit_bytes):
            return None
        fits, fails = 1, _FIRST_LOOKED_AT
        while self.fits(fails, limit_bytes):
            fits, fails = fails, 2 * fails
            if fits >= _LARGEST_BATCH:
                return fits
        sizes = range(fits, fails)
        return fits + bisect(sizes, False, key=lambda size: not self.fits(size, limit_bytes)) - 1

    def _run(
        self, bound: int, batch_size: int, limit_bytes: int | None = None
    ) -> tuple[MemoryByCause, Peak]:
        batches = _BATCHES[bound]
        peak = Simulation(
            self.graph,
            batch_size,
            self._allocator(batch_size, batches, limit_bytes),
            order=_ORDERS[self.execution][bound],
            workspace=self._workspace(batch_size, upper=bound == _UPPER),
            keeps_forward=self.execution == "eager" and bound == _UPPER,
        ).run()
        return self._causes(peak, batches * batch_size * self._example_bytes), peak

    def _allocator(self, batch_size: int, batches: int, limit_bytes: int | None) -> BFC:
        """Returns an allocator that holds variables, other bytes and batches, as before a step."""
        allocator = BFC(limit_bytes)
        for size in (*self._weights, *self._slots, self.other_bytes):
            if size:
                allocator.allocate(size)
        allocator.allocate(batches * batch_size * self._example_bytes)
        return allocator

    def _block_bytes(self, batch_size: int) -> int:
        """Returns the upper bound of an XLA step's memory, without variables and the batch."""
        causes = (self._run(bound, batch_size)[0] for bound in (_LOWER, _UPPER))
        return max(memory.total_bytes - memory.held_bytes - memory.batch_bytes for memory in causes)

    def _causes(self, peak: Peak, batch_bytes: int) -> MemoryByCause:
        forward = sum(
            size for (name, _), size in peak.held if not is_backward(name) and self._layers.of(name)
        )
        # The operations of the optimizer hold what it computes from the gradients.
        gradients = sum(size for _, size in peak.held) - forward
        weights, slots = sum(self._weights), sum(self._slots)
        batch_bytes += self.other_bytes
        known = weights + slots + batch_bytes + forward + gradients
        return MemoryByCause(
            weights_bytes=weights,
            slots_bytes=slots,
            batch_bytes=batch_bytes,
            activations_bytes=forward,
            gradients_bytes=gradients,
            workspace_bytes=max(peak.in_use_bytes - known, 0),
        )

    def _largest(self, peak: Peak, batch_size: int) -> tuple[HeldTensor, ...]:
        held = sorted(peak.held, key=lambda pair: -pair[1])[:LARGEST_LISTED]
        return tuple(
            HeldTensor(
                name, self.graph.shape((name, index), batch_size) or (), size, self.layer_of(name)
            )
            for (name, index), size in held
        )

    def _workspace(self, batch_size: int, *, upper: bool) -> Callable[[GraphNode], int]:
        graph = self.graph
        onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() not in ("0", "false")
        exact = not self._on_gpu and not onednn

        def needs(node: GraphNode) -> int:
            if not node.shapes or node.shapes[0] is None:
                return 0
            operation, outputs = node.operation, graph.shape((node.name, 0), batch_size) or ()
            inputs = [graph.shape(source, batch_size) for source in node.inputs if source[1] >= 0]
            if operation in (RNN_FORWARD, RNN_BACKWARD):
                return rnn_workspace_bytes(graph, node, batch_size)
            if not (upper or exact):
                return 0
            return workspace_bytes(operation, outputs, inputs, on_gpu=self._on_gpu)

        return needs

    def _left_out(self) -> str | None:
        if not self.graph.loops:
            return None
        loops = ", ".join(sorted(self.graph.loops))
        return f"memory within loops, branches and functions is not counted ({loops})"


def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_logical_devices("GPU"))
