"""Which changes to a run would make it fit into memory, and what each would need."""

from __future__ import annotations

from math import ceil

from keras_gpukit.records.memory import MemoryByCause, MemoryOption, OptionKind

MIXED_PRECISION_SHARE = 0.7
"""Upper bound of the share of activations and gradients that remains with mixed precision. float16
halves them, but some stay in float32, such as batch statistics and softmax. Our choice, on the safe
side of a half."""
REMATERIALISATION_SHARE = 0.6
"""Upper bound of the share of activations that remains with rematerialization. Measured once on a
convolutional model: 45 MB instead of 100."""


def memory_options(
    needs: MemoryByCause,
    *,
    batch_size: int,
    fitting: tuple[int, MemoryByCause] | None,
    accumulating: tuple[int, MemoryByCause] | None,
    trainable_bytes: int,
    precision: str | None,
    allowed_bytes: int | None,
) -> tuple[MemoryOption, ...]:
    """Returns the ways to need less memory, each with its predicted peak.

    Args:
        needs: Upper bound of the memory that the step needs without a change, by cause.
        batch_size: Examples per batch of that step.
        fitting: Largest batch size that fits, with the upper bound of the memory that its step
            needs; None if no batch size fits.
        accumulating: Largest micro-batch that fits next to accumulated gradients, with the upper
            bound of the memory that its step needs without them; None if no micro-batch fits.
        trainable_bytes: Size of the trainable weights. Accumulated gradients take as much.
        precision: Name of the model's dtype policy, such as "float32"; None if unknown.
        allowed_bytes: Memory that a step may use; None if unknown.
    """
    options = []
    if fitting is not None:
        options.append(_option("batch size", fitting[1].total_bytes, allowed_bytes, fitting[0]))
    if accumulating is not None:
        micro, step = accumulating
        options.append(
            _option(
                "accumulation",
                step.total_bytes + trainable_bytes,
                allowed_bytes,
                micro,
                f"{ceil(batch_size / micro)} micro-batches per update",
            )
        )
    varying = needs.activations_bytes + needs.gradients_bytes
    if precision is not None and not precision.startswith("mixed"):
        rest = needs.total_bytes - varying + needs.weights_bytes // 2
        needed = rest + int(varying * MIXED_PRECISION_SHARE)
        note = "on GPUs with tensor cores it is faster too"
        options.append(_option("mixed precision", needed, allowed_bytes, batch_size, note))
    saved = int(needs.activations_bytes * (1 - REMATERIALISATION_SHARE))
    options.append(
        _option(
            "rematerialization",
            needs.total_bytes - saved,
            allowed_bytes,
            batch_size,
            "activations are computed twice, which takes about a quarter more time",
        )
    )
    return tuple(options)


def _option(
    kind: OptionKind,
    needs_bytes: int,
    allowed_bytes: int | None,
    batch_size: int,
    note: str | None = None,
) -> MemoryOption:
    fits = None if allowed_bytes is None else needs_bytes <= allowed_bytes
    return MemoryOption(kind, needs_bytes, fits, batch_size, note)
