"""Advice on Python code that makes batches: the user's own, or a Grain or PyTorch loader's."""

from __future__ import annotations

import re

from keras_gpukit.records.pipeline import ARRAYS, PythonSourceRecord, StageRecord
from keras_gpukit.records.steps import InputRecord
from keras_gpukit.rules.input.contention import GIL_WAIT_S, WAITING_CALLS

PY_DATASET = ".__getitem__"
WORKERS = 4
THREADS = 32
"""Number of reading threads to ask for: twice Grain's default."""
IN_PROCESSES = "`keras.utils.PyDataset` with `workers={workers}`, `use_multiprocessing=True`"
WHOLE_BATCH = "make the whole batch with NumPy or TensorFlow operations, not row by row"
"""The change that helps most. A fit on two cores whose `PyDataset` loops over the values of its
rows took 37 to 42 % less time with NumPy operations, 2 to 21 % less with four threads, and up to
7 % less with two processes. It lasted under 7 s, so the time to start processes mattered."""
MAIN = 'call fit under `if __name__ == "__main__":`, since each process imports the script'
PERSISTENT = (
    "`torch.utils.data.DataLoader(..., persistent_workers=True)`: start the processes once, not at "
    "each epoch"
)
FREE = ", if cores are free"
IF_QUICK = ", if a batch is quick to make: to pickle and send a large one then takes longer"
SLOW_ONES = (
    "look for what else happened then: a cache that was filled, files read for the first time, "
    "other work on the machine. Other epochs started fast"
)
ONE_PIPELINE = "`ds.repeat()` and `fit(steps_per_epoch=...)`: one pipeline for all epochs"
_LONGER_EPOCHS = "fewer and longer epochs: a start takes as long, however many steps follow it"
_FROM_ARRAYS = (
    "instead of arrays, `ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch(n)`"
    f", then {ONE_PIPELINE}"
)
AHEAD = (
    "`ds.repeat().prefetch(tf.data.AUTOTUNE)` and `fit(steps_per_epoch=...)`: the next epoch's "
    "first batches are made while steps run"
)
# Each pass repeats such work, even in a pipeline with `repeat()`.
PREPARATION = "list files, open them, build an index"
_ONCE = f"do once, before fit, what the pipeline does before its first batch: {PREPARATION}"
_RANDOM_CHOICE = re.compile(r"\b(?:np|numpy)\.random\.choice\([^,]*\)")
_DRAW_AT_ONCE = (
    "draw all of a batch's random numbers in one call, with `size=`, and from an array: of a list, "
    "`choice` makes one in each call"
)


def for_line(line: str) -> tuple[str, ...]:
    """Returns what to change in the line of the code that takes most of its time, if known."""
    return (_DRAW_AT_ONCE,) if _RANDOM_CHOICE.search(line) else ()


def workers_within(workers: int, cores: int | None) -> int:
    """Returns the number of workers, limited to the number of cores if that is known."""
    return workers if cores is None else min(workers, cores)


def for_py_dataset(
    source: PythonSourceRecord, cores: int | None, *, waits: bool = False, gil_is_free: bool = False
) -> tuple[str, ...]:
    """Returns what to change in a `PyDataset` while nothing shows that it holds the GIL.

    If its code mostly waits, more threads than cores help. The GIL is free if threads were seen not
    to wait for it.
    """
    dataset, workers = source.name.removesuffix(PY_DATASET), source.workers
    whole = f"have {source.name} {WHOLE_BATCH}"
    if waits and workers < WAITING_CALLS:
        return (
            f"`{dataset}(workers={WAITING_CALLS}, max_queue_size={2 * WAITING_CALLS})`: "
            f"{source.name} mostly waits, and threads that wait need no core each",
        )
    if source.in_processes:
        more = workers_within(2 * workers, cores)
        first = (f"`{dataset}(workers={more})`{FREE}",) if more > workers else ()
        return *first, f"`{dataset}(workers=1, use_multiprocessing=False)`{IF_QUICK}", whole
    if workers > 1 and gil_is_free:
        return (whole,)
    processes = _processes(source.name, workers, cores)
    lines = *(f"{line}, if threads wait for the GIL" for line in processes), whole
    if workers > 1:
        return lines
    return f"`{dataset}(workers={WORKERS})`: four batches in parallel", *lines


def for_gil(name: str, workers: int, cores: int | None) -> tuple[str, ...]:
    """Returns what to change in code that holds the GIL: no more threads, which wait for it too."""
    return (
        "Python code that makes batches holds the GIL (global interpreter lock), which training "
        f"needs too: have {name} {WHOLE_BATCH}",
        *_processes(name, workers, cores),
    )


def _processes(name: str, workers: int, cores: int | None) -> tuple[str, ...]:
    """Returns how to make batches in other processes; empty if there are too few cores."""
    workers = workers_within(workers if workers > 1 else WORKERS, cores)
    if workers < 2:
        return ()
    if name.endswith(PY_DATASET):
        return (f"`{name.removesuffix(PY_DATASET)}(workers={workers}, use_multiprocessing=True)`",)
    return (f"or as a {IN_PROCESSES.format(workers=workers)}",)


def for_library(
    source: PythonSourceRecord,
    stage: StageRecord | None,
    cores: int | None,
    *,
    holds_gil: bool,
    waits: bool = False,
) -> tuple[str, ...]:
    """Returns what to change in a Grain or PyTorch dataset or loader, the cheapest change first.

    If threads wait for the GIL, more of them do not help. If the code mostly waits, more threads or
    processes than cores do.
    """
    before, most = (source.workers, 2 * source.workers) if source.in_processes else (1, WORKERS)
    more = workers_within(most, None if waits else cores)
    more = more if more > before else 0
    if source.library == "torch":
        return _for_torch(source, more)
    return _for_grain(source, stage, more, holds_gil=holds_gil, waits=waits)


def _for_torch(source: PythonSourceRecord, more: int) -> tuple[str, ...]:
    loader = f"torch.utils.data.DataLoader(..., num_workers={more}"
    lines = []
    if more and source.in_processes:
        lines.append(f"`{loader})`{FREE}")
    elif more:
        lines.append(
            f"`{loader}, persistent_workers=True)`: {more} processes make batches in parallel"
        )
    if source.restarts_workers:
        lines.append(PERSISTENT)
    dataset = source.name.rpartition(".")[0] or "the dataset"
    if not source.name.endswith("__getitems__"):
        lines.append(
            f"give {dataset} a `__getitems__(indices)` that makes a whole batch with NumPy or "
            "torch operations, not row by row"
        )
    return tuple(lines)


def _for_grain(
    source: PythonSourceRecord,
    stage: StageRecord | None,
    more: int,
    *,
    holds_gil: bool,
    waits: bool,
) -> tuple[str, ...]:
    kind = stage.kind if stage else ""
    name = stage.name if stage is not None and "." in kind else source.name
    of_map = kind.startswith("MapDataset.")
    is_loader = source.library == "Grain DataLoader"
    lines = []
    if stage is not None and not source.in_processes and not holds_gil:
        if of_map and waits and stage.parallelism < THREADS:
            read = f"grain.ReadOptions(num_threads={THREADS}, prefetch_buffer_size={2 * THREADS})"
            given = f"grain.DataLoader(..., read_options={read})"
            changed = given if is_loader else f"ds.to_iter_dataset({read})"
            lines.append(f"`{changed}`: {THREADS} elements in parallel, {stage.parallelism} so far")
        elif kind.startswith("IterDataset.") and not is_loader:
            lines.append(
                f"put {name} before `.to_iter_dataset()`, whose threads then run it: 16 in parallel"
            )
    if more:
        options = f"grain.MultiprocessingOptions(num_workers={more})"
        changed = f"{'ds.to_iter_dataset()' if of_map else 'ds'}.mp_prefetch({options})"
        changed = f"grain.DataLoader(..., worker_count={more})" if is_loader else changed
        lines.append(f"`{changed}`{FREE if source.in_processes else f'; {MAIN}'}")
    lines.append(f"batch before {name}, and have it make the whole batch with NumPy operations")
    return tuple(lines)


def starts_advice(record: InputRecord | None, *, waits_first: bool) -> tuple[str, ...]:
    """Returns what to change if epochs take long to start, the most rewarding change first."""
    python = record.python if record else None
    if python is not None and python.library != "Keras":
        return (*((PERSISTENT,) if python.restarts_workers else ()), _LONGER_EPOCHS)
    if python is not None and python.name.endswith(PY_DATASET):
        dataset = python.name.removesuffix(PY_DATASET)
        contention = record.contention if record else None
        holds_gil = contention is not None and (contention.gil_wait_s or 0.0) >= GIL_WAIT_S
        if not waits_first:
            return (_LONGER_EPOCHS,)
        return (
            *((f"have {python.name} {WHOLE_BATCH}",) if holds_gil else ()),
            f"do once, in {dataset}.__init__, what comes before its first batch: {PREPARATION}",
            _LONGER_EPOCHS,
        )
    stages = record.pipeline.stages if record and record.pipeline else ()
    if any(stage.name.startswith(ARRAYS) for stage in stages):
        return (_LONGER_EPOCHS, _FROM_ARRAYS) if waits_first else (_FROM_ARRAYS,)
    return (_ONCE, AHEAD) if waits_first else (ONE_PIPELINE,)
