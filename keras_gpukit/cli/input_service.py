"""`keras-gpukit input-service`: runs a tf.data service that makes input in other processes."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from keras_gpukit.cli.command_line import fail, positive
from keras_gpukit.errors import NOT_ON_WINDOWS

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "input-service",
        help="move input to other processes or machines (tf.data service)",
        description="Starts a tf.data service on this machine until Ctrl-C, or prints the "
        "manifests for Kubernetes. Python functions in a pipeline, such as numpy_function and "
        "generators, cannot be moved.",
    )
    parser.add_argument(
        "--workers", type=positive, default=2, metavar="N", help="number of workers (default: 2)"
    )
    parser.add_argument(
        "--port", type=_port, default=5050, help="port of the dispatcher, 0 for any (default: 5050)"
    )
    parser.add_argument("--kubernetes", action="store_true", help="print manifests for kubectl")
    parser.add_argument("--image", help="for Kubernetes: a container image with keras-gpukit")
    parser.add_argument(
        "--name",
        type=_name,
        default="input-service",
        help="for Kubernetes: name of the service (default: input-service)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Runs the service until it is stopped, or prints the manifests."""
    from keras_gpukit.distributed.launching.job_templates import input_service_manifest

    try:
        if args.kubernetes:
            if not args.image:
                raise ValueError("--kubernetes needs --image: a container image.")
            sys.stdout.write(input_service_manifest(args.name, args.image, args.workers))
            return 0
        if sys.platform == "win32":
            return fail("input-service", f"{NOT_ON_WINDOWS} --kubernetes works here.")
        from keras_gpukit.distributed.launching.servers import serve_input

        return serve_input(args.workers, args.port)
    except (OSError, ValueError) as error:
        return fail("input-service", error)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, and is {text!r}")
    return int(text)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"must be letters, digits and dashes that begin with a letter, and is {text!r}"
        )
    return text
