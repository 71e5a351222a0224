"""`keras-gpukit doctor`: reports whether this machine can train on its GPUs, and if not, why."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from keras_gpukit.cli.json_output import add_json_flags


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="check whether this machine can train on its GPUs, and if not, why",
        description="Checks versions, driver, CUDA libraries and GPUs, says what blocks a GPU and "
        "how to fix it, and what configure_gpus() would do. Changes nothing. Exits with 0 if a GPU "
        "can be used, else 1.",
    )
    add_json_flags(parser, "doctor", "print the findings as JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Examines the machine and prints what it found."""
    from keras_gpukit.cli.examination import examine, findings_of, view
    from keras_gpukit.cli.quiet import quiet_tensorflow

    if sys.stderr.isatty():
        print("Checking …", file=sys.stderr)  # it takes seconds, more on a busy machine
    with quiet_tensorflow() as show_log:
        found = examine()
        if found.machine.build.cuda is None:  # TensorFlow or Keras could not be loaded
            show_log()
    if args.json:
        from keras_gpukit.records.codec import to_dict

        # Paths in environment variables may be no text, which only this one writes.
        print(json.dumps(to_dict(findings_of(found)), indent=2))
    else:
        from keras_gpukit.reports.terminal import PipedConsole

        PipedConsole().print(view(found))
    return 0 if found.can_train else 1
