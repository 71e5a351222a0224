"""TensorFlow's private names that setting the GPUs up needs.

Seen on TensorFlow 2.21: `context.context()._initialized`, `.config`, and
`config.is_op_determinism_enabled`. Each has a public way to fall back to, or its answer is None.
"""

from __future__ import annotations

from typing import Any


def is_initialized() -> bool:
    """Whether TensorFlow has started its devices; starts nothing."""
    try:
        return bool(_context()._initialized)
    except (AttributeError, ImportError):
        return _refuses_changes()


def is_deterministic() -> bool | None:
    """Whether operations are made deterministic; None where unknown."""
    try:
        from tensorflow.python.framework import config

        return bool(config.is_op_determinism_enabled())
    except (AttributeError, ImportError):
        return None


def grows_memory() -> bool | None:
    """Whether TensorFlow will really grow GPU memory; None where unknown.

    The public getter repeats what was set; what is passed on to the runtime can be less.
    """
    try:
        return bool(_context().config.gpu_options.allow_growth)
    except (AttributeError, ImportError):
        return None
    except ValueError:  # set to differ between GPUs, which TensorFlow refuses only here
        return None


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()


def _refuses_changes() -> bool:
    # The public way: the number of threads can be changed until the devices are started.
    import tensorflow as tf

    threads = tf.config.threading.get_inter_op_parallelism_threads()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads + 1)
    except RuntimeError:
        return True
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return False
