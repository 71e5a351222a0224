"""Monitors Keras in the Python processes that a script under `run --follow` starts.

`run --follow` puts this folder first on `PYTHONPATH`, and Python imports a module of this name when
it starts. Until the process imports TensorFlow or Keras, nothing of this package is loaded.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _BeforeKeras:
    """Finder that starts monitoring when TensorFlow or Keras is about to be imported."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name not in ("tensorflow", "keras"):
            return None
        sys.meta_path.remove(self)
        root = os.path.abspath(os.path.join(_FOLDER, *[os.pardir] * 3))
        try:
            sys.path.append(root)  # the package may be on the path of the first process only
            try:
                from keras_gpukit.scripts.started_processes import follow

                hook = follow()
            finally:
                sys.path.remove(root)
        except Exception:  # such as another version of Python, or another environment
            return None
        return None if hook is None else hook.find_spec(name, path, target)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
sys.meta_path.insert(0, _BeforeKeras())
# The user's own module of this name, which this one hides.
_this = sys.modules.pop(__name__)
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as error:
    if error.name != __name__:
        raise
    sys.modules[__name__] = _this
