"""The TensorBoard plugin with its HTTP routes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug import Request, Response

from keras_gpukit.errors import logger
from keras_gpukit.records.names import FOLDER, RUN_FILE, readable
from keras_gpukit.tensorboard_plugin.run_folders import (
    ReportPages,
    RunFolders,
    TabFolder,
    log_dirs,
)

# TensorBoard's page waits for `is_active`, so the first search may delay it by this much only.
FIRST_LOOK_S = 0.1
STATIC = Path(__file__).parent / "static"
MODULES = ("index.js", "address.js", "live.js", "theme.js")
DAY_S = 86400
# TensorBoard sends its own policy too, and browsers enforce both. The only inline script of a
# report is allowed by its hash, so names in records cannot inject scripts.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' {script}",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)


class GPUKitPlugin(base_plugin.TBPlugin):
    """The plugin of the tab "GPU Kit".

    Pages request a folder by its id, which must belong to a folder found under the log directory.
    No part of a URL ever becomes part of a path.
    """

    plugin_name = "gpukit"

    def __init__(self, context: base_plugin.TBContext) -> None:
        flags = context.flags
        self._folders = RunFolders(
            log_dirs(context.logdir or flags.logdir, getattr(flags, "logdir_spec", None))
        )
        self._pages = ReportPages()

    def get_plugin_apps(self) -> Mapping[str, Callable[..., Any]]:
        """Returns the request handlers by route, below /data/plugin/gpukit."""
        # TensorBoard calls this at startup: starting the search now finds runs before a user looks.
        self._folders.known()
        routes = {
            **{f"/{name}": _static(name, "text/javascript") for name in MODULES},
            "/tab.css": _static("tab.css", "text/css"),
            "/plotly.js": self._plotly_js,
            "/state": self._state,
            "/report": self._report,
        }
        return {route: _reading_only(handler) for route, handler in routes.items()}

    def is_active(self) -> bool:
        """Whether there is a run to show; called often, and answered from memory."""
        return bool(self._folders.known(FIRST_LOOK_S).folders)

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Returns the tab's name and page; the page updates itself, so reloads are disabled."""
        return base_plugin.FrontendMetadata(
            es_module_path="/index.js", tab_name="GPU Kit", disable_reload=True
        )

    def _state(self, request: Request) -> Response:
        """Returns the folders, and a stamp that changes when the requested report does."""
        found = self._folders.known()
        folder = self._asked(request)
        state = {
            "folders": [{"id": one.id, "name": one.name} for one in found.folders.values()],
            "complete": found.complete,
            "stamp": folder.stamp() if folder else "",
        }
        return _respond(request, state, "application/json")

    def _report(self, request: Request) -> Response:
        from keras_gpukit.reports.html import drawing_js

        if "missing" in request.args:
            return _page(request, _message("gone"))
        folder = self._asked(request)
        if folder is None and "folder" not in request.args:
            roots = [readable(root) for root in self._folders.roots.values()]
            what = "no runs" if roots else "no directory"
            message = _message(what, record=f"{FOLDER}/{RUN_FILE}", roots=roots)
            return _page(request, message)
        try:
            if folder:
                page = self._pages.page(folder, self._folders.known().folders)
                return _page(request, page, script=drawing_js())
        except FileNotFoundError:
            pass  # the folder was deleted since it was found
        return _page(request, _message("gone"), code=404)

    def _plotly_js(self, request: Request) -> Response:
        from keras_gpukit.reports.html import plotly_js

        return _respond(request, plotly_js(), "text/javascript", expires=DAY_S)

    def _asked(self, request: Request) -> TabFolder | None:
        """Returns the folder with the requested id, or the first folder if no id was given."""
        known = self._folders.known().folders
        if "folder" in request.args:
            return known.get(request.args["folder"])
        return next(iter(known.values()), None)


def _static(name: str, content_type: str) -> Callable[[Request], Response]:
    def serve(request: Request) -> Response:
        return _respond(request, (STATIC / name).read_bytes(), content_type)

    return serve


def _message(what: str, **shown: Any) -> str:
    """Returns a page that is shown if there is no report."""
    import jinja2

    template = (STATIC / "message.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(template).render(what=what, **shown).strip()


def _page(request: Request, html: str, *, code: int = 200, script: str = "") -> Response:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    headers = [("Content-Security-Policy", POLICY.format(script=f"'sha256-{digest}'"))]
    return _respond(
        request, html, "text/html", code=code, headers=headers, csp_scripts_sha256s=[digest]
    )


def _respond(request: Request, content: Any, content_type: str, **options: Any) -> Response:
    response: Response = http_util.Respond(request, content, content_type, **options)
    return response


def _reading_only(handler: Callable[[Request], Response]) -> Callable[..., Any]:
    """Wraps a handler as a WSGI application that allows only GET and HEAD and shows errors."""

    @Request.application
    def serve(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            headers = [("Allow", "GET, HEAD")]
            return _respond(request, "GET only", "text/plain", code=405, headers=headers)
        try:
            return handler(request)
        except Exception as error:
            logger.warning("keras_gpukit: the GPU Kit tab failed.", exc_info=True)
            what = readable(f"{type(error).__name__}: {error}")
            return _page(request, _message("failed", error=what), code=500)

    return serve
