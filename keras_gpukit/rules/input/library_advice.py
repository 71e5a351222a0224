"""Advice on a Grain dataset or a PyTorch `DataLoader`, in the terms of its library."""

from __future__ import annotations

from keras_gpukit.records.pipeline import PythonSourceRecord, StageRecord
from keras_gpukit.rules.input.python_advice import WORKERS, workers_within

THREADS = 32
"""Number of reading threads to ask for: twice Grain's default."""
MAIN = 'call fit under `if __name__ == "__main__":`, since each process imports the script'
PERSISTENT = (
    "torch.utils.data.DataLoader(..., persistent_workers=True): start the processes once, not at "
    "each epoch"
)
FREE = ", if cores are free"


def for_library(
    source: PythonSourceRecord,
    stage: StageRecord | None,
    cores: int | None,
    *,
    holds_gil: bool,
    waits: bool = False,
) -> tuple[str, ...]:
    """Returns what to change in the dataset or loader, the cheapest change first.

    Args:
        source: Code that makes the batches, run by another library than Keras.
        stage: Stage that limits training; None if unknown.
        cores: Number of CPU cores; None if unknown.
        holds_gil: Whether threads wait for the GIL, so more threads would not help.
        waits: Whether the code mostly waits, so more threads or processes than cores help.
    """
    more = _more_workers(source, None if waits else cores)
    if source.library == "torch":
        return _for_torch(source, more)
    return _for_grain(source, stage, more, holds_gil=holds_gil, waits=waits)


def _for_torch(source: PythonSourceRecord, more: int | None) -> tuple[str, ...]:
    lines = []
    if more and source.in_processes:
        lines.append(f"torch.utils.data.DataLoader(..., num_workers={more}){FREE}")
    elif more:
        lines.append(
            f"torch.utils.data.DataLoader(..., num_workers={more}, persistent_workers=True): "
            f"{more} processes make batches in parallel"
        )
    if source.restarts_workers:
        lines.append(PERSISTENT)
    dataset = source.name.rpartition(".")[0] or "the dataset"
    if not source.name.endswith("__getitems__"):
        lines.append(
            f"give {dataset} a __getitems__(indices) that makes a whole batch with NumPy or torch "
            "operations, not row by row"
        )
    return tuple(lines)


def _for_grain(
    source: PythonSourceRecord,
    stage: StageRecord | None,
    more: int | None,
    *,
    holds_gil: bool,
    waits: bool,
) -> tuple[str, ...]:
    name = stage.name if stage is not None and "." in stage.kind else source.name
    of_map = stage is not None and stage.kind.startswith("MapDataset.")
    is_loader = source.library == "Grain DataLoader"
    lines = []
    if not holds_gil and not source.in_processes:
        if of_map and stage is not None and waits and stage.parallelism < THREADS:
            read = f"grain.ReadOptions(num_threads={THREADS}, prefetch_buffer_size={2 * THREADS})"
            given = f"grain.DataLoader(..., read_options={read})"
            lines.append(
                f"{given if is_loader else f'ds.to_iter_dataset({read})'}: {THREADS} elements in "
                f"parallel, {stage.parallelism} so far"
            )
        elif stage is not None and stage.kind.startswith("IterDataset.") and not is_loader:
            lines.append(
                f"put {name} before .to_iter_dataset(), whose threads then run it: 16 in parallel"
            )
    if more:
        options = f"grain.MultiprocessingOptions(num_workers={more})"
        loader = f"grain.DataLoader(..., worker_count={more})"
        iterated = "ds.to_iter_dataset()" if of_map else "ds"
        changed = loader if is_loader else f"{iterated}.mp_prefetch({options})"
        lines.append(f"{changed}{FREE}" if source.in_processes else f"{changed}; {MAIN}")
    lines.append(f"batch before {name}, and have it make the whole batch with NumPy operations")
    return tuple(lines)


def _more_workers(source: PythonSourceRecord, cores: int | None) -> int | None:
    """Returns a larger number of processes; None if there are not more cores."""
    more = workers_within(2 * source.workers if source.in_processes else WORKERS, cores)
    return more if more > (source.workers if source.in_processes else 1) else None
