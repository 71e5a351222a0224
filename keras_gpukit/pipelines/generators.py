"""User code in Python that makes batches: a `PyDataset`, a generator or its function.

Private names, seen on TensorFlow 2.21 and Keras 3.12 to 3.15: the closures of `from_generator`'s
function, down to `_GeneratorState._generator` and `._iterators`; the registry of Python functions,
`script_ops._py_funcs`; `TFEpochIterator.data_adapter`, `PyDatasetAdapter.py_dataset`, the closure
of `peek_and_restore`, and `GeneratorDataAdapter.generator`, whose closure holds the user's
generator. Where one is gone, the code is unknown.
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

    def record(self, busy_workers: float | None, step_time_s: float | None) -> PythonSourceRecord:
        """Returns what is known of the code after some steps.

        Args:
            busy_workers: How many threads ran it at a time, on average; None where unknown.
            step_time_s: Mean step time.
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
    """Returns the code behind what Keras takes its batches from, or None without any.

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


def generator_behind(function: Callable[..., Any]) -> Any:
    """Returns what makes the elements of a `from_generator`, or None.

    Args:
        function: The function of the dataset's outer stage.

    Returns:
        A generator, a function that makes one, or any object that is iterated over; of a
        `PyDataset` its `__getitem__`.
    """
    for nested in closed_over(function).values():
        generator = _generator_of_state(nested)
        if generator is not None:
            return generator
    return None


def generator_in_graphs(graphs: Iterable[Any]) -> Any:
    """The same from the graphs of a generator stage's functions, for one in a nested dataset."""
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
    """Looks through Keras' adapters, and through a lambda that calls the user's function."""
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
    """Returns what a function uses of the functions around it, by name; {} of anything else."""
    if not inspect.isfunction(function) or not function.__closure__:
        return {}
    try:
        cells = [cell.cell_contents for cell in function.__closure__]
    except ValueError:  # a cell that nothing was put in yet
        return {}
    return dict(zip(function.__code__.co_freevars, cells, strict=True))
