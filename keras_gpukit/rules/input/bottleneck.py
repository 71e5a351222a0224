"""Which stage of a pipeline is the bottleneck, from the costs of its stages."""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.records.pipeline import PipelineRecord
from keras_gpukit.rules.input.input_bound import SHORTEST_WAIT_S
from keras_gpukit.rules.savings import WARNING_FRACTION

ACCOUNTED = 0.5
"""Share of the steps' wait that the slowest segment must explain for its stages to be named.

Our choice: with less, most of the wait has a cause that the stages do not show.
"""


def name_bottleneck(
    pipeline: PipelineRecord, stall_fraction: float | None, wait_s: float | None
) -> PipelineRecord:
    """Returns a pipeline with its bottleneck, or with the reason why it has none.

    If steps wait too little for `InputBound` to report it, the pipeline has no bottleneck either.

    Args:
        pipeline: Pipeline with the costs of its stages.
        stall_fraction: Wait over step time, 0 to 1; None if unknown.
        wait_s: Mean wait of a step for its batch; None if unknown.
    """
    if pipeline.unknown_because is not None:
        return pipeline
    if stall_fraction is None or wait_s is None or pipeline.slowest_s is None:
        return replace(pipeline, unknown_because="how long steps wait for batches is unknown")
    if stall_fraction < WARNING_FRACTION:
        because = f"steps wait for batches only {100 * stall_fraction:.1f} % of their time"
        return replace(pipeline, balanced_because=because)
    if wait_s < SHORTEST_WAIT_S:
        because = f"steps wait for batches only {wait_s * 1e3:.2f} ms"
        return replace(pipeline, balanced_because=because)
    if pipeline.slowest_s < ACCOUNTED * wait_s:
        because = (
            f"a step waits {wait_s * 1e3:.1f} ms for its batch, and of that tf.data accounts "
            f"for {pipeline.slowest_s * 1e3:.1f} ms"
        )
        return replace(pipeline, unknown_because=because)
    return replace(pipeline, bottleneck=max(pipeline.stages, key=lambda stage: stage.share))
