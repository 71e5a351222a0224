"""Whether preprocessing layers in the model take a large part of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from keras_gpukit.layer_names import LayerNames
from keras_gpukit.records.profile import ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.records.steps import TimeBreakdown
from keras_gpukit.rules.compute.profile_shares import computed_s
from keras_gpukit.rules.input.contention import CORES_BUSY_FRACTION
from keras_gpukit.rules.input.input_bound import is_input_bound
from keras_gpukit.rules.input.python_advice import ARRAYS
from keras_gpukit.rules.rule import Outcome, Share, host_readings
from keras_gpukit.rules.savings import of_run, severity
from keras_gpukit.rules.whole_run.time_parts import NOTABLE_FRACTION, TimeRule

MOST_NAMED = 3
MARGIN = 0.1
BUSY_PERCENT = 100 * CORES_BUSY_FRACTION
TO_INPUT = (
    "run these layers in the input: "
    "`ds.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)`"
)
ALONE = "in that, `augment = keras.Sequential([...])` has these layers and no others"
FROM_ARRAYS = (
    "make a dataset of arrays: "
    "`ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(n)`"
)
ON_BUSY_CORES = "; it saves only as much as cores are idle"
FEWER = "fewer or cheaper layers: {name} takes {share:.0f} % of each step"


class PreprocessingInModel(TimeRule):
    """Keras' preprocessing layers, such as `RandomRotation`, as layers of the trained model."""

    code = "preprocessing-in-model"
    title = "Preprocessing layers in the model take much of each step"
    requires = "a profile of the steps of a model that has preprocessing layers"
    charts = ("captures", "layers")
    of_each_step = Share("They take {value} of each step")
    share_of = Share(", {of} {value}")

    def judge_parts(self, summary: RunSummary, parts: TimeBreakdown) -> Outcome:
        layers, profile = summary.environment.preprocessing, summary.profile
        if not layers:
            return self.abstain("the model has no preprocessing layers, or they are not known")
        if profile is None or not profile.operations or not profile.step_time_s:
            return self.abstain()
        times_s = _times_s(profile, layers)
        waiting_s = sum(profile.parts_s.get(part, 0.0) for part in ("input wait", "between steps"))
        step_s, computing_s = profile.step_time_s - waiting_s, parts.compute_s or 0.0
        together_s, (parallel_s, unlisted_s) = sum(times_s.values()), _unsure_s(profile)
        low = max(together_s - parallel_s, 0.0) / step_s
        high = min((together_s + unlisted_s) / step_s, 1.0)
        high = min(high * (1 + MARGIN), (1 + high) / 2)  # the rest keeps half of its time at least
        saving = of_run(
            summary,
            low * (1 - MARGIN) * computing_s,
            high * (computing_s + parts.first_step_s / 2),
            basis="their operations in a profile",
        )
        if saving is None or saving.fraction < NOTABLE_FRACTION:
            return None
        shares = {each: time_s / step_s for each, time_s in times_s.most_common(MOST_NAMED)}
        name = next(iter(shares))
        return self.find(
            severity(saving, summary),
            self.of_each_step(low),
            *(self.share_of(share, each) for each, share in shares.items()),
            advice=_advice(summary, FEWER.format(name=name, share=100 * shares[name])),
            saving=saving,
            title=f"Preprocessing in the model takes {100 * low:.0f} % of each step, mostly {name}",
        )


def _times_s(profile: ProfileRecord, layers: Collection[str]) -> Counter[str]:
    """Returns the seconds per step of each layer's operations."""
    times_s: Counter[str] = Counter()
    names = LayerNames(frozenset(layers), numbered=True)
    for operation in profile.operations:
        if layer := names.of(operation.name):
            times_s[layer.split("/")[0]] += operation.time_s / profile.steps  # type: ignore[assignment]
    return times_s


def _unsure_s(profile: ProfileRecord) -> tuple[float, float]:
    """Returns the seconds per step that operations ran in parallel, and those of unlisted ones."""
    first = profile.operations[0]
    all_s = first.time_s / first.share / profile.steps if first.share else 0.0
    busy_s = computed_s(profile)
    listed = sum(operation.share for operation in profile.operations)
    return max(all_s - busy_s, 0.0), max(1 - listed, 0.0) * all_s


def _advice(summary: RunSummary, fewer: str) -> tuple[str, ...]:
    if is_input_bound(summary):
        return (fewer,)
    stages = summary.pipeline.stages if summary.pipeline else ()
    how = [ALONE]
    if any(each.name.startswith(ARRAYS) for each in stages):
        how.append(FROM_ARRAYS)
    host = host_readings(summary)
    if summary.environment.gpus or host is None or (host.cpu_percent or 0.0) < BUSY_PERCENT:
        return TO_INPUT, *how, fewer
    return fewer, TO_INPUT + ON_BUSY_CORES, *how
