"""The global state of Keras and TensorFlow, which belongs to no model and has no public name.

Private names, seen on Keras 3.12 to 3.15 and TensorFlow 2.21:
`keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER`, which holds the global seed generator
and the counters for automatic names; `context._rng`, the source of seeds for operations without
one after `tf.random.set_seed`; `stateful_random_ops.global_generator`;
`data_structures.ListWrapper`, in which TensorFlow keeps lists. If a name is gone, its state is not
restored: a run that draws from it continues with other numbers.
"""

from __future__ import annotations

import random
from typing import Any


def keras_globals() -> Any | None:
    """Returns the object whose attributes are the calling thread's global state of Keras."""
    try:
        from keras.src.backend.common import global_state
    except ImportError:
        return None
    return getattr(global_state, "GLOBAL_STATE_TRACKER", None)


def eager_seeds() -> random.Random | None:
    """Returns the generator of seeds for operations without one; None before `set_seed`."""
    try:
        from tensorflow.python.eager import context
    except ImportError:
        return None
    return getattr(context.context(), "_rng", None)


def global_generator() -> Any | None:
    """Returns the shared `tf.random.Generator`; None if none was requested."""
    try:
        from tensorflow.python.ops import stateful_random_ops
    except ImportError:
        return None
    return getattr(stateful_random_ops, "global_generator", None)


def keeps_its_items_inside(thing: Any) -> bool:
    """Whether an object is a TensorFlow list that keeps its items in one of its attributes."""
    try:
        from tensorflow.python.trackable.data_structures import ListWrapper
    except ImportError:
        return False
    return isinstance(thing, ListWrapper)
