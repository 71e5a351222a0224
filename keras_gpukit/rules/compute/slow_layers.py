"""Parts of a model that take more of each step than they must, or again in each epoch."""

from __future__ import annotations

import math
import re

from keras_gpukit.records.finding import Figure
from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import (
    PRODUCT_KINDS,
    LayersRule,
    computed_s,
    fused_fraction,
)
from keras_gpukit.rules.compute.slow_kernels import dtype_of, plain_name
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share, seconds
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, of_run, severity

LEAST_CASTS = 0.02
"""Keras casts what layers get where dtypes differ: least share of a step in such casts; our
choice."""
LEAST_SAVED = 0.4
"""Half of such layers' time was saved on an H100; the least is our choice."""
FROZEN_SAVED = 0.8
"""Least part of the time of frozen layers that is saved. Our choice: it was all of it, and that of
validation, with eight convolutions on two cores."""


class DenseEmbeddingUpdate(LayersRule):
    """An optimizer that computes with all rows of an embedding, though a batch uses few."""

    code = "dense-embedding-update"
    title = "The optimizer updates all rows of an embedding in each step"
    tried_by = ("jit",)
    supersedes = ("dominant-layer", "unfused-operations")
    of_a_step_in_the_optimizer = Share("The optimizer takes {value} of a step")
    rows_of_a_batch = Measure("A batch uses at most {value} of {of} rows")
    rows_of_all_batches = Measure(", and all batches of this run at most {value}")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        share = _time_s(profile, "optimizer") / own_s
        embedding = _made_dense(profile)
        if embedding is None or share < WARNING_FRACTION:
            return None
        saving = of_compute(summary, share, low=share / 2, basis="the optimizer in a profile")
        used = _rows_used(summary, profile)
        fewer = (
            "Fewer rows: number the ids that occur, as `np.unique(ids, return_inverse=True)` "
            "does, or hash rare words. Or narrower ones: a smaller `output_dim`"
        )
        advice = [
            "An optimizer without moments changes only the rows that a batch uses, but it "
            "trains otherwise, so compare the losses: `keras.optimizers.SGD(...)` without "
            "momentum, and layers without `embeddings_regularizer`, whose gradient is of all "
            "rows",
            "`compile(jit_compile=True)`: XLA fuses the update, which still takes all rows",
        ]
        # Rows that no batch can have used are of no use, so the table can do without them.
        advice.insert(0 if len(used) == 2 else 1, fewer)
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_the_optimizer(share),
            *used,
            advice=tuple(advice),
            saving=saving,
            title=f"{self.title} ({embedding}): {100 * share:.0f} % of the step",
        )


class Float32Layers(LayersRule):
    """Layers without products that compute in float32 in a model of mixed precision.

    They convert what they get to float32 and back, and read and write twice the bytes.
    """

    code = "float32-layers"
    title = "Layers compute in float32 in a model of mixed precision"
    requires = f"the precision, and {LayersRule.requires}"
    tried_by = ("jit",)
    supersedes = ("dominant-layer", "unfused-operations")
    of_a_step_in_layers_in_float32 = Share("Layers in float32 take {value} of a step")
    of_a_step_in_casts_between_layers = Share("Casts between layers take {value} of a step")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        policy = summary.environment.precision
        if policy is None:
            return self.abstain()
        if not policy.startswith("mixed"):
            return None
        found = sorted(filter(_in_float32, profile.layers), key=lambda layer: -layer.time_s)
        casts_s = sum(layer.time_s for layer in profile.layers if layer.kinds_s.keys() == {"cast"})
        share = (sum(layer.time_s for layer in found) + casts_s) / own_s
        if not found or casts_s < LEAST_CASTS * own_s or share < WARNING_FRACTION:
            return None
        most = max(share, fused_fraction(summary))  # by the second advice
        saving = of_compute(
            summary, most, low=LEAST_SAVED * share, basis="these layers in a profile"
        )
        names = [layer.path.rsplit("/", 1)[-1] for layer in found]
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_layers_in_float32(share),
            self.of_a_step_in_casts_between_layers(casts_s / own_s),
            advice=(
                f"Leave out `dtype='float32'` of {', '.join(names[:3])}: only the last layer, or "
                "its softmax, needs it",
                "`compile(jit_compile=True)`: XLA makes casts part of other kernels",
            ),
            saving=saving,
            title=f"{len(found)} layers compute in float32 in a model in {policy}, as {names[0]}: "
            f"{100 * share:.0f} % of the step",
        )


class SlowMetrics(LayersRule):
    """Metrics that take at least a tenth of the steps' own time."""

    code = "slow-metrics"
    title = "Metrics take much of each step"
    tried_by = ("jit",)
    supersedes = ("dominant-layer", "compute-outside-layers")
    of_a_step_in_metrics = Share("Metrics take {value} of a step")
    of_what_a_step_runs = Share(", and are {value} of the operations or kernels that it runs")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        low = _time_s(profile, "metrics") / own_s
        of_all = sum(layer.kernels for layer in profile.layers if layer.role == "metrics") / (
            sum(layer.kernels for layer in profile.layers) or 1.0
        )
        share = min(low + max(1 - computed_s(profile) / own_s, 0.0) * of_all, 1.0)
        ends = dict.fromkeys(f"{100 * fraction:.0f}" for fraction in (low, share))
        if share < WARNING_FRACTION:
            return None
        saving = of_compute(summary, share, low=low, basis="metrics in a profile")
        return self.find(
            severity(saving, summary),
            self.of_a_step_in_metrics(low),
            self.of_what_a_step_runs(of_all),
            advice=(
                "Fewer metrics while training, and all of them in `evaluate` once per epoch",
                "`compile(jit_compile=True)`: XLA fuses what metrics compute",
            ),
            saving=saving,
            title=f"Metrics take {' to '.join(ends)} % of each step{_named(profile)}",
        )


class FrozenFeatures(LayersRule):
    """Frozen layers at a model's start, which compute an example's features in each epoch again."""

    code = "frozen-features"
    title = "Frozen layers compute the same in each epoch"
    requires = f"two epochs, and {LayersRule.requires}"
    supersedes = ("dominant-layer", "unfused-operations", "float32-on-tensor-cores")
    of_a_step_in_frozen_layers = Share("The layers that are not trained take {value} of a step")
    epochs = Measure("; there were {value} epochs")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        frozen, parts, record = summary.environment.frozen, summary.breakdown, summary.input
        if frozen is None:
            return None
        start = record.pipeline_start if record else None
        if parts is None or parts.compute_s is None or start is None or own_s <= 0:
            return self.abstain()
        epochs = start.epochs + 1
        inside = (layer for layer in profile.layers if _outermost(layer) in frozen.names)
        share = min(sum(layer.time_s for layer in inside) / own_s, 1.0)
        again = share * (1 - 1 / epochs)
        low_s = FROZEN_SAVED * again * parts.compute_s if frozen.gets_arrays else 0.0
        saving = of_run(
            summary,
            low_s,
            again * (parts.compute_s + parts.validation_s),
            basis="frozen layers in a profile",
            upper_bound=not frozen.gets_arrays,
        )
        if saving is None or (saving.highest_fraction or 0.0) < WARNING_FRACTION:
            return None
        names = dict.fromkeys((frozen.names[0], frozen.names[-1]))
        repeats = f"the same in each of {epochs} epochs" if frozen.gets_arrays else "in each epoch"
        took = f"{seconds(share * parts.compute_s)} of {seconds(parts.wall_s)} s"
        one = f"`features = {frozen.names[0]}.predict(x)`" if len(names) == 1 else "`predict`"
        unchanged = "" if frozen.gets_arrays else "if nothing in the pipeline is random, "
        return self.find(
            severity(saving, summary) if frozen.gets_arrays else "warning",
            self.of_a_step_in_frozen_layers(share),
            self.epochs(epochs),
            advice=(
                f"{unchanged}compute what they return once, before fit, by {one}, and fit a model "
                "of the other layers on that",
                "to augment the data, or to train these layers later, the whole model is needed",
            ),
            saving=saving,
            title=f"Frozen layers ({' to '.join(names)}) compute {repeats}: {took}",
        )


class MostlyPadding(Rule):
    """Examples that are padded to more than twice the length of 99 % of them; our choice."""

    code = "mostly-padding"
    title = "Most of what the model computes on is padding"
    requires = "examples of whole numbers in an array, for a model with an embedding"
    charts = ()
    least_ratio = 2.0
    mean_length = Measure("An example has {value} on average", "numbers")
    padded_to = Measure(", and is padded to {value}", "numbers")
    longest_of_most = Measure("99 % of the examples have at most {value}", "numbers")

    def judge(self, summary: RunSummary) -> Outcome:
        known = summary.environment.padding
        if known is None:
            return self.abstain()
        if known.width < self.least_ratio * max(known.most, 1):
            return None
        saving = of_compute(summary, 1 - known.most / known.width, basis="the length of examples")
        if saving is None or (saving.highest_fraction or 0.0) < WARNING_FRACTION:
            return None
        return self.find(
            "warning",
            self.mean_length(round(known.mean)),
            self.padded_to(known.width),
            self.longest_of_most(known.most),
            advice=(
                f"`pad_sequences(x, maxlen={known.most})`, or `TextVectorization(..., "
                f"output_sequence_length={known.most})`: the longest 1 % are cut",
                "Or batches of similar length, each padded to its own longest: "
                "`ds.bucket_by_sequence_length(...)`",
            ),
            saving=saving,
            title=f"{100 * (1 - known.mean / known.width):.0f} % of what the model computes on is "
            f"padding: 99 % of the examples have at most {known.most} of {known.width} numbers",
        )


def _named(profile: ProfileRecord) -> str:
    """Returns the metrics that take the most time, if they are known: ": Precision, Recall"."""
    known = [
        layer for layer in profile.layers if layer.role == "metrics" and layer.path != "metrics"
    ]
    known.sort(key=lambda layer: -layer.time_s)
    names = [f"{layer.path} ({layer.place})" if layer.place else layer.path for layer in known[:3]]
    return f": {', '.join(names)}" if names else ""


def _time_s(profile: ProfileRecord, role: str) -> float:
    return sum(layer.time_s for layer in profile.layers if layer.role == role)


_NORMALIZES = re.compile(r"norm|moments|softmax", re.I)
_TO_DENSE = "UnsortedSegmentSum"
"""How TensorFlow makes a gradient of rows (`IndexedSlices`) a gradient of the whole table."""


def _largest_embedding(profile: ProfileRecord) -> LayerProfile | None:
    """Returns the embedding with the largest table; None if the model's classes are not known."""
    found = [layer for layer in profile.layers if layer.class_name == "Embedding"]
    return max(found, key=lambda layer: math.prod(layer.weight_shape or (0,)), default=None)


def _rows_used(summary: RunSummary, profile: ProfileRecord) -> tuple[Figure, ...]:
    """Returns the most rows that a batch uses, and all batches if fewer than there are."""
    layer, rate, step_s = _largest_embedding(profile), summary.examples_per_s, summary.step_time_s
    if layer is None or not (layer.inputs and layer.weight_shape and rate and step_s):
        return ()
    used, rows = layer.inputs * rate * step_s, layer.weight_shape[0]
    of_all = used * (summary.steps or math.inf)
    figures = [DenseEmbeddingUpdate.rows_of_a_batch(used, f"{rows:,}")] if used < rows else []
    if of_all < rows:
        figures.append(DenseEmbeddingUpdate.rows_of_all_batches(of_all))
    return tuple(figures)


def _made_dense(profile: ProfileRecord) -> str | None:
    """Returns the embedding whose gradient is made dense; None if no gradient is."""
    # By the names of operations, also under XLA. AUC makes such sums, too.
    roles = {
        layer.role
        for layer in profile.layers
        if any(_TO_DENSE in (kernel.operation or "") for kernel in layer.largest)
    }
    is_anywhere = any(operation.type == _TO_DENSE for operation in profile.operations)
    embedding = _largest_embedding(profile)
    paths = (layer.path for layer in profile.layers if "embedding" in layer.path)
    path = next(paths, None) if embedding is None else embedding.path
    if "optimizer" not in roles and (path is None or roles - {"other"} or not is_anywhere):
        return None
    rows, *others = (embedding.weight_shape if embedding else None) or (0,)
    shape = f", {' × '.join((f'{rows:,}', *map(str, others)))}" if rows else ""
    return f"{(path or 'a layer').rsplit('/', 1)[-1]}{shape}"


def _in_float32(layer: LayerProfile) -> bool:
    """Whether a layer of a model of mixed precision computes in float32 without need."""
    kinds = layer.kinds_s.keys()
    if layer.role != "layer" or not layer.largest or kinds == {"cast"}:
        return False
    if not kinds.isdisjoint(PRODUCT_KINDS):
        return False
    names = " ".join(
        (plain_name(layer.path), *(kernel.operation or "" for kernel in layer.largest))
    )
    return not _NORMALIZES.search(names) and dtype_of(layer.largest[0].name) == "float32"


def _outermost(layer: LayerProfile) -> str:
    """Returns the name of the layer of the model itself that a layer is, or is in."""
    return "/".join(layer.path.split("/")[1:2])
