"""Python code of the user that makes batches: a `PyDataset`, a generator or its function.

Private names, seen on TensorFlow 2.21 and Keras 3.12 to 3.15: the closures of `from_generator`'s
function, down to `_GeneratorState._generator` and `._iterators`; the registry of Python functions,
`script_ops._py_funcs`; `TFEpochIterator.data_adapter`, `PyDatasetAdapter.py_dataset`, the closure
of `peek_and_restore`, and `GeneratorDataAdapter.generator`, whose closure holds the user's
generator. If one is missing, the code is unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from keras_gpukit.pipelines.places import name_and_location
from keras_gpukit.records.pipeline import PythonSourceRecord


@dataclass(frozen=True)
class PythonSource:
    """Python code that makes batches.

    Attributes:
        name: Name of the function, such as "Photographs.__getitem__".
        location: "file.py:12" of the function; None if unknown.
        code: Code object of the function.
        workers: Number of threads or processes in which Keras runs it.
        in_processes: Whether it runs in other processes, where it cannot be sampled.
    """

    name: str
    location: str | None
    code: CodeType
    workers: int
    in_processes: bool

    def record(self, busy_workers: float | None, step_time_s: float | None) -> PythonSourceRecord:
        """Returns the record of the code after some steps.

        Args:
            busy_workers: Mean number of threads inside the code; None if unknown.
            step_time_s: Mean step time; None if unknown.
        """
        return PythonSourceRecord(
            name=self.name,
            location=self.location,
            workers=self.workers,
            in_processes=self.in_processes,
            busy_workers=busy_workers,
            time_per_batch_s=(
                None if busy_workers is None or step_time_s is None else busy_workers * step_time_s
            ),
        )


def python_source(epoch_iterator: Any) -> PythonSource | None:
    """Returns the Python code that makes the batches of a call; None if no such code is found.

    Args:
        epoch_iterator: Keras' `EpochIterator` of the call; None if unknown.
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


def generator_behind(function: Callable[..., Any]) -> Any:
    """Returns the user's generator behind a `from_generator`; None if it is not found.

    Args:
        function: Function of the dataset's outermost stage.

    Returns:
        A generator, a function that makes one, or the object that is iterated over; for a
        `PyDataset` its `__getitem__`.
    """
    for nested in closed_over(function).values():
        generator = _generator_of_state(nested)
        if generator is not None:
            return generator
    return None


def generator_in_graphs(graphs: Iterable[Any]) -> Any:
    """Returns the generator of a stage in a nested dataset, given the stage's function graphs."""
    from tensorflow.python.ops import script_ops

    registered = getattr(script_ops, "_py_funcs", {})
    for graph in graphs:
        for operation in graph.get_operations():
            if operation.type == "PyFunc":
                called = registered.get(operation.get_attr("token").decode())
                generator = _generator_of_state(inspect.unwrap(called)) if called else None
                if generator is not None:
                    return generator
    return None


def _generator_of_state(function: Any) -> Any:
    for state in closed_over(function).values():
        if hasattr(state, "_generator"):
            return _users_own(state)
    return None


def _users_own(state: Any) -> Any:
    """Returns user code behind Keras' adapters, or behind a lambda that calls it."""
    generator = state._generator
    adapter: Any = getattr(generator, "__self__", None) or closed_over(generator).get("self")
    if hasattr(adapter, "py_dataset"):
        return type(adapter.py_dataset).__getitem__
    if hasattr(adapter, "_first_batches"):
        return closed_over(adapter.generator).get("generator", generator)
    if getattr(generator, "__name__", None) == "<lambda>":
        live = [each for each in state._iterators.values() if inspect.isgenerator(each)]
        return live[-1] if live else generator
    return generator


def closed_over(function: Any) -> dict[str, Any]:
    """Returns the variables in a function's closure, by name; {} if they cannot be read."""
    if not inspect.isfunction(function) or not function.__closure__:
        return {}
    try:
        cells = [cell.cell_contents for cell in function.__closure__]
    except ValueError:  # a cell is still empty
        return {}
    return dict(zip(function.__code__.co_freevars, cells, strict=True))
