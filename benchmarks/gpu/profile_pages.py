"""Asks TensorBoard's Profile tab for each of its tools."""

from __future__ import annotations

import gzip
import json
from typing import Any

from benchmarks.gpu.part import attempt


def open_pages(log_dir: str) -> dict[str, Any]:
    """Returns the HTTP status and the size of what each tool shows of a folder's only run.

    Args:
        log_dir: A log directory with a profile.
    """
    from tensorboard import default, program
    from tensorboard.backend import application
    from tensorboard.plugins.core import core_plugin
    from werkzeug.test import Client

    plugins = [core_plugin.CorePluginLoader(), *default.get_dynamic_plugins()]
    tensorboard = program.TensorBoard(plugins=plugins)
    tensorboard.configure(argv=["tensorboard", "--logdir", log_dir])
    client = Client(application.TensorBoardWSGIApp(tensorboard.flags, tensorboard.plugin_loaders))

    def ask(route: str, **query: str) -> Any:
        answer = client.get(f"/data/plugin/profile/{route}", query_string=query)
        zipped = answer.headers.get("Content-Encoding") == "gzip"
        return answer.status_code, gzip.decompress(answer.data) if zipped else answer.data

    def names(route: str, **query: str) -> Any:
        return json.loads(ask(route, **query)[1])

    [run] = names("runs")

    def opened(tool: str) -> dict[str, Any]:
        [host, *_] = names("hosts", run=run, tag=tool)
        status, body = ask("data", run=run, tag=tool, host=host["hostname"])
        return {"status": status, "bytes": len(body)}

    return {tool: attempt(opened, tool) for tool in names("run_tools", run=run)}
