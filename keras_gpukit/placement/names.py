"""Shortens names to those the user knows, such as "dense/MatMul" and "GPU:0"."""

from __future__ import annotations

import re

from keras_gpukit.records.placement import OWN_SCOPE

# Prefix of the names in the body of a loop or branch after lowering.
_LOWERED = re.compile(r"^.*/(?:body|cond|then|else)/_\d+/")
# Keras' own loop over the steps of one execution, and the call of the step.
_STEP = re.compile(r"^(?:(?:while|cond)(?:_\d+)?/)*StatefulPartitionedCall(?:_\d+)?/")
# Part of a name that inlining any further function inserts.
_CALL = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?/")
# A loop within the step. Keras' own loop is around the step, so it does not match.
_LOOP = re.compile(r"PartitionedCall(?:_\d+)?/.*while(?:_\d+)?/body/_\d+/")


def operation_name(name: str) -> str:
    """Returns a graph node's name without the functions it was inlined from."""
    return _CALL.sub("", _STEP.sub("", _LOWERED.sub("", name)))


def is_own(name: str) -> bool:
    """Whether this package added a node to the step, such as its clocks around collectives."""
    return any(part.startswith(OWN_SCOPE) for part in name.split("/"))


def is_in_loop(name: str) -> bool:
    """Whether a node is in a loop of the model, so that a step may run it several times."""
    return bool(_LOOP.search(name))


def short_device(device: str) -> str:
    """Returns "GPU:0" for "/job:localhost/replica:0/task:0/device:GPU:0"."""
    return device.rpartition("device:")[2]


def requested_device(device: str) -> str:
    """Returns "GPU:0" for "/device:GPU:0"; empty if the name is not the name of a device."""
    return short_device(device) if "device:" in device else ""
