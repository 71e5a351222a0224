"""Checks a tf.data service, and proposes the change that moves stages to it."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from keras_gpukit.input.pipelines.functions import function_name
from keras_gpukit.input.pipelines.rebuilding import replace, spine
from keras_gpukit.input.pipelines.served import movable, serve
from keras_gpukit.input.pipelines.structure import Dataset, functions
from keras_gpukit.trials.tuning.changes import Allowed, Change

NAME = "input-service"
_ANSWERS_WITHIN_S = 5.0


def check_service(service: object) -> None:
    """Checks the address of a tf.data service, and that something listens there.

    Raises:
        TypeError: If the address is not a string.
        ValueError: If the address is not valid, or nothing listens there.
    """
    accepted = '`service` must be the address of a tf.data service, such as "grpc://host:5050"'
    if not isinstance(service, str):
        raise TypeError(f"{accepted}. Received: service={service!r}")
    try:
        parts = urlsplit(service)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not service.startswith("grpc://") or not host or not port:
        raise ValueError(f"{accepted}. Received: service={service!r}")
    try:
        # TensorFlow itself would retry for an hour.
        socket.create_connection((host, port), timeout=_ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise ValueError(
            f"Nothing answers at the address of the tf.data service ({error}). Start one with "
            f"keras-gpukit input-service. Received: service={service!r}"
        ) from error


def propose(dataset: Dataset, allowed: Allowed, service: str) -> tuple[Change | None, str]:
    """Proposes to make elements in a service, up to the first stage that must stay local.

    Returns:
        The change and "", or None and the reason.
    """
    moved, reason = movable(spine(dataset))
    if moved is None:
        return None, reason
    changed = replace(dataset, {id(moved): lambda below: serve(moved, service)})
    called = [function_name(stage) for stage in spine(moved) if functions(stage)]
    what = ", ".join(dict.fromkeys(called)) or "elements"
    return (
        Change(
            NAME,
            f"run {what} in the tf.data service",
            changed,
            blocked=""
            if allowed.reorder
            else "the order of elements changes (allow_reorder=True allows it)",
            note="an epoch has every element once as long as no worker fails",
        ),
        "",
    )
