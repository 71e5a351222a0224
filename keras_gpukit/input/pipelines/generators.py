"""Python code of the user that makes batches: in a `PyDataset`, a generator, or another library.

The closures of `from_generator`'s function and of Keras' adapters, which hold the user's generator
or dataset, were seen on TensorFlow 2.21 and Keras 3.12 to 3.15. If one is missing, the code is
unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

from keras_gpukit.frameworks.keras_trainer import dataset_in, first_batches_in, loader_in
from keras_gpukit.frameworks.tf_datasets import generator_of, generators_in_use
from keras_gpukit.frameworks.tf_functions import python_function
from keras_gpukit.input.pipelines.other_libraries import (
    closed_over,
    code_of_loader,
    is_data_loader,
    is_grain,
    transformations,
    worker_processes,
)
from keras_gpukit.input.pipelines.places import method_of, name_and_location
from keras_gpukit.records.pipeline import InputLibrary, PythonSourceRecord
from keras_gpukit.records.placement import PYTHON_OPERATIONS


class UserCode(NamedTuple):
    """A function of the user, such as "Photographs.__getitem__"."""

    name: str | None
    location: str | None
    code: CodeType | None = None


@dataclass(frozen=True)
class PythonSource:
    """Python code that makes batches, in functions of which one may call later ones.

    In other processes, which may start again at each epoch, it cannot be sampled.
    """

    parts: tuple[UserCode, ...]
    workers: int = 1
    in_processes: bool = False
    library: InputLibrary = "Keras"
    restarts_workers: bool = False

    @property
    def codes(self) -> list[CodeType]:
        """Code objects to sample; empty if the code cannot be sampled, or its library times it."""
        sampled = not self.in_processes and self.library in ("Keras", "torch")
        return [part.code for part in self.parts if part.code] if sampled else []

    def python_record(
        self, slowest: CodeType | None, busy_workers: float | None, step_time_s: float | None
    ) -> PythonSourceRecord:
        """Returns the record of the code after some steps."""
        found = [part for part in self.parts if part.code is slowest is not None]
        name, location = _named(found or self.parts)
        return PythonSourceRecord(
            name=name,
            location=location,
            workers=self.workers,
            in_processes=self.in_processes,
            busy_workers=busy_workers,
            time_per_batch_s=(
                None if busy_workers is None or step_time_s is None else busy_workers * step_time_s
            ),
            library=self.library,
            restarts_workers=self.restarts_workers,
        )


def python_source(epoch_iterator: Any) -> PythonSource | None:
    """Returns the Python code that makes the batches of a call; None if no such code is found."""
    adapter = getattr(epoch_iterator, "data_adapter", None)
    dataset = getattr(adapter, "py_dataset", None)
    if dataset is not None:
        code = (user_code(type(dataset).__getitem__),)
        return PythonSource(code, max(dataset.workers, 1), dataset.use_multiprocessing)
    loader = loader_in(adapter)
    if loader is not None:
        return PythonSource(
            _of_loader(loader),
            max(loader.num_workers, 1),
            in_processes=loader.num_workers > 0,
            library="torch",
            restarts_workers=loader.num_workers > 0 and not loader.persistent_workers,
        )
    dataset = dataset_in(adapter)
    if dataset is not None and is_grain(dataset):
        workers = worker_processes(dataset)
        return PythonSource(
            _of_grain(dataset),
            max(workers, 1),
            in_processes=workers > 0,
            library="Grain DataLoader" if is_data_loader(dataset) else "Grain",
        )
    generator = closed_over(getattr(adapter, "generator", None)).get("generator")
    found = None if generator is None else user_code(generator)
    return PythonSource((found,)) if found and found.code and found.name else None


def user_code(function: Any) -> UserCode:
    """Returns the name, place and code of a function or generator."""
    code = getattr(function, "__code__", None) or getattr(function, "gi_code", None)
    name, location = name_and_location(function)
    return UserCode(name, location, code if isinstance(code, CodeType) else None)


def _of_loader(loader: Any) -> tuple[UserCode, ...]:
    """Returns the code behind a `DataLoader` of PyTorch, without that of PyTorch itself."""
    fetch, *others = map(user_code, code_of_loader(loader))
    return fetch, *(code for code in others if code.location)


def _of_grain(dataset: Any) -> tuple[UserCode, ...]:
    """Returns the functions of a Grain dataset, each once."""
    found = [UserCode(stage.name, stage.location) for stage in transformations(dataset)]
    named = [code for code in found if code.location]
    return tuple(dict.fromkeys(named)) or (UserCode("the Grain dataset", None),)


def _named(parts: Iterable[UserCode]) -> tuple[str, str | None]:
    """Returns the name of one function, or those of all that it may be."""
    first, *others = parts
    if not others or first.code is not None:  # which calls the others
        return str(first.name), first.location
    names = ", ".join(str(code.name) for code in (first, *others))
    return f"one of {names}", first.location


def generator_behind(function: Callable[..., Any]) -> tuple[str | None, str | None] | None:
    """Returns the name and place of the user's generator behind a `from_generator`, if found.

    Those of a generator, a function that makes one, or the object that is iterated over; for a
    `PyDataset` those of its `__getitem__`.
    """
    state = generator_state(function)
    return None if state is None else _users_own(state)


def generator_state(function: Callable[..., Any]) -> Any:
    """Returns what `from_generator` keeps of its generator; None if a stage is not its own."""
    for nested in closed_over(function).values():
        for state in closed_over(nested).values():
            if generator_of(state) is not None:
                return state
    return None


def python_function_in(graph: Any) -> tuple[str | None, str | None] | None:
    """Returns the name and place of what a `py_function` or `numpy_function` in a graph calls.

    None if there is no such call, or more than one.
    """
    called = list(_python_functions(graph))
    return name_and_location(called[0]) if len(called) == 1 else None


def _python_functions(graph: Any) -> Iterator[Any]:
    """Yields the registered functions that a graph's operations call in Python."""
    for operation in graph.get_operations():
        if operation.type in PYTHON_OPERATIONS:
            called = python_function(operation.get_attr("token"))
            if called is not None:
                yield called


def generator_in_graphs(graphs: Iterable[Any]) -> tuple[str | None, str | None] | None:
    """Returns the name and place of a nested dataset's generator, given its function graphs."""
    for graph in graphs:
        for called in _python_functions(graph):
            for state in closed_over(inspect.unwrap(called)).values():
                if generator_of(state) is not None:
                    return _users_own(state)
    return None


def _users_own(state: Any) -> tuple[str | None, str | None]:
    """Returns the name and place of user code behind Keras' adapters, or behind a lambda."""
    generator = generator_of(state)
    adapter: Any = getattr(generator, "__self__", None) or closed_over(generator).get("self")
    if hasattr(adapter, "py_dataset"):
        return name_and_location(type(adapter.py_dataset).__getitem__)
    if (loader := loader_in(adapter)) is not None:
        return _named(_of_loader(loader))
    dataset = getattr(generator, "dataset", None) or closed_over(generator).get("dataset")
    if is_grain(dataset):
        return _named(_of_grain(dataset))
    if first_batches_in(adapter):
        return name_and_location(closed_over(adapter.generator).get("generator", generator))
    if getattr(generator, "__name__", None) == "<lambda>":
        live = [iterator for iterator in generators_in_use(state) if inspect.isgenerator(iterator)]
        return name_and_location(live[-1] if live else generator)
    return name_and_location(method_of(generator))
