"""Private names of TensorFlow and Keras that reading a step's graph needs.

They exist in TensorFlow 2.21 and Keras 3.15: `one_step_on_data` in the closure of Keras' step
function, `_list_all_concrete_functions` of a `tf.function`, and `_get_function` of a graph. If one
is missing, the number of operations is unknown.
"""

from __future__ import annotations

import inspect
from typing import Any

from keras_gpukit.sensors.tf_private import traces_of


def step_graph(step_function: Any) -> Any | None:
    """Returns the graph of one step on one batch, as it was traced; None if none was.

    Raises:
        AttributeError: If the step function is not Keras' own.
    """
    function = inspect.unwrap(step_function)
    inner = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    if "one_step_on_data" not in inner:
        raise AttributeError("the step function is not Keras' own")
    traces = traces_of(inner["one_step_on_data"])
    return traces[-1].graph if traces else None  # the last one takes the most kinds of batches


def function_graph(graph: Any, name: str) -> Any:
    """Returns the graph of a function that operations of a graph call."""
    around = graph
    while around is not None:
        function = around._get_function(name)
        if function is not None:
            return function.graph
        around = getattr(around, "outer_graph", None)
    raise KeyError(name)
