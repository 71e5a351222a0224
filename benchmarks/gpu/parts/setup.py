"""Setup: what TensorFlow and NVML show after `configure_gpus`, each case in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from typing import Any

from benchmarks.gpu.nvml import read_gpus
from benchmarks.gpu.observed_setup import observe
from benchmarks.gpu.part import Claim, Outcome, Part, Slice
from benchmarks.gpu.results import ROOT
from benchmarks.results_file import nvidia

GIB = 2**30
MIB = 2**20
CONTEXT_BYTES = 3 * GIB
"""More than the CUDA context and the libraries of one process take."""

ARGUMENTS: dict[str, dict[str, Any]] = {
    "growth": {"mixed_precision": "auto"},
    "logical": {"memory": "all", "logical_gpus": (1, 2), "strategy": "none"},
    "all": {"memory": "all"},
    "limit": {"memory": 2},
    "hidden": {"devices": "none"},
    "uuid": {"devices": "last"},
    "async": {"allocator": "cuda_malloc_async"},
    "reversed": {},
}
"""Arguments of `configure_gpus` in each case; sizes in units."""
QUIET = ("async",)
"""Cases that are not judged by the memory of the whole GPU."""


def setup_slice(name: str) -> Slice:
    """Returns a slice of one case, since a process can be set up only once."""
    return Slice(
        lambda small, _: [(name, partial(set_up, name, MIB * 16 if small else GIB))],
        40,  # the cases of logical GPUs and limits load TensorFlow twice
        alone=name not in QUIET,
    )


def set_up(name: str, unit: int) -> dict[str, Any]:
    """Sets the GPUs up and observes what is there then."""
    gpus = list(read_gpus())
    arguments = dict(ARGUMENTS[name])
    if "logical_gpus" in arguments:
        arguments["logical_gpus"] = [unit * each for each in arguments["logical_gpus"]]
    if isinstance(arguments.get("memory"), int):
        arguments["memory"] *= unit
    if arguments.get("devices") == "last":  # the first is what a mistake would choose
        arguments["devices"] = gpus[-1:] or "all"
    if name == "reversed" and gpus:
        # The other order is what counting by NVML's index would get wrong.
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(reversed(gpus))
    return observe(arguments, unit)


def ask_doctor() -> dict[str, Any]:
    """Runs `keras-gpukit doctor --json`."""
    command = [sys.executable, "-m", "keras_gpukit", "doctor", "--json"]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    try:
        message = json.loads(ended.stdout)
    except ValueError:
        return {"error": ended.stderr[-3000:] or "no JSON"}
    version = message["driver"]["version"]
    return {"exit_code": ended.returncode, "said": version, "driver": nvidia()[0]}


def most_added(case: dict[str, Any]) -> tuple[str, int, int]:
    """Returns the GPU whose memory in use grew most, by how much, and its size."""
    uuid, added = max(case["added_bytes"].items(), key=lambda each: each[1])
    return uuid, added, case["gpus"][uuid]["total_bytes"]


def judge_growth(case: dict[str, Any]) -> Outcome:
    _, added, total = most_added(case)
    return Outcome(added < 0.1 * total, f"{added / GIB:.2f} of {total / GIB:.0f} GiB were taken.")


def judge_all(case: dict[str, Any]) -> Outcome:
    _, added, total = most_added(case)
    return Outcome(added >= 0.9 * total, f"{added / GIB:.2f} of {total / GIB:.0f} GiB were taken.")


def judge_limit(case: dict[str, Any]) -> Outcome:
    _, added, _ = most_added(case)
    limit, [device] = 2 * case["unit"], case["fits"]
    within = limit <= added <= limit + CONTEXT_BYTES
    return Outcome(
        within and device["1"] and not device["3"],
        f"With a limit of {limit / GIB:g} GiB, {added / GIB:.2f} GiB were taken; half of it "
        f"{'fits' if device['1'] else 'is refused'}, 3/2 of it "
        f"{'fit' if device['3'] else 'are refused'}.",
    )


def judge_logical(case: dict[str, Any]) -> Outcome:
    accepted = [device["1.5"] for device in case["fits"]]
    return Outcome(
        case["logical_gpus"] == 2 and accepted == [False, True],
        f"There are {case['logical_gpus']} logical GPUs; a tensor between their sizes fits: "
        f"{', '.join('yes' if each else 'no' for each in accepted)}.",
    )


def judge_hidden(case: dict[str, Any]) -> Outcome:
    _, added, _ = most_added(case)
    on_cpu = "CPU" in case["device_of_result"]
    return Outcome(
        on_cpu and not case["logical_gpus"] and added < 64 * MIB,
        f"The result was on the {'CPU' if on_cpu else 'GPU'}, with {case['logical_gpus']} logical "
        f"GPUs; {added / MIB:.0f} MiB were taken.",
    )


def judge_uuid(case: dict[str, Any]) -> Outcome:
    taken, _, _ = most_added(case)
    asked = list(case["gpus"])[-1]
    return Outcome(
        case["uuids"] == [asked] and taken == asked,
        f"Of {len(case['gpus'])} GPUs, number {list(case['gpus']).index(taken)} was used, and "
        f"number {len(case['gpus']) - 1} asked for.",
    )


def judge_handles(*seen: dict[str, Any]) -> Outcome:
    wrong, known = 0, 0
    for case in seen:
        named, grew = case["named_uuids"], case["grew_uuids"]
        wrong += len(named) != len(grew)
        pairs = [each for each in zip(named, grew, strict=False) if each[1] is not None]
        known += len(pairs)
        wrong += sum(one != other for one, other in pairs)
    if not known:
        return Outcome(None, "no GPU's memory grew by a tensor")
    return Outcome(
        not wrong, f"Of {known} logical GPUs whose memory grew, {known - wrong} are named right."
    )


def judge_allocator(asynchronous: dict[str, Any], usual: dict[str, Any]) -> Outcome:
    names = asynchronous["allocator"], usual["allocator"]
    return Outcome(
        names[0] is not None and "bfc" not in names[0].lower() and names[0] != names[1],
        f"The error names {names[0]}, and {names[1]} without the argument.",
    )


def judge_precision(case: dict[str, Any]) -> Outcome:
    capability = min(tuple(gpu["compute_capability"]) for gpu in case["gpus"].values())
    wanted = "mixed_bfloat16" if capability >= (8, 0) else "mixed_float16"
    policy = wanted if capability >= (7, 0) else "float32"
    version = "{}.{}".format(*capability)
    return Outcome(
        case["dtype_policy"] == policy,
        f"With compute capability {version} the policy is {case['dtype_policy']}.",
    )


def judge_as_asked(*seen: dict[str, Any]) -> Outcome:
    warnings = [warning for case in seen for warning in case["warnings"]]
    return Outcome(not warnings, " ".join(warnings) or f"No warning in {len(seen)} cases.")


def judge_doctor(case: dict[str, Any]) -> Outcome:
    return Outcome(
        case["exit_code"] == 0 and case["said"] == case["driver"],
        f"Exit code {case['exit_code']}, driver {case['said']}; NVML says {case['driver']}.",
    )


PART = Part(
    "setup",
    "Do TensorFlow and NVML show what `configure_gpus` was asked for?",
    {name: setup_slice(name) for name in ARGUMENTS}
    | {"doctor": Slice(lambda small, _: [("doctor", ask_doctor)], alone=False)},
    (
        Claim(
            "growth",
            'memory="growth" takes only what is needed: a small product uses less than 10 % of a '
            "GPU",
            judge_growth,
            ("growth",),
        ),
        Claim(
            "all", 'memory="all" takes at least 90 % of the GPU at the start', judge_all, ("all",)
        ),
        Claim(
            "limit",
            "a memory limit takes its size, plus at most 3 GiB outside the allocator; 3/2 of the "
            "limit are refused",
            judge_limit,
            ("limit",),
        ),
        Claim(
            "logical",
            "each logical GPU refuses a tensor larger than its own size and accepts a smaller one",
            judge_logical,
            ("logical",),
        ),
        Claim(
            "hidden",
            'devices="none" computes on the CPU and takes none of the GPU\'s memory',
            judge_hidden,
            ("hidden",),
        ),
        Claim(
            "uuid",
            "a GPU given by its UUID is the one whose memory NVML shows in use",
            judge_uuid,
            ("uuid",),
        ),
        Claim(
            "handles",
            "for each logical GPU the NVML handle is that of the GPU whose memory grows by a "
            "tensor there: whole and split GPUs, and `CUDA_VISIBLE_DEVICES` with UUIDs in reverse "
            "order",
            judge_handles,
            ("growth", "logical", "reversed"),
        ),
        Claim(
            "allocator",
            'allocator="cuda_malloc_async" replaces the BFC allocator, as an out-of-memory error '
            "says",
            judge_allocator,
            ("async", "growth"),
        ),
        Claim(
            "precision",
            'mixed_precision="auto" follows the compute capability: bfloat16 from 8.0, float16 '
            "from 7.0",
            judge_precision,
            ("growth",),
        ),
        Claim(
            "as_asked",
            "no case ends with a warning that TensorFlow has something other than asked",
            judge_as_asked,
            tuple(ARGUMENTS)[:-1],
        ),
        Claim(
            "doctor",
            "doctor exits with 0 and names the driver's version that NVML reports",
            judge_doctor,
            ("doctor",),
        ),
    ),
)
