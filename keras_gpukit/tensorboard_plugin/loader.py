"""What TensorBoard loads at its start, through the entry point `tensorboard_plugins`."""

from __future__ import annotations

from typing import Any

from tensorboard.plugins import base_plugin


class GPUKitLoader(base_plugin.TBLoader):
    """Makes the plugin; loads nothing heavy, since TensorBoard waits for it."""

    def load(self, context: base_plugin.TBContext) -> Any:
        """Returns the plugin.

        Args:
            context: TensorBoard's own: its flags, of which the log directories are read.
        """
        from keras_gpukit.tensorboard_plugin.plugin import GPUKitPlugin

        return GPUKitPlugin(context)
