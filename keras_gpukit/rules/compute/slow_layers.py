"""Parts of a model that take more of each step than they must."""

from __future__ import annotations

from collections.abc import Collection

from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import PRODUCT_KINDS, own_step_s
from keras_gpukit.rules.rule import Outcome, Rule, figure, percent
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute, severity

REQUIRES = "a profile of the steps with the time of each layer"


class DenseEmbeddingUpdate(Rule):
    """An optimizer that computes with all rows of an embedding, though a batch uses few.

    Keras' optimizers with moments, as Adam, make one gradient of the whole table from the rows'.
    With a million rows, steps took an H100 2.7 times as long as with SGD, which changes only the
    rows that a batch used.
    """

    code = "dense-embedding-update"
    subject = "embeddings"
    title = "The optimizer updates all rows of an embedding in each step"
    requires = REQUIRES

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the optimizer's time with a tenth, if it makes sparse gradients dense."""
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or not profile.layers:
            return self.abstain()
        share = _time_s(profile, "optimizer") / own_s
        embedding = _made_dense(profile)
        if embedding is None or share < WARNING_FRACTION:
            return None
        saving = of_compute(summary, share, low=share / 2, basis="the optimizer in a profile")
        return self.find(
            severity(saving, summary),
            percent("of_a_step_in_the_optimizer", share),
            advice=(
                "An optimizer without moments changes only the rows that a batch uses: "
                "`keras.optimizers.SGD(...)` without momentum",
                "Fewer or narrower rows: hash rare words into fewer, or a smaller `output_dim`",
                "`compile(jit_compile=True)`: XLA fuses the update, which still takes all rows",
            ),
            saving=saving,
            title=f"{self.title} ({embedding}): {100 * share:.0f} % of the step",
        )


class SmallProducts(Rule):
    """Many small matrix products, as in a Python loop, where one batched product would do.

    Launching a kernel takes the host about 5 µs; a product of under 10 µs uses few of a large GPU's
    cores. From 16 products of one layer in a step on; both are our choice. 64 products of 256×64×64
    took an H100 2.5 times as long as one batched product.
    """

    code = "small-products"
    subject = "small products"
    title = "Many small matrix products"
    requires = REQUIRES
    least, most_s = 16, 10e-6

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for layers with many short products that take a tenth of the step."""
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or not profile.layers:
            return self.abstain()
        if not profile.devices:
            return self.abstain("on a CPU, small products are not known to be slow")
        found = [(layer, self._products(layer, profile.steps)) for layer in profile.layers]
        layer, count = max(found, key=lambda each: each[1])
        kernels = sum(each.kernels for each in profile.layers)
        # Its part of all time: kernels that run, and waits for launches, as many as its kernels.
        computed = profile.parts_s.get("device compute", 0.0) / own_s
        share = layer.time_s / own_s + (1 - computed) * layer.kernels / kernels if kernels else 0.0
        if count < self.least or share < WARNING_FRACTION:
            return None
        saving = of_compute(summary, share, low=share / 3, basis="kernels of one layer")
        name = layer.path.rsplit("/", 1)[-1]
        return self.find(
            severity(saving, summary),
            percent("of_a_step_in", share, name),
            figure("small_products_per_step", count),
            figure("kernels_per_step", layer.kernels, of=name),
            advice=(
                "One batched product instead of a loop: `tf.einsum('bcw,cwv->bcv', parts, "
                "matrices)`, or `tf.matmul` of stacked matrices",
                "`keras.layers.MultiHeadAttention` and `DepthwiseConv2D` do so for their heads",
            ),
            saving=saving,
            title=f"{name} computes {count:.0f} small matrix products one by one",
        )

    def _products(self, layer: LayerProfile, steps: int) -> float:
        """Returns how many short products the layer's largest kernels are per step."""
        return sum(
            each.count / steps
            for each in layer.largest
            if each.kind in PRODUCT_KINDS and each.time_s < self.most_s * each.count
        )


class SlowMetrics(Rule):
    """Metrics that take at least a tenth of the steps' own time."""

    code = "slow-metrics"
    subject = "metrics"
    title = "Metrics take much of each step"
    requires = REQUIRES

    def judge(self, summary: RunSummary) -> Outcome:
        """Compares the time of the metrics' kernels and launches with a tenth of the step."""
        profile, own_s = summary.profile, own_step_s(summary)
        if profile is None or own_s is None or not profile.layers:
            return self.abstain()
        low = _time_s(profile, "metrics") / own_s
        of_all = sum(each.kernels for each in profile.layers if each.role == "metrics") / (
            sum(each.kernels for each in profile.layers) or 1.0
        )
        computed = profile.parts_s.get("device compute" if profile.devices else "host compute", 0.0)
        share = min(low + max(1 - computed / own_s, 0.0) * of_all, 1.0)
        if share < WARNING_FRACTION:
            return None
        saving = of_compute(summary, share, low=low, basis="metrics in a profile")
        return self.find(
            severity(saving, summary),
            percent("of_a_step_in_metrics", low),
            percent("of_a_step's_kernels", of_all),
            advice=(
                "Fewer metrics while training, and all of them in `evaluate` once per epoch",
                "`compile(jit_compile=True)`: XLA fuses what metrics compute",
            ),
            saving=saving,
            title=f"Metrics take {100 * share:.0f} % of each step",
        )


def _time_s(profile: ProfileRecord, role: str) -> float:
    return sum(layer.time_s for layer in profile.layers if layer.role == role)


_TO_DENSE: Collection[str] = ("UnsortedSegmentSum",)
"""How TensorFlow makes a gradient of rows (`IndexedSlices`) a gradient of the whole table."""


def _made_dense(profile: ProfileRecord) -> str | None:
    """Returns the embedding whose gradient is made dense; None if no gradient is."""
    if not any(each.type in _TO_DENSE for each in profile.operations):
        return None
    paths = (each.path for each in profile.layers if "embedding" in each.path)
    return next((path.rsplit("/", 1)[-1] for path in paths), "a layer")
