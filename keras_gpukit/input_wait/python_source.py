"""The user's own Python code that makes batches: a `PyDataset`, or a generator.

Private names, seen on Keras 3.12 to 3.15: `TFEpochIterator.data_adapter`,
`PyDatasetAdapter.py_dataset`, and `GeneratorDataAdapter.generator`, whose closure holds the user's
generator. Where one is gone, the code is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from keras_gpukit.input_wait.stages.functions import name_and_location
from keras_gpukit.input_wait.stages.tf_private import closed_over


@dataclass(frozen=True)
class PythonSource:
    """Code that makes batches.

    Attributes:
        name: Such as "Photographs.__getitem__".
        location: "file.py:12".
        code: What runs.
        workers: Threads or processes that Keras has for it.
        in_processes: Whether it runs in other processes, out of sight.
    """

    name: str
    location: str | None
    code: CodeType
    workers: int
    in_processes: bool


def python_source(epoch_iterator: Any) -> PythonSource | None:
    """Returns the code behind what Keras takes its batches from, or None where there is none.

    Args:
        epoch_iterator: What Keras' `fit` or `evaluate` takes its iterators from.
    """
    adapter = getattr(epoch_iterator, "data_adapter", None)
    dataset = getattr(adapter, "py_dataset", None)
    if dataset is not None:
        function = type(dataset).__getitem__
        return _source(function, max(dataset.workers, 1), dataset.use_multiprocessing)
    generator = closed_over(getattr(adapter, "generator", None)).get("generator")
    return None if generator is None else _source(generator, 1, in_processes=False)


def _source(function: Any, workers: int, in_processes: bool) -> PythonSource | None:
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    name, location = name_and_location(function)
    if not isinstance(code, CodeType) or name is None:
        return None
    return PythonSource(name, location, code, workers, in_processes)
