"""Setup: what TensorFlow and NVML show after `configure_gpus`, each case in its own process."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

from benchmarks.gpu.nvml import added_bytes, read_gpus
from benchmarks.gpu.part import Outcome, Part

GIB, MIB = 2**30, 2**20
CONTEXT_BYTES = 3 * GIB
"""More than the CUDA context and the libraries of one process take."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "growth": {"mixed_precision": "auto"},
    "logical": {"memory": "all", "logical_gpus": (1, 2), "strategy": "none"},
    "all": {"memory": "all"},
    "limit": {"memory": 2},
    "async": {"allocator": "cuda_malloc_async"},
    "reversed": {},
}
"""Arguments of `configure_gpus` in each case; sizes in units."""
PART = Part("setup", "Do TensorFlow and NVML show what `configure_gpus` was asked for?")


def set_up(small: bool, *, name: str) -> dict[str, Any]:
    """Sets the GPUs up, computes a little, and reads what is there then."""
    import keras_gpukit as gpukit

    before, unit = read_gpus(), MIB * 16 if small else GIB
    arguments = dict(ARGUMENTS[name])
    if "logical_gpus" in arguments:
        arguments["logical_gpus"] = [unit * size for size in arguments["logical_gpus"]]
    if isinstance(arguments.get("memory"), int):
        arguments["memory"] *= unit
    if name == "reversed" and before:
        # The other order is what counting by NVML's index would get wrong.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(reversed(before))
    setup = gpukit.configure_gpus(**arguments, verbose=False)

    import keras
    import tensorflow as tf

    from keras_gpukit.sensors.devices import visible_gpus

    def refused(device: str, numbers: int) -> str | None:
        """Returns the error of a tensor that a device does not take."""
        try:
            with tf.device(device):
                tf.zeros([numbers])[:1].numpy()
        except tf.errors.ResourceExhaustedError as error:
            return str(error)
        return None

    def grew_on(device: str) -> str | None:
        """Returns the GPU on which memory grew by at least half of a tensor, by its UUID."""
        held_before = read_gpus()
        with tf.device(device):
            held = tf.zeros([unit // 4]) + 1.0
            held[:1].numpy()
        added = added_bytes(held_before)
        del held
        uuid = max(added, key=lambda gpu_uuid: added[gpu_uuid], default=None)
        return uuid if uuid is not None and added[uuid] >= unit / 2 else None

    values = tf.random.normal((1024, 1024))
    tf.linalg.matmul(values, values).numpy()
    added, after = added_bytes(before), read_gpus()
    kinds = "GPU", "CPU"
    logical, cpus = (
        [device.name for device in tf.config.list_logical_devices(kind)] for kind in kinds
    )
    devices = logical or cpus
    sizes = {"1": unit, "1.5": 3 * unit // 2, "3": 3 * unit}
    owners = {number: gpu.uuid for gpu in visible_gpus() for number in gpu.logical or ()}
    allocator = re.search(r"by allocator (\S+)", refused(devices[0], 2**58) or "")
    return {
        "warnings": list(setup.warnings),
        "logical_gpus": len(logical),
        "added_bytes": added,
        "gpus": after,
        "dtype_policy": keras.config.dtype_policy().name,
        "fits": [
            {name: not refused(device, size // 4) for name, size in sizes.items()}
            for device in devices
        ],
        "allocator": allocator and allocator[1],
        "named_uuids": [owners[number] for number in sorted(owners)],
        "grew_uuids": [grew_on(device) for device in logical],
        "unit": unit,
    }


for _name in ARGUMENTS:
    # The cases of logical GPUs and limits load TensorFlow twice. "async" reads no GPU's memory.
    _alone = _name != "async"
    PART.slice(_name, 40, case=_name, alone=_alone)(partial(set_up, name=_name))


def most_added(case: dict[str, Any]) -> tuple[str, int, str]:
    """Returns the GPU whose memory in use grew most, by how much, and this in words."""
    uuid, added = max(case["added_bytes"].items(), key=lambda item: item[1])
    total = case["gpus"][uuid]["total_bytes"]
    return uuid, added, f"{added / GIB:.2f} of {total / GIB:.0f} GiB were taken."


@PART.claim(
    'memory="growth" takes only what is needed: a small product uses less than 10 % of a GPU',
    "growth",
)
def growth(case: dict[str, Any]) -> Outcome:
    uuid, added, taken = most_added(case)
    return Outcome(added < 0.1 * case["gpus"][uuid]["total_bytes"], taken)


@PART.claim('memory="all" takes at least 90 % of the GPU at the start', "all", name="all")
def all_of_it(case: dict[str, Any]) -> Outcome:
    uuid, added, taken = most_added(case)
    return Outcome(added >= 0.9 * case["gpus"][uuid]["total_bytes"], taken)


@PART.claim(
    "a memory limit takes its size, plus at most 3 GiB outside the allocator; 3/2 of the limit are "
    "refused",
    "limit",
)
def limit(case: dict[str, Any]) -> Outcome:
    _, added, _ = most_added(case)
    limit, [device] = 2 * case["unit"], case["fits"]
    within = limit <= added <= limit + CONTEXT_BYTES
    return Outcome(
        within and device["1"] and not device["3"],
        f"With a limit of {limit / GIB:g} GiB, {added / GIB:.2f} GiB were taken; half of it "
        f"{'fits' if device['1'] else 'is refused'}, 3/2 of it "
        f"{'fit' if device['3'] else 'are refused'}.",
    )


@PART.claim(
    "each logical GPU refuses a tensor larger than its own size and accepts a smaller one",
    "logical",
)
def logical(case: dict[str, Any]) -> Outcome:
    accepted = [device["1.5"] for device in case["fits"]]
    return Outcome(
        case["logical_gpus"] == 2 and accepted == [False, True],
        f"There are {case['logical_gpus']} logical GPUs; a tensor between their sizes fits: "
        f"{', '.join('yes' if fits else 'no' for fits in accepted)}.",
    )


@PART.claim(
    "for each logical GPU the NVML handle is that of the GPU whose memory grows by a tensor there: "
    "whole and split GPUs, and `CUDA_VISIBLE_DEVICES` with UUIDs in reverse order",
    "growth",
    "logical",
    "reversed",
)
def handles(*seen: dict[str, Any]) -> Outcome:
    wrong, known = 0, 0
    for case in seen:
        named, grew = case["named_uuids"], case["grew_uuids"]
        pairs = [pair for pair in zip(named, grew, strict=False) if pair[1] is not None]
        known += len(pairs)
        wrong += (len(named) != len(grew)) + sum(one != other for one, other in pairs)
    if not known:
        return Outcome(None, "no GPU's memory grew by a tensor")
    return Outcome(
        not wrong, f"Of {known} logical GPUs whose memory grew, {known - wrong} are named right."
    )


@PART.claim(
    'allocator="cuda_malloc_async" replaces the BFC allocator, as an out-of-memory error says',
    "async",
    "growth",
)
def allocator(asynchronous: dict[str, Any], usual: dict[str, Any]) -> Outcome:
    names = asynchronous["allocator"], usual["allocator"]
    return Outcome(
        names[0] is not None and "bfc" not in names[0].lower() and names[0] != names[1],
        f"The error names {names[0]}, and {names[1]} without the argument.",
    )


@PART.claim(
    'mixed_precision="auto" follows the compute capability: bfloat16 from 8.0, float16 from 7.0',
    "growth",
)
def precision(case: dict[str, Any]) -> Outcome:
    capability = min(tuple(gpu["compute_capability"]) for gpu in case["gpus"].values())
    policy = "mixed_bfloat16" if capability >= (8, 0) else "mixed_float16"
    version = "{}.{}".format(*capability)
    return Outcome(
        case["dtype_policy"] == (policy if capability >= (7, 0) else "float32"),
        f"With compute capability {version} the policy is {case['dtype_policy']}.",
    )


@PART.claim(
    "no case ends with a warning that TensorFlow has something other than asked",
    *[name for name in ARGUMENTS if name != "reversed"],
)
def as_asked(*seen: dict[str, Any]) -> Outcome:
    warnings = [warning for case in seen for warning in case["warnings"]]
    return Outcome(not warnings, " ".join(warnings) or f"No warning in {len(seen)} cases.")
