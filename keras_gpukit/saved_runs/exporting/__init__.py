"""Services that a run can be logged to: MLflow, Weights & Biases and OpenTelemetry."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from keras_gpukit.arguments import refuse
from keras_gpukit.errors import Guard
from keras_gpukit.saved_runs.writing import WriterThread
from keras_gpukit.version import install_command

CLOSE_WITHIN_S = 30.0
"""Maximum seconds that the end of a `fit` waits for a service. Our choice: a slow server still gets
the verdict, and one that hangs does not keep the script."""
_latest: dict[str, WriterThread] = {}
"""Latest thread of each service."""


class Service(NamedTuple):
    """A service, and where its writer is. The extra that installs its package has its name.

    By default only the chief of a cluster logs to it.
    """

    title: str
    package: str
    exporter: tuple[str, str]
    chief_only: bool = True


SERVICES = {
    "mlflow": Service("MLflow", "mlflow", ("exporter", "MLflowRun")),
    "wandb": Service("Weights & Biases", "wandb", ("exporter", "WandbRun")),
    "otel": Service("OpenTelemetry", "opentelemetry", ("otel_signals", "OTelSignals"), False),
}


def check_log_to(log_to: Any) -> tuple[str, ...]:
    """Returns the names of services without repetitions.

    Raises:
        TypeError: If `log_to` is neither a name nor a list or tuple.
        ValueError: If a name is not among `SERVICES`.
        ImportError: If a service's package is not installed; the message names the extra.
    """
    accepted = f"{', '.join(map(repr, SERVICES))}, or a list of these"
    if not isinstance(log_to, (str, list, tuple)):
        refuse("log_to", accepted, log_to, TypeError)
    names = (log_to,) if isinstance(log_to, str) else tuple(log_to)
    for name in names:
        if not isinstance(name, str) or name not in SERVICES:
            refuse("log_to", accepted, log_to, ValueError)
        if find_spec(SERVICES[name].package) is None:
            raise ImportError(
                f"Logging to {SERVICES[name].title} needs a package that is not installed: "
                f"{install_command(name)}. Received: log_to={log_to!r}"
            )
    return tuple(dict.fromkeys(names))


def start_logging(name: str) -> WriterThread | None:
    """Starts to log a run to a service; None if that failed, which is logged.

    Called on the training thread, since only that one knows the run that the user has started.
    """
    service = SERVICES[name]
    module, exporter = service.exporter
    part = f"Logging to {service.title}"
    with Guard(part, "Nothing is logged there in this run."):
        if name in _latest and _latest[name].is_late:  # or each `fit` would wait for it at its end
            raise TimeoutError("an earlier run is still being sent")
        kind = getattr(import_module(f"{__name__}.{module}"), exporter)
        thread = WriterThread(part, [partial(kind, kind.active())], CLOSE_WITHIN_S)
        thread.start()
        _latest[name] = thread
        return thread
    return None
