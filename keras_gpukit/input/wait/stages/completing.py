"""Adds time that tf.data does not measure to the costs of the stages.

Two things take time but appear in no node of the pipeline's model. One is the overhead of calling a
function, which is the same for each call, however little the function does. The other is the work
on an element that is not finished yet: for a nested pipeline that yields a single element, nothing
else can be seen.
"""

from __future__ import annotations

from dataclasses import replace

from keras_gpukit.input.wait.stages.bottleneck import cut, slowest
from keras_gpukit.input.wait.stages.readings import MeasuredNode
from keras_gpukit.rules.input.bottleneck import ACCOUNTED

# Stages that call a function for each input element or, without an input, for each output element.
CALLING = {"Map", "ParallelMap", "MapAndBatch", "Filter", "ParallelFilter", "Scan", "Generator"}
# Maximum overhead of a call, in addition to its operations. On a busy machine with two cores, it is
# 20 to 50 µs (benchmarks/stage_naming.py, "tiny functions").
LONGEST_CALL_S = 100e-6


def complete(output: MeasuredNode, wait_s: float) -> MeasuredNode | None:
    """Returns a pipeline whose costs account for the time that training waits for it.

    Args:
        output: Stage that training fetches from, with the costs that tf.data measured.
        wait_s: Mean wait of a step for its batch, in seconds.

    Returns:
        The stage that training fetches from, with costs added where necessary; None if nothing
        accounts for the wait.
    """
    if slowest(cut(output)).time_s >= ACCOUNTED * wait_s:
        return output
    call_s = _call_s(output, wait_s)
    if call_s <= LONGEST_CALL_S:
        return _with_calls(output, call_s)
    threads = {id(each.stage): each.threads for part in cut(output) for each in part.members}
    unseen = [stage for stage in output.walk() if stage.cost_s is None and stage.per_batch > 0]
    if unseen:
        # The stages nearer to training wait for the one nearest to the sources.
        chosen = unseen[-1]
        cost_s = wait_s * threads[id(chosen)]
        costly = replace(chosen, cost_s=cost_s / chosen.per_batch, cost_per_batch_s=cost_s)
        return output.changed(lambda stage: costly if stage is chosen else stage)
    return None


def calls_per_batch(stage: MeasuredNode) -> float:
    """Returns how many times a stage calls its function per batch."""
    if stage.kind not in CALLING:
        return 0.0
    return stage.inputs[0].per_batch if stage.inputs else stage.per_batch


def _call_s(output: MeasuredNode, wait_s: float) -> float:
    """Returns the lowest overhead per call, in seconds, at which a segment takes the whole wait."""
    costs = [float("inf")]
    for segment in cut(output):
        # One thread starts the calls, even if several run them.
        calls = sum(calls_per_batch(member.stage) for member in segment.members)
        if calls > 0:
            costs.append((wait_s - segment.time_s) / calls)
    return min(costs)


def _with_calls(output: MeasuredNode, call_s: float) -> MeasuredNode:
    def with_calls(stage: MeasuredNode) -> MeasuredNode:
        added_s = calls_per_batch(stage) * call_s * stage.parallelism
        return replace(
            stage,
            cost_s=None if stage.cost_s is None else stage.cost_s + added_s / stage.per_batch,
            cost_per_batch_s=stage.cost_per_batch_s + added_s,
        )

    return output.changed(with_calls)
