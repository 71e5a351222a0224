"""Names of a run's files, TensorBoard tags and environment variables; and files found by name.

The last part of a tag is its unit. The x axis of every tag is the global step.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from keras_gpukit.records.environment import Worker

SCHEMA = 1
"""Version of the records' layout. It increases when a field changes its meaning or is removed."""
FOLDER = "gpukit"
"""Folder in the log directory that everything measured is written to."""
RUN_FILE = "run.jsonl"
"""Name of the file with one process's record of a run. See `record_name` for those of others."""
RUN_FILE_OF_ANY = re.compile(r"run(?:-(?P<worker>\d+|evaluator))?(?:\.(?P<process>\d+))?\.jsonl")
SCRIPT_FILE = "script.json"
"""Name of the file in `FOLDER` that says where the time of a whole script went."""
REQUEST_FILE = "capture"
"""Name of the file in `FOLDER` that requests a capture by being there."""
PROFILES = Path(FOLDER, "plugins", "profile")
"""Folder of profiles in the log directory. TensorBoard's Profile tab looks for "plugins/profile"
below any folder."""
PROFILE_SUFFIX = ".xplane.pb"

RecordKind = Literal[
    "run",
    "environment",
    "placement",
    "flops",
    "steps",
    "host",
    "gpu",
    "memory",
    "memory_by_cause",
    "epoch",
    "capture",
    "event",
    "hang",
    "progress",
    "input",
    "host_buffers",
    "learning",
    "stacks",
    "out_of_memory",
    "throughput",
    "utilization",
    "profiler",
    "profile",
    "overhead",
    "workers",
    "end",
    "summary",
]
"""Kind of record on a line of a run's file. The type checker rejects any other kind where lines are
written and read."""

STEP_TIME = "step/time_ms"
BETWEEN_STEPS = "step/between_ms"
EXAMPLE_RATE = "step/examples_per_s"
INPUT_WAIT = "input/wait_ms"
INPUT_STALL = "input/stall_percent"
BUFFERED_BATCHES = "input/buffered_batches"
HOST_CPU = "host/cpu_percent"
HOST_PROCESS_CPU = "host/process_cpu_percent"
HOST_MEMORY = "host/memory_bytes"
HOST_DISK_READS = "host/disk_read_bytes_per_s"
OVERHEAD = "tool/overhead_us"
"""Sorted last, since TensorBoard shows tags by name: what the tool costs is no figure of a run."""
SETUP = "setup"
PLACEMENT = "placement"
FINDINGS = "findings"
GPU_FIGURES = (
    "utilization_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "sm_active_percent",
    "tensor_active_percent",
    "memory_bandwidth_percent",
)
"""Fields of a `GPUSample` that have a TensorBoard tag. In addition, "throttled" has one."""
MEMORY_FIGURES = ("current_bytes", "peak_bytes")
"""Fields of a `DeviceMemory` that have a TensorBoard tag."""
_UNITS = {
    "ms": "ms",
    "us": "µs",
    "percent": "%",
    "bytes": "B",
    "per_s": "/s",
    "watts": "W",
    "celsius": "°C",
    "mhz": "MHz",
}


def record_name(worker: Worker | None, process: int = 1) -> str:
    """Returns the name of a process's record, without its suffix.

    Each of several workers has a record of its own: "run-0", "run-1", ..., and "run-evaluator". Of
    processes that share a log directory without being workers of a cluster, the second writes
    "run.2".
    """
    name = "run"
    if worker is not None and worker.index is not None and worker.count != 1:
        name += f"-{worker.index}"
    elif worker is not None and worker.task_type == "evaluator":
        name += "-evaluator"
    return name if process == 1 else f"{name}.{process}"


def is_first(name: str) -> bool:
    """Whether a record belongs to a run's only process or to its first worker."""
    return name in ("run", "run-0")


def gpu_tag(index: int | str, figure: str) -> str:
    """Returns the tag of a GPU's figure, such as "gpu/0/power_watts"."""
    return f"gpu/{index}/{figure}"


def memory_tag(device: str, figure: str) -> str:
    """Returns the tag of an allocator's figure, such as "memory/GPU:0/peak_bytes"."""
    return f"memory/{device}/{figure}"


def unit_of(tag: str) -> str:
    """Returns the unit of a tag's figure, such as "ms"; "" if it has none."""
    return next((unit for name, unit in _UNITS.items() if tag.endswith(f"_{name}")), "")


YOURS = {
    "GPUKIT_ADDRESSES": (
        "One host:port for each process, in order of rank, separated by commas; or a single one in "
        "which `{index}` stands for the rank: `train-{index}.train:2222`"
    ),
    "GPUKIT_WORKERS": "Number of pods of an Indexed Job; 1 if each trains alone",
    "GPUKIT_PARAMETER_SERVERS": (
        "How many of the last processes are parameter servers; the first one is then the chief"
    ),
    "GPUKIT_NODE_ADDRESSES": (
        "Where Slurm's nodes are reached, if not by their names: `n1=10.0.0.1,n2=10.0.0.2`"
    ),
    "GPUKIT_PORT": (
        "Port of the first process; the next ones follow. By default ports between 10000 and 30000 "
        "that depend on the job's number"
    ),
}
OF_GPUS = {
    "CUDA_VISIBLE_DEVICES": "Which GPUs programs see, and in what order; `-1` hides all",
    "CUDA_DEVICE_ORDER": "`PCI_BUS_ID` numbers GPUs as `nvidia-smi` does",
    "KERAS_BACKEND": "Keras' backend; this package needs `tensorflow`",
    "NVIDIA_TF32_OVERRIDE": "`0` turns TensorFloat-32 off, whatever the program asks",
    "TF_DETERMINISTIC_OPS": "`1` has TensorFlow compute the same bits in each run",
    "TF_FORCE_GPU_ALLOW_GROWTH": "`true` has GPU memory grow, `false` takes all of it",
    "TF_GPU_ALLOCATOR": "`cuda_malloc_async` replaces TensorFlow's own allocator",
    "TF_GPU_THREAD_COUNT": "Number of threads that launch kernels",
    "TF_GPU_THREAD_MODE": "Whether each GPU has such threads of its own",
    "TF_XLA_FLAGS": "TensorFlow's options of XLA, such as a folder for compiled steps",
    "XLA_FLAGS": "XLA's own options",
}
OTHERS = {
    "CUDA_INJECTION64_PATH": "If set, another profiler is at work, and `Monitor` captures nothing",
    "LD_LIBRARY_PATH": "Where the loader looks for CUDA's libraries first",
    "MLFLOW_RUN_ID": 'The MLflow run that `Monitor(log_to="mlflow")` logs to, if none is active',
    "NO_COLOR": "If set, `launch` colours no names of workers",
    "TF_CONFIG": "The cluster that this process belongs to",
    "TF_CPP_MIN_LOG_LEVEL": "`0` shows TensorFlow's log where a command would hide it",
    "TF_CPU_ALLOCATOR_USE_BFC": "`true` has a CPU's memory managed as a GPU's",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": "The limit of that memory",
    "XDG_CACHE_HOME": "Folder of caches, where `bench` keeps what a GPU reaches",
}
SET_HERE = {
    "GPUKIT_FOLLOW": "How the processes that a script under `run --follow` starts are monitored",
    "GPUKIT_RUN_FOLDER": "Folder of a run that all processes of a job share",
    "GPUKIT_SET_TF_CONFIG": "Marks a `TF_CONFIG` that only repeats what other variables say",
    "GRPC_FAIL_FAST": "Has calls to a parameter server that has died fail at once",
    "NCCL_DEBUG": "Has NCCL say why it fails; only in the jobs that `launch` writes",
    "TF_GRPC_REUSE_PORT": "Lets TensorFlow take a port that `launch` has reserved",
}
GROUPS: Mapping[str, Mapping[str, str]] = {
    "For you to set": YOURS,
    "Listed by `doctor` if they are set, since they affect GPUs": OF_GPUS,
    "Also read": OTHERS,
    "Set by this package, for processes that it starts": SET_HERE,
}
"""All of them, by what they are for."""


MOST_FOLDERS = 20_000


def readable(path: str | Path) -> str:
    """Returns a path as valid Unicode text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def find_run_files(
    root: Path, *, within_s: float = math.inf, profiles: bool = False
) -> tuple[list[Path], bool]:
    """Finds `gpukit/run.jsonl` and the records of other workers and processes next to it.

    The root is a log folder, one above it, or the folder "gpukit" in it. Folders near the top are
    searched first. Also returns whether every folder was searched.
    """

    def is_wanted(name: str) -> bool:
        is_record = RUN_FILE_OF_ANY.fullmatch(name) is not None
        return is_record or (profiles and name.endswith(PROFILE_SUFFIX))

    found, complete = _files_below(root, is_wanted, within_s)
    return [
        file
        for file in found
        if file.name.endswith(PROFILE_SUFFIX) or file.parent.absolute().name == FOLDER
    ], complete


def find_profiles(log_dir: str | os.PathLike[str]) -> list[Path]:
    """Returns the profiles under a folder at any depth, sorted by path.

    Profiles of the hosts of one capture follow each other. Symbolic links are not followed, so all
    profiles are within the folder. At most 20,000 folders are searched, those near the top first.

    Args:
        log_dir: A folder. One that does not exist (yet) has no profiles.
    """
    files, _ = _files_below(Path(log_dir), lambda name: name.endswith(PROFILE_SUFFIX))
    return sorted(files)


def _files_below(
    root: Path, named: Callable[[str], bool], within_s: float = math.inf
) -> tuple[list[Path], bool]:
    """Returns the files whose names match, those near the top first; and whether it was all."""
    deadline_s = time.monotonic() + within_s
    found: list[Path] = []
    folders = [root]
    for number, folder in enumerate(folders):  # which grows
        if number == MOST_FOLDERS or time.monotonic() > deadline_s:
            return found, False
        # Gone or unreadable; a null byte in the path raises a ValueError.
        with suppress(OSError, ValueError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif named(entry.name) and entry.is_file(follow_symlinks=False):
                    found.append(Path(entry.path))
    return found, True
