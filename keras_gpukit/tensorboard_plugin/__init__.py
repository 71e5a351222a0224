"""The TensorBoard tab "GPU Kit": an up-to-date report of every run under the log directory.

TensorBoard imports this module at startup, from the entry point `tensorboard_plugins`.
"""

from __future__ import annotations

from typing import Any

from tensorboard.plugins import base_plugin


class GPUKitLoader(base_plugin.TBLoader):
    """Creates the plugin; it imports nothing heavy, because TensorBoard waits for it."""

    def load(self, context: base_plugin.TBContext) -> Any:
        """Returns the plugin."""
        from keras_gpukit.tensorboard_plugin.plugin import GPUKitPlugin

        return GPUKitPlugin(context)
