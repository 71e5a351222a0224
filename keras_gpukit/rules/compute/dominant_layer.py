"""Which layer, line or loop of the script takes much of each step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

from keras_gpukit.records.finding import Severity
from keras_gpukit.records.profile import Kind, LayerProfile, LayerRole, ProfileRecord
from keras_gpukit.records.run import RunSummary
from keras_gpukit.rules.compute.launch_bound import BATCHED
from keras_gpukit.rules.compute.profile_shares import (
    FUSED_KINDS,
    PRODUCT_KINDS,
    LayersRule,
    is_compiled,
)
from keras_gpukit.rules.compute.slow_kernels import group_of, plain_name
from keras_gpukit.rules.rule import Measure, Outcome, Share
from keras_gpukit.rules.savings import WARNING_FRACTION, of_compute

ADVICE: dict[LayerRole, str] = {
    "optimizer": "Fewer updates for the same examples: a larger batch, or "
    "`keras.optimizers.Adam(gradient_accumulation_steps=4)`",
    "loss": "Compute the loss of the whole batch together, as those of `keras.losses` do",
    "metrics": "Fewer metrics while training, and all of them in `evaluate` once per epoch",
}
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
MOST_LINES = 3
"""Lines, or operations, that are named."""
LEAST_NAMED = 0.05
"""Least share of the computation of a line that is named; our choice."""

LEAST_BETWEEN = 0.5
"""Least share of the layers' time between operations; our choice. It was 0.76 to 0.9 of two
losses that use `tf.map_fn` over the examples of a batch."""
MOST_LOOPS = 2
DECOMPOSITIONS = frozenset({"Svd", "SelfAdjointEigV2", "Eig", "Qr"})
"""Kinds of operations that decompose a matrix, which takes as long as many products of it."""
DECOMPOSES = (
    "decomposes a whole matrix in each step, as a norm with `ord=2` does: for the largest singular "
    "value, a few products are enough (power iteration, as `keras.layers.SpectralNormalization` "
    "does), or compute it every tenth step only"
)


class DominantLayer(LayersRule):
    """Layers of one kind, or another part of the step, that take a third of the computation.

    And at least twice as long as other layers, each for itself. Both are our choice.
    """

    code = "dominant-layer"
    title = "One kind of layer takes much of the computation"
    least, ratio = 1 / 3, 2.0
    of_the_computation = Share("{of} takes {value} of the computation")
    of_it_in = Share(", {value} of it {of}")
    of_it_backward = Share(", {value} of it in the backward pass")
    layers = Measure("{value} layers are of the kind {of}")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        layers = _computing(profile)
        groups: defaultdict[str, list[LayerProfile]] = defaultdict(list)
        for layer in layers:
            groups[group_of(layer)].append(layer)
        groups.pop("", None)
        unusual = [item for item in groups.items() if self._is_unusual(item[1], layers)]
        if not unusual:
            return None
        name, group = max(unusual, key=lambda item: _sum_s(item[1]))
        time_s, total_s = _sum_s(group), _sum_s(layers)
        if time_s < self.least * total_s:
            return None
        group.sort(key=_time_s, reverse=True)
        advice = _advice(name, group, is_compiled(summary, profile))
        # Of a GPU, other rules judge what these changes save.
        level: Severity = "warning" if len(advice) > 1 and not profile.devices else "info"
        share, kind = time_s / total_s, _kind(group)
        mostly = "" if kind == group[0].role else f", mostly {kind}"
        return self.find(
            level,
            self.of_the_computation(share, name),
            self.of_it_in(sum(layer.kinds_s.get(kind, 0.0) for layer in group) / time_s, kind),
            self.of_it_backward(sum(layer.backward_s for layer in group) / time_s),
            *([self.layers(len(group), name)] if len(group) > 1 else []),
            advice=advice,
            title=f"{100 * share:.0f} % of the computation is {name}{_made(group)}{mostly}",
        )

    def _is_unusual(self, group: list[LayerProfile], layers: list[LayerProfile]) -> bool:
        others = [layer for layer in layers if layer.role == "layer" and layer not in group]
        if len(others) < 2 or (_kind(group) in PRODUCT_KINDS and len(group) > 1):
            return False  # as it should be
        usual_s, own_s = _sum_s(others) / len(others), _sum_s(group) / len(group)
        return group[0].role != "layer" or own_s >= self.ratio * usual_s


class ComputeOutsideLayers(LayersRule):
    """Lines of the script outside of layers that take a third of the computation.

    Or what belongs to no layer for whatever reason, if it takes three fifths. Both are our choice.
    """

    code = "compute-outside-layers"
    title = "Much of the computation belongs to no layer"
    least_of_lines, least = 1 / 3, 0.6
    of_the_computation = Share("What belongs to no layer takes {value} of the computation")
    of_it_by_line = Share(", {of} {value}")
    of_it_backward = Share(", {value} of it in the backward pass")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        if summary.environment.runs_eagerly:
            return self.abstain("operations of eager steps do not name their layers")
        layers = _computing(profile)
        total_s = _sum_s(layers) or 1.0
        lines = [layer for layer in layers if layer.role == "line"]
        outside = [*lines, *(layer for layer in layers if layer.role == "other")]
        outside_s = _sum_s(outside)
        share, backward_s = outside_s / total_s, sum(layer.backward_s for layer in outside)
        if _sum_s(lines) < self.least_of_lines * total_s and share < self.least:
            return None
        lines.sort(key=_time_s, reverse=True)
        lines = [line for line in lines[:MOST_LINES] if line.time_s >= LEAST_NAMED * total_s]
        removable = [line for line in lines if not line.backward_s]
        decompose = [
            line for line in lines if not DECOMPOSITIONS.isdisjoint(_operation_names([line]))
        ]
        left_out = _sum_s((decompose or removable) if lines else outside) / total_s
        # Of a GPU, other rules judge what changes save.
        is_info = bool(profile.devices) or not left_out
        basis = "operations of no layer"
        return self.find(
            "info" if is_info else "warning",
            self.of_the_computation(share),
            *(self.of_it_by_line(line.time_s / total_s, line.path) for line in lines),
            self.of_it_backward(backward_s / outside_s),
            advice=_outside(lines, removable, decompose),
            saving=None if is_info else of_compute(summary, left_out, basis=basis),
            title=f"{100 * share:.0f} % of the computation belongs to no layer: most of it "
            f"{_lines_in_words(lines) or _operations(outside) or 'unnamed'}",
        )


class RepeatedForwardPass(LayersRule):
    """A step of the script's own that computes a model, or a layer, again for the same batch."""

    code = "repeated-forward-pass"
    title = "A step calls a model several times on the same batch"
    supersedes = ("dominant-layer",)
    of_the_computation = Share("All calls but the first take {value} of the computation")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        most = max(profile.repeats, key=lambda repeat: repeat.again_s, default=None)
        share = most.again_s / (_sum_s(_computing(profile)) or 1.0) if most else 0.0
        if most is None or share < WARNING_FRACTION:
            return None
        lines = " and ".join(most.places[:MOST_LINES])
        return self.find(
            "warning",
            self.of_the_computation(share),
            advice=(
                f"call {most.name} once in each step, and use what it returns for all losses and "
                "metrics; several losses are added up under one `tf.GradientTape`",
                "If the calls shall differ, as by dropout, what comes before that is enough once",
            ),
            saving=of_compute(summary, share, basis="repeated calls"),
            title=f"{most.name} computes each batch {most.calls} times"
            f"{f' ({lines})' if lines else ''}",
        )


class LoopInStep(LayersRule):
    """A step whose time passes between small operations, and in which the script makes a loop."""

    code = "loop-in-step"
    title = "A loop within the step starts many small operations"
    tried_by = ("jit",)
    of_a_step_between_operations = Share("{value} of a step passes between its operations")

    def judge_profile(self, summary: RunSummary, profile: ProfileRecord, own_s: float) -> Outcome:
        share = profile.between_fraction
        if not profile.loops or share < LEAST_BETWEEN:
            return None
        lines = " and ".join(profile.loops[:MOST_LOOPS])
        return self.find(
            "warning",
            self.of_a_step_between_operations(share),
            advice=(
                "compute all turns at once, by broadcasting, such as `a[:, None] - b[None]`, or by "
                "`tf.vectorized_map(f, xs)` in place of `tf.map_fn`",
                "`compile(jit_compile=True)`: XLA makes few operations of a turn",
            ),
            saving=of_compute(summary, share, basis="time between operations"),
            title=f"The loop at {lines} runs within each step: {100 * share:.0f} % of the step "
            "passes between small operations",
        )


def _computing(profile: ProfileRecord) -> list[LayerProfile]:
    """Returns layers without pauses between operations, and what damaged files say nothing of."""
    return [layer for layer in profile.layers if layer.kernels and layer.kinds_s and layer.time_s]


def _lines_in_words(lines: Sequence[LayerProfile]) -> str:
    return ", ".join(f"{line.path} ({_operations([line])})" for line in lines)


def _operations(layers: Sequence[LayerProfile]) -> str:
    """Returns the kinds of the largest operations: "TopKV2, MatMul"."""
    return ", ".join(dict.fromkeys(_operation_names(layers)[:MOST_LINES]))


def _operation_names(layers: Sequence[LayerProfile]) -> list[str]:
    largest = (kernel for layer in layers for kernel in layer.largest)
    return [plain_name(kernel.operation or kernel.name) for kernel in largest]


def _outside(
    lines: Sequence[LayerProfile],
    removable: Sequence[LayerProfile],
    decompose: Sequence[LayerProfile],
) -> tuple[str, ...]:
    """Returns what to change in lines outside of layers; in general if they are not known."""
    if decompose:
        return (f"{decompose[0].path} {DECOMPOSES}",)
    if not lines:
        return (
            "Losses compute so, and a `train_step` of your own. Train once without what that step "
            "computes for metrics, and compare",
        )
    if not removable:
        return (f"Look at {lines[0].path} first: its sizes, and whether each step needs all of it",)
    names = ", ".join(line.path for line in removable)
    return (
        f"If {names} is for a metric only, leave it out, or compute it in `evaluate` once per "
        "epoch; else look at its sizes",
    )


def _advice(name: str, group: list[LayerProfile], compiled: bool) -> tuple[str, ...]:
    """Returns what to change, the last line of which is general for layers."""
    if role := ADVICE.get(group[0].role):
        return (role,)
    advice = []
    general = f"Look at {name} first: its dtype, its sizes, and whether it computes one by one "
    general += "what could be computed together"
    classes = {layer.class_name for layer in group}
    if known := next(
        (BY_CLASS[class_name] for class_name in classes if class_name in BY_CLASS), None
    ):
        return known.format(name=name), general
    if not classes.isdisjoint(RECURRENT):
        return (general,)
    operations = sum(layer.kernels for layer in group) / len(group)
    if operations >= MANY_OPERATIONS and any("matmul" in layer.kinds_s for layer in group):
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
    for layer in group:
        times_s.update(layer.kinds_s)
    return times_s.most_common(1)[0][0]


_time_s = attrgetter("time_s")


def _sum_s(layers: Iterable[LayerProfile]) -> float:
    return sum(layer.time_s for layer in layers)
