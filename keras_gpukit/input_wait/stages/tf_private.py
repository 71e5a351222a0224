"""TensorFlow's and Keras' private names that stages are named through.

Seen on TensorFlow 2.21 and Keras 3.15:

- `OwnedIterator._dataset`, `DatasetV2._inputs`, `._metadata` and `._impl`: the Python datasets.
- `_PerDeviceGenerator` and `_ReincarnatedPerDeviceGenerator`: what each replica fetches from
  under a mirrored strategy.
- `StructuredFunctionWrapper._func` and `._function`, and `FuncGraph._functions`: their functions,
  and the functions that those call.
- The closures of `from_generator`'s function, down to `_GeneratorState._generator` and
  `._iterators`; `PyDatasetAdapter.py_dataset` and the closure of `peek_and_restore`: the user's
  generator.

Where one is gone, stages go by their kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def dataset_of(iterator: Any) -> Any:
    """Returns the Python dataset that an iterator runs over, or None."""
    return getattr(iterator, "_dataset", None)


def is_fed_by_another(dataset: Any) -> bool:
    """Whether a dataset only fetches for one of several replicas what another one makes."""
    return "PerDeviceGenerator" in type(dataset).__name__ or any(
        is_fed_by_another(source) for source in sources(dataset)
    )


def unwrapped(dataset: Any) -> Any:
    """Returns the dataset that does the work of one that only stands for it."""
    while hasattr(dataset, "_impl"):
        dataset = dataset._impl
    return dataset


def sources(dataset: Any) -> list[Any]:
    """Returns the datasets that one reads from."""
    return list(dataset._inputs())


def given_name(dataset: Any) -> str | None:
    """Returns what the user named a stage with `name=`."""
    metadata = getattr(dataset, "_metadata", None)
    return metadata.name.decode() or None if metadata is not None else None


def name_in_graph(operation: Any) -> str | None:
    """The same of a stage that is an operation of a function's graph."""
    from tensorflow.core.framework import dataset_metadata_pb2

    if "metadata" not in {attribute.name for attribute in operation.op_def.attr}:
        return None
    metadata = dataset_metadata_pb2.Metadata.FromString(operation.get_attr("metadata"))
    return metadata.name.decode() or None


def functions_of(dataset: Any) -> list[tuple[Callable[..., Any], Any]]:
    """Returns the functions of a dataset, each as the user's function and its graph."""
    found = []
    for value in vars(dataset).values():
        function = getattr(value, "_func", None)
        graph = getattr(getattr(value, "_function", None), "graph", None)
        if callable(function) and graph is not None:
            found.append((function, graph))
    return found


def returns_its_arguments(graph: Any) -> bool:
    """Whether a function returns what it is given, and does nothing else with it."""
    returned = [_before_identities(output) for output in graph.outputs]
    return len(returned) == len(graph.inputs) and all(
        each is given for each, given in zip(returned, graph.inputs, strict=True)
    )


def _before_identities(tensor: Any) -> Any:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def called_graphs(graph: Any) -> dict[str, Any]:
    """Returns the graphs of all functions that a graph calls, by their names."""
    return {name: function.graph for name, function in graph._functions.items()}


def generator_behind(function: Callable[..., Any]) -> Any:
    """Returns what makes the elements of a `from_generator`, or None.

    Args:
        function: The function of the dataset's outer stage.

    Returns:
        A generator, a function that makes one, or any object that is iterated over; of a
        `PyDataset` its `__getitem__`.
    """
    for nested in closed_over(function).values():
        for state in closed_over(nested).values():
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
