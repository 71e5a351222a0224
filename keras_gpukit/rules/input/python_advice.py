"""Advice on the user's own Python code that makes batches."""

from __future__ import annotations

from keras_gpukit.records.pipeline import PythonSourceRecord
from keras_gpukit.rules.input.input_waiting import WAITING_CALLS

PY_DATASET = ".__getitem__"
WORKERS = 4
IN_PROCESSES = "keras.utils.PyDataset with workers={workers}, use_multiprocessing=True"
WHOLE_BATCH = "make the whole batch with NumPy or TensorFlow operations, not row by row"
"""The change that helps most. A fit on two cores whose `PyDataset` loops over the values of its
rows took 37 to 42 % less time with NumPy operations, 2 to 21 % less with four threads, and up to
7 % less with two processes. It lasted under 7 s, so the time to start processes mattered."""


def workers_within(workers: int, cores: int | None) -> int:
    """Returns the number of workers, limited to the number of cores if that is known."""
    return workers if cores is None else min(workers, cores)


def for_py_dataset(
    source: PythonSourceRecord, cores: int | None, *, waits: bool = False
) -> tuple[str, ...]:
    """Returns what to change in a `PyDataset` while nothing shows that it holds the GIL.

    Args:
        source: The method that makes the batches.
        cores: Number of CPU cores; None if unknown.
        waits: Whether it was seen to wait for a disk, a network or the like most of the time.
    """
    dataset, workers = source.name.removesuffix(PY_DATASET), source.workers
    whole = f"have {source.name} {WHOLE_BATCH}"
    if waits and workers < WAITING_CALLS:
        return (
            f"{dataset}(workers={WAITING_CALLS}, max_queue_size={2 * WAITING_CALLS}): "
            f"{source.name} mostly waits, and threads that wait need no core each",
        )
    if source.in_processes:
        more = workers_within(2 * workers, cores)
        if more <= workers:
            return (whole,)
        return f"{dataset}(workers={more}), if cores are free", whole
    processes = tuple(
        f"{line}, if threads wait for the GIL" for line in _processes(source.name, workers, cores)
    )
    if workers > 1:
        return *processes, whole
    return f"{dataset}(workers={WORKERS}): four batches in parallel", *processes, whole


def for_gil(name: str, workers: int, cores: int | None) -> tuple[str, ...]:
    """Returns what to change in code that holds the GIL: not more threads, which wait for it too.

    Args:
        name: Name of the function or method.
        workers: Number of threads that run it.
        cores: Number of CPU cores; None if unknown.
    """
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
        return (f"{name.removesuffix(PY_DATASET)}(workers={workers}, use_multiprocessing=True)",)
    return (f"or as a {IN_PROCESSES.format(workers=workers)}",)
