"""`keras-gpukit doctor`: reports whether this machine can train on its GPUs, and if not, why."""

from __future__ import annotations

import argparse
import json
from typing import Any

from keras_gpukit.cli.json_output import add_json_flags


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "doctor",
        help="say whether this machine can train on its GPUs, and if not, why",
        description="Looks at versions, driver, CUDA libraries and GPUs, names what blocks a GPU "
        "and how to fix it, and says what configure_gpus() would do. Changes nothing. Exits with 0 "
        "if a GPU can be used, else 1.",
    )
    add_json_flags(parser, "doctor", "print the findings as JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Examines the machine and prints what it found."""
    from keras_gpukit.cli.examination import examine, findings_of
    from keras_gpukit.cli.quiet import quiet_tensorflow

    with quiet_tensorflow() as show_log:
        found = examine()
        if found.machine.build.cuda is None:  # TensorFlow or Keras could not be loaded
            show_log()
    if args.json:
        from keras_gpukit.records.codec import to_dict

        # Paths in environment variables may be no text, which only this one writes.
        print(json.dumps(to_dict(findings_of(found)), indent=2))
    else:
        from keras_gpukit.reports.examination import render
        from keras_gpukit.reports.terminal import PipedConsole

        planned = found.planned
        shown = render(
            found.versions,
            found.machine,
            health=found.health,
            packages=found.packages,
            problems=found.problems,
            not_measured=found.not_measured,
            uses_gpu=bool(planned.gpus),
            actions=planned.actions,
            causes=planned.causes,
            not_applied=planned.not_applied,
            warnings=planned.warnings,
        )
        PipedConsole().print(shown)
    return 0 if found.can_train else 1
