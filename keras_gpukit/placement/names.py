"""Names as the user knows them: "dense/MatMul" on "GPU:0"."""

from __future__ import annotations

import re
from collections.abc import Collection

# What lowering a loop or a branch puts before the names of its body.
_LOWERED = re.compile(r"^.*/(?:body|cond|then|else)/_\d+/")
# Keras' own loop over the steps of one execution, and the call of the step.
_STEP = re.compile(r"^(?:(?:while|cond)(?:_\d+)?/)*StatefulPartitionedCall(?:_\d+)?/")
# What inlining any further function puts in between.
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")
_NUMBERED = re.compile(r"(.+)_\d+")


def operation_name(name: str) -> str:
    """Returns a graph node's name without the functions it was inlined from."""
    return _CALL.sub("", _STEP.sub("", _LOWERED.sub("", name)))


def layer_path(name: str, layers: Collection[str]) -> str:
    """Returns `name` with its layers spelt as in the model.

    Keras traces a model more than once and numbers the name scopes: the layer `dense` of the
    training step is `dense_1`.
    """
    return "/".join(_as_layer(part, layers) for part in name.split("/"))


def _as_layer(part: str, layers: Collection[str]) -> str:
    numbered = _NUMBERED.fullmatch(part)
    if part not in layers and numbered and numbered[1] in layers:
        return numbered[1]
    return part


def short_device(device: str) -> str:
    """Returns "GPU:0" for "/job:localhost/replica:0/task:0/device:GPU:0"."""
    return device.rpartition("device:")[2]
