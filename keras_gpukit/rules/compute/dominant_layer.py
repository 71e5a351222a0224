"""Whether one kind of layer takes much of the computation, for whatever reason."""

from __future__ import annotations

from collections import Counter

from keras_gpukit.records.profile import LayerProfile, LayerRole
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.kernel_names import plain_name
from keras_gpukit.rules.compute.launch_bound import LaunchBound
from keras_gpukit.rules.compute.profile_shares import PRODUCT_KINDS
from keras_gpukit.rules.compute.python_in_step import PythonInStep
from keras_gpukit.rules.compute.slow_kernels import (
    Float64Kernels,
    LayoutChanges,
    MisalignedProducts,
)
from keras_gpukit.rules.compute.slow_layers import (
    REQUIRES,
    DenseEmbeddingUpdate,
    Float32Layers,
    SlowMetrics,
)
from keras_gpukit.rules.compute.unfused import UnfusedOperations
from keras_gpukit.rules.rule import Outcome, Rule, figure, percent

ADVICE: dict[LayerRole, str] = {
    "optimizer": "Fewer updates for the same examples: a larger batch, or "
    "`keras.optimizers.Adam(gradient_accumulation_steps=4)`",
    "loss": "Compute the loss of the whole batch together, as those of `keras.losses` do",
    "metrics": "Fewer metrics while training, and all of them in `evaluate` once per epoch",
}


class DominantLayer(Rule):
    """Layers of one kind, or another part of the step, that take a third of the computation.

    And at least twice as long as other layers, each for itself. Both are our choice.
    """

    code = "dominant-layer"
    subject = "layers"
    title = "One kind of layer takes much of the computation"
    requires = REQUIRES
    yields_to = (
        UnfusedOperations.code,
        LaunchBound.code,
        PythonInStep.code,
        Float64Kernels.code,
        MisalignedProducts.code,
        LayoutChanges.code,
        DenseEmbeddingUpdate.code,
        Float32Layers.code,
        SlowMetrics.code,
    )
    least, ratio = 1 / 3, 2.0

    def judge(self, summary: RunSummary) -> Outcome:
        """Looks for a kind of layer that is out of proportion."""
        profile = summary.profile
        if profile is None or not profile.layers:
            return self.abstain()
        groups: dict[str, list[LayerProfile]] = {}
        for layer in profile.layers:
            name = plain_name(layer.path) if layer.role == "layer" else layer.role
            groups.setdefault(name, []).append(layer)
        name, found = max(groups.items(), key=lambda each: sum(part.time_s for part in each[1]))
        others = [each for each in profile.layers if each.role == "layer" and each not in found]
        time_s = sum(each.time_s for each in found)
        share = time_s / sum(each.time_s for each in profile.layers)
        usual_s = self.ratio * sum(each.time_s for each in others) / (len(others) or 1)
        is_layer = found[0].role == "layer"
        if share < self.least or found[0].role == "other" or len(others) < 2:
            return None
        if is_layer and time_s / len(found) < usual_s:
            return None
        kinds: Counter[str] = Counter()
        for each in found:
            kinds.update(each.kinds_s)
        [(kind, kind_s)] = kinds.most_common(1)
        if kind in PRODUCT_KINDS and len(found) > 1:
            return None  # as it should be
        backward = sum(each.backward_s for each in found) / time_s
        return self.find(
            "info",
            percent("of_the_computation", share, name),
            percent("of_it_in", kind_s / time_s, kind),
            percent("of_it_backward", backward),
            figure("layers", len(found), of=name),
            advice=(
                f"Look at {name} first: its dtype, its sizes, and whether it computes one by one "
                "what could be computed together"
                if is_layer
                else ADVICE[found[0].role],
            ),
            title=f"{100 * share:.0f} % of the computation is {name}, mostly {kind}",
        )
