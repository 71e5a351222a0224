"""Names as the user knows them: "dense/MatMul" on "GPU:0"."""

from __future__ import annotations

import re

from keras_gpukit.records.operations import OWN_SCOPE

# What lowering a loop or a branch puts before the names of its body.
_LOWERED = re.compile(r"^.*/(?:body|cond|then|else)/_\d+/")
# Keras' own loop over the steps of one execution, and the call of the step.
_STEP = re.compile(r"^(?:(?:while|cond)(?:_\d+)?/)*StatefulPartitionedCall(?:_\d+)?/")
# What inlining any further function puts in between.
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")
# A loop within the step; Keras' own is around it.
_LOOP = re.compile(r"PartitionedCall(?:_\d+)?/.*while(?:_\d+)?/body/_\d+/")


def operation_name(name: str) -> str:
    """Returns a graph node's name without the functions it was inlined from."""
    return _CALL.sub("", _STEP.sub("", _LOWERED.sub("", name)))


def is_own(name: str) -> bool:
    """Whether this package added a graph's node to the step, as its clocks of collectives."""
    return any(part.startswith(OWN_SCOPE) for part in name.split("/"))


def is_in_loop(name: str) -> bool:
    """Whether a step runs a graph's node any number of times."""
    return bool(_LOOP.search(name))


def short_device(device: str) -> str:
    """Returns "GPU:0" for "/job:localhost/replica:0/task:0/device:GPU:0"."""
    return device.rpartition("device:")[2]


def requested_device(device: str) -> str:
    """Returns "GPU:0" for "/device:GPU:0"; empty for a name that is none of a device."""
    return short_device(device) if "device:" in device else ""
