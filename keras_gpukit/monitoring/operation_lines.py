"""Says of operations outside layers which metric, or which line of the script, makes them.

Keras opens no scope for metrics, and none is open in a training step of one's own, so their names
do not tell. The graph knows the Python stack that made each operation.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from traceback import FrameSummary
from typing import Any, NamedTuple

from keras_gpukit.frameworks.tf_functions import LOOPS, nested_graphs, step_graph
from keras_gpukit.input.pipelines.places import place
from keras_gpukit.layer_names import forward_of, is_backward
from keras_gpukit.monitoring.script_globals import is_of_the_script
from keras_gpukit.records.profile import KernelProfile, LayerProfile, LayerRole, ProfileRecord

_KERAS = os.path.join("keras", "src", "")
_METRICS = os.path.join(_KERAS, "metrics", "")
_LAYERS = os.path.join(_KERAS, "layers", "")
# Files of metrics, and of the losses that metrics may be, but for those that many metrics share.
_OF_METRICS = _METRICS, os.path.join(_KERAS, "losses", "")
_SHARED = ("metric.py", "metrics_utils.py", "reduction_metrics.py")
_COMPILED = os.path.join(_KERAS, "trainers", "compile_utils.py")
KEPT = 3
"""Operations that are kept of each part, as of layers."""


class Maker(NamedTuple):
    """Metric or line of the script that makes an operation; the line is None outside the script."""

    name: str
    role: LayerRole
    place: str | None


def with_lines(profile: ProfileRecord, model: Any) -> ProfileRecord:
    """Returns the profile with what belongs to no layer divided by what makes it.

    Raises AttributeError if the training step is not Keras' own, so that its graph is unknown.
    """
    graph = step_graph(model.train_function)
    if graph is None or not profile.steps:
        return profile
    makers = _Makers(graph, model.name)
    divided = (
        _divided(layer, makers, profile.steps) if layer.role == "other" else (layer,)
        for layer in profile.layers
    )
    layers = tuple(part for parts in divided for part in parts)
    return replace(profile, layers=layers, loops=makers.loops())


class _Makers:
    """Finds what makes the operations of a graph, by their names."""

    def __init__(self, graph: Any, model_name: str) -> None:
        self._scope = f"{model_name}/"
        self._own = {operation.name: operation for operation in graph.get_operations()}
        self._called: dict[str, list[Any]] = {}
        for called in nested_graphs(graph):
            for operation in called.get_operations():
                self._called.setdefault(operation.name, []).append(operation)

    def of(self, kernel: KernelProfile) -> Maker | None:
        """Returns the maker of an operation, or of that whose gradient it is; None if unknown."""
        name = forward_of(kernel.operation or "")
        if name in self._own:
            return _maker(self._own[name].traceback)
        # A function's name, or the loop's, is before those of what is in it.
        scopes = name.split("/")
        ends = ("/".join(scopes[at:]) for at in range(len(scopes)))
        found = next((self._called[end] for end in ends if end in self._called), ())
        if len(found) == 1:
            return _maker(found[0].traceback)
        return self._of_inputs(kernel.operation or "")

    def loops(self) -> tuple[str, ...]:
        """Returns the lines of the script that make loops, but for those of Keras' layers."""
        called = (op for graphs in self._called.values() for op in graphs)
        loops = (op for op in (*self._own.values(), *called) if op.type in LOOPS)
        makers = (_maker(loop.traceback) for loop in loops if not _is_of_layer(loop.traceback))
        places = dict.fromkeys(maker.place for maker in makers if maker is not None)
        return tuple(line for line in places if line)

    def _of_inputs(self, name: str) -> Maker | None:
        """Returns the maker of what a gradient without a scope is of, by what it computes with."""
        level = [self._own[name]] if is_backward(name) and name in self._own else []
        seen: set[str] = set()
        while level:
            inputs = {value.op.name: value.op for operation in level for value in operation.inputs}
            outside = [op for op in inputs.values() if self._scope not in op.name]
            forward = (op for op in outside if not is_backward(op.name))
            makers = Counter(filter(None, (_maker(op.traceback) for op in forward)))
            if makers:
                return makers.most_common(1)[0][0]
            level = [op for op in outside if is_backward(op.name) and op.name not in seen]
            seen.update(op.name for op in level)
        return None


def _maker(stack: Iterable[FrameSummary]) -> Maker | None:
    """Returns what makes an operation, by the Python stack of the call that did."""
    frames = list(within_step(stack))
    script = next((frame for frame in reversed(frames) if is_of_the_script(frame.filename)), None)
    line = place(script.filename, script.lineno or 0) if script else None
    in_metrics = [frame for frame in frames if _METRICS in frame.filename]
    if in_metrics or any(_updates_metrics(frame) for frame in frames):
        known = (frame for frame in frames if any(of in frame.filename for of in _OF_METRICS))
        named = [frame for frame in known if not frame.filename.endswith(_SHARED)]
        frame = script or next(iter(reversed(named or in_metrics)), None)
        return Maker(_named(frame), "metrics", line) if frame else None
    return Maker(line, "line", line) if line else None


def _is_of_layer(stack: Iterable[FrameSummary]) -> bool:
    """Whether a layer of Keras, called by the script or not, makes an operation."""
    frames = reversed(list(stack))
    inner = itertools.takewhile(lambda frame: not is_of_the_script(frame.filename), frames)
    return any(_LAYERS in frame.filename for frame in inner)


def within_step(stack: Iterable[FrameSummary]) -> Iterator[FrameSummary]:
    """Yields the frames after the first one of Keras, which the script has called for training."""
    within = False
    for frame in stack:
        within = within or _KERAS in frame.filename
        if within:
            yield frame


def _updates_metrics(frame: FrameSummary) -> bool:
    return frame.name == "update_state" and frame.filename.endswith(_COMPILED)


def _named(frame: FrameSummary) -> str:
    """Returns the class around a line of code, or its function."""
    return _classes(frame.filename).get(frame.lineno or 0, frame.name)


@functools.lru_cache(maxsize=16)
def _classes(filename: str) -> dict[int, str]:
    """Returns the class around each line of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return {}
    return {
        line: node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _divided(layer: LayerProfile, makers: _Makers, steps: int) -> Iterator[LayerProfile]:
    """Yields the parts of what belongs to no layer, and what is left of it."""
    made: dict[Maker, list[KernelProfile]] = {}
    unknown: list[KernelProfile] = []
    for kernel in layer.largest:
        maker = makers.of(kernel)
        (unknown if maker is None else made.setdefault(maker, [])).append(kernel)
    rest = replace(layer, largest=tuple(unknown[:KEPT]))
    for maker, kernels in made.items():
        part = _part(layer, maker, kernels, steps)
        yield part
        rest = _without(rest, part)
    if rest.kernels >= 0.5 / steps or not made:
        yield rest


def _part(
    layer: LayerProfile, maker: Maker, kernels: Sequence[KernelProfile], steps: int
) -> LayerProfile:
    def time_s(chosen: Iterable[KernelProfile]) -> float:
        return layer.time_s * sum(kernel.share for kernel in chosen)

    whole_s = time_s(kernels)
    on_gpu = layer.tensor_core_fraction is not None
    cores_s = time_s(kernel for kernel in kernels if kernel.tensor_core)
    return LayerProfile(
        path=maker.name,
        role=maker.role,
        time_s=whole_s,
        backward_s=time_s(kernel for kernel in kernels if is_backward(kernel.operation or "")),
        kinds_s={
            kind: time_s(kernel for kernel in kernels if kernel.kind == kind)
            for kind in dict.fromkeys(kernel.kind for kernel in kernels)
        },
        kernels=sum(kernel.count for kernel in kernels) / steps,
        tensor_core_fraction=cores_s / whole_s if on_gpu and whole_s else None,
        largest=tuple(
            replace(kernel, share=kernel.share * layer.time_s / (whole_s or 1.0))
            for kernel in kernels[:KEPT]
        ),
        place=maker.place,
    )


def _without(layer: LayerProfile, part: LayerProfile) -> LayerProfile:
    kinds_s = {
        kind: left_s
        for kind, s in layer.kinds_s.items()
        if (left_s := s - part.kinds_s.get(kind, 0.0)) > 1e-9 * layer.time_s
    }
    return replace(
        layer,
        time_s=max(layer.time_s - part.time_s, 0.0),
        backward_s=max(layer.backward_s - part.backward_s, 0.0),
        kinds_s=kinds_s,
        kernels=max(layer.kernels - part.kernels, 0.0),
    )
