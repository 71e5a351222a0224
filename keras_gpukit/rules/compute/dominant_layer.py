"""Whether one kind of layer takes much of the computation, for whatever reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from keras_gpukit.records.finding import Finding, Severity
from keras_gpukit.records.profile import Kind, LayerProfile, LayerRole
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launch_bound import BATCHED
from keras_gpukit.rules.compute.profile_shares import FUSED_KINDS, PRODUCT_KINDS, is_compiled
from keras_gpukit.rules.compute.slow_kernels import group_of, plain_name
from keras_gpukit.rules.compute.slow_layers import REQUIRES
from keras_gpukit.rules.rule import Measure, Outcome, Rule, Share
from keras_gpukit.rules.savings import of_compute

ADVICE: dict[LayerRole, str] = {
    "optimizer": "Fewer updates for the same examples: a larger batch, or "
    "`keras.optimizers.Adam(gradient_accumulation_steps=4)`",
    "loss": "Compute the loss of the whole batch together, as those of `keras.losses` do",
    "metrics": "Fewer metrics while training, and all of them in `evaluate` once per epoch",
}
NO_LAYER = (
    "Metrics and losses compute so, and a `train_step` of your own. Train once with "
    "`compile(metrics=[])`, or without what that step computes for metrics, and compare",
    "Metrics with many `thresholds`, or many metrics: all of them in `evaluate`, once per epoch",
)
BY_CLASS: dict[str, str] = {
    "TimeDistributed": "{name} calls its layer once for each time step. `Dense` and the like "
    "work on the last axis of all steps together: leave the wrapper out. For others, fold the "
    "time steps into the batch by `keras.ops.reshape`, and back",
    **dict.fromkeys(
        ("TextVectorization", "StringLookup", "IntegerLookup", "Hashing"),
        "Text is handled within each step, on one core: run {name} in the input, "
        "`ds.map(lambda x, y: (layer(x), y), num_parallel_calls=tf.data.AUTOTUNE)`",
    ),
}
"""Changes for layers of a class that are slow by their nature, wherever they run."""
RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM2D"})
"""Classes whose many small operations are their nature: nothing is advised without evidence."""
MANY_OPERATIONS = 100
"""Least number of operations of one layer from which they are called small; our choice. A batch
normalization has 39."""


class DominantLayer(Rule):
    """Layers of one kind, or another part of the step, that take a third of the computation.

    And at least twice as long as other layers, each for itself. Or what belongs to no layer, if it
    is most of the computation. All are our choice.
    """

    code = "dominant-layer"
    title = "One kind of layer takes much of the computation"
    requires = REQUIRES
    charts = ("captures", "layers")
    least, ratio, least_unnamed = 1 / 3, 2.0, 0.6
    of_the_computation = Share("{of} takes {value} of the computation")
    of_it_in = Share(", {value} of it {of}")
    of_it_backward = Share(", {value} of it in the backward pass")
    layers = Measure("{value} layers are of the kind {of}")

    def judge(self, summary: RunSummary) -> Outcome:
        profile = summary.profile
        if profile is None or not profile.layers:
            return self.abstain()
        # Without pauses between operations, and what a damaged file says nothing of.
        layers = [each for each in profile.layers if each.kernels and each.kinds_s and each.time_s]
        groups: dict[str, list[LayerProfile]] = {}
        for layer in layers:
            groups.setdefault(group_of(layer), []).append(layer)
        total_s = sum(map(_time_s, layers))
        unnamed = groups.pop("", [])
        unnamed_s = sum(map(_time_s, unnamed))
        if unnamed and unnamed_s >= self.least_unnamed * total_s:
            return self._in_no_layer(summary, unnamed_s / total_s, unnamed)
        least_s = self.least * total_s
        fitting = {
            name: sum(map(_time_s, group))
            for name, group in groups.items()
            if sum(map(_time_s, group)) >= least_s and self._is_unusual(group, layers)
        }
        if not fitting:
            return None
        name = max(fitting, key=lambda each: fitting[each])
        advice = _advice(name, groups[name], is_compiled(summary, profile))
        groups[name].sort(key=_time_s, reverse=True)
        # Of a GPU, other rules judge what these changes save.
        level: Severity = "warning" if len(advice) > 1 and not profile.devices else "info"
        return self._found(level, name, groups[name], total_s, advice)

    def _is_unusual(self, group: list[LayerProfile], layers: list[LayerProfile]) -> bool:
        others = [each for each in layers if each.role == "layer" and each not in group]
        if len(others) < 2 or (_kind(group) in PRODUCT_KINDS and len(group) > 1):
            return False  # as it should be
        usual_s = sum(map(_time_s, others)) / len(others)
        own_s = sum(map(_time_s, group)) / len(group)
        return group[0].role != "layer" or own_s >= self.ratio * usual_s

    def _in_no_layer(self, summary: RunSummary, share: float, of: list[LayerProfile]) -> Finding:
        largest = (each for layer in of for each in layer.largest)
        kinds = (plain_name(each.operation or each.name) for each in largest)
        mostly = ", ".join(dict.fromkeys(kinds))
        # Of a GPU, other rules judge what changes save.
        gpus = summary.profile and summary.profile.devices
        saving = None if gpus else of_compute(summary, share, basis="operations of no layer")
        return self.find(
            "info" if gpus else "warning",
            self.of_the_computation(share, "What belongs to no layer"),
            advice=NO_LAYER,
            saving=saving,
            title=f"{100 * share:.0f} % of the computation belongs to no layer: most of it "
            f"{mostly or 'unnamed'}",
        )

    def _found(
        self,
        level: Severity,
        name: str,
        group: list[LayerProfile],
        total_s: float,
        advice: Sequence[str],
    ) -> Finding:
        time_s, kind = sum(map(_time_s, group)), _kind(group)
        share, mostly = time_s / total_s, "" if kind == group[0].role else f", mostly {kind}"
        return self.find(
            level,
            self.of_the_computation(share, name),
            self.of_it_in(sum(each.kinds_s.get(kind, 0.0) for each in group) / time_s, kind),
            self.of_it_backward(sum(each.backward_s for each in group) / time_s),
            self.layers(len(group), name),
            advice=advice,
            title=f"{100 * share:.0f} % of the computation is {name}{_made(group)}{mostly}",
        )


def _advice(name: str, group: list[LayerProfile], compiled: bool) -> tuple[str, ...]:
    """Returns what to change, the last line of which is general for layers."""
    if role := ADVICE.get(group[0].role):
        return (role,)
    advice = []
    general = f"Look at {name} first: its dtype, its sizes, and whether it computes one by one "
    general += "what could be computed together"
    classes = {each.class_name for each in group}
    if known := next((BY_CLASS[each] for each in classes if each in BY_CLASS), None):
        return known.format(name=name), general
    if not classes.isdisjoint(RECURRENT):
        return (general,)
    operations = sum(each.kernels for each in group) / len(group)
    if operations >= MANY_OPERATIONS and any("matmul" in each.kinds_s for each in group):
        advice.append(BATCHED.format(name=name, many=f"{operations:.0f} operations"))
    if _kind(group) in FUSED_KINDS and not compiled:
        advice.append("`compile(jit_compile=True)`: XLA makes few operations of many")
    return (*advice, general)


def _made(group: list[LayerProfile]) -> str:
    """Returns class and line of a layer, or of the largest of several, in brackets."""
    first = group[0]
    if first.class_name is None:
        return ""
    own = first.path.rsplit("/", 1)[-1]
    words = [first.class_name, *([f"as {own}"] if len(group) > 1 else [])]
    return f" ({', '.join([*words, *([first.place] if first.place else [])])})"


def _kind(group: list[LayerProfile]) -> Kind:
    """Returns the kind of computation that takes most of some layers' time."""
    times_s: Counter[Kind] = Counter()
    for each in group:
        times_s.update(each.kinds_s)
    return times_s.most_common(1)[0][0]


_time_s = attrgetter("time_s")
