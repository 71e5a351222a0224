"""Layers that are not trained, and compute the same for an example in each epoch."""

from __future__ import annotations

from keras_gpukit.records.profile import LayerProfile, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.profile_shares import ProfileRule
from keras_gpukit.rules.compute.slow_layers import REQUIRES
from keras_gpukit.rules.rule import Measure, Outcome, Share, seconds
from keras_gpukit.rules.savings import WARNING_FRACTION, of_run, severity

LEAST_SAVED = 0.8
"""Least part of their time that is saved. Our choice: it was all of it, and that of validation,
with eight convolutions on two cores, whose 17 s of `fit` became less than 1 s."""


class FrozenFeatures(ProfileRule):
    """Frozen layers at a model's start, which compute an example's features in each epoch again."""

    code = "frozen-features"
    title = "Frozen layers compute the same in each epoch"
    requires = f"two epochs, and {REQUIRES}"
    part = "layers"
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
        low_s = LEAST_SAVED * again * parts.compute_s if frozen.gets_arrays else 0.0
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


def _outermost(layer: LayerProfile) -> str:
    """Returns the name of the layer of the model itself that a layer is, or is in."""
    return "/".join(layer.path.split("/")[1:2])
