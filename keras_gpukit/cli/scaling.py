"""`keras-gpukit scaling`: estimates a run's step time and rate on more GPUs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_gpukit.cli.command_line import above_0, fail, path, positive
from keras_gpukit.cli.json_output import add_json_flags, print_json

if TYPE_CHECKING:
    from keras_gpukit.records.run import RunSummary
    from keras_gpukit.records.scaling import Link, ScalingBasis, ScalingForecast

_GIVEN = "given"
NOTHING_GIVEN = (
    "give LOGDIR, a run's log folder, or --step-ms and --gradient-mb; and the links, such as "
    "--inside nvlink-h100 --between infiniband-ndr."
)


def add_parser(subparsers: Any) -> None:
    """Adds the command to the `keras-gpukit` parser."""
    parser = subparsers.add_parser(
        "scaling",
        help="estimate step time and rate on more GPUs",
        description="Estimates step time, efficiency and rate on more GPUs from a run's record and "
        "the links' bandwidth and latency, by the ring model of the all-reduce. Exits with 2 if "
        "there is no run.",
    )
    parser.add_argument(
        "log_dir", metavar="LOGDIR", type=path, nargs="?", help="a run's log folder"
    )
    parser.add_argument("--run", metavar="NAME", help="run of the folder (default: the newest fit)")
    parser.add_argument(
        "--gpus", type=_counts, default=(8, 64, 1024), help="numbers of GPUs (default: 8,64,1024)"
    )
    parser.add_argument("--gpus-per-node", type=positive, default=8, metavar="N", help="default: 8")
    parser.add_argument(
        "--links-per-node",
        type=positive,
        default=1,
        metavar="N",
        help="to other nodes (default: 1)",
    )
    for place in ("inside", "between"):
        parser.add_argument(
            f"--{place}",
            metavar="LINK",
            help=f"link {place} nodes: GB/s in one direction, or the name of a published peak: "
            "nvlink-a100, nvlink-h100, pcie-4, pcie-5, infiniband-hdr, infiniband-ndr, "
            "ethernet-10g, ethernet-25g, ethernet-100g",
        )
        parser.add_argument(
            f"--{place}-latency-us", type=above_0, metavar="US", help="of one message"
        )
    parser.add_argument(
        "--step-ms", type=above_0, metavar="MS", help="step time of one GPU, instead of the run's"
    )
    parser.add_argument(
        "--gradient-mb", type=above_0, metavar="MB", help="size of the trainable weights"
    )
    parser.add_argument("--batch", type=positive, metavar="N", help="examples per GPU and step")
    add_json_flags(parser, "scaling", "write JSON instead of a table")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Prints the forecast."""
    try:
        made = _forecast(args)
    except (OSError, ValueError) as error:
        return fail("scaling", error)
    if args.json:
        print_json(made)
        return 0
    from keras_gpukit.reports.scaling import render
    from keras_gpukit.reports.terminal import print_anywhere

    print_anywhere(render(made))
    return 0


def _forecast(args: argparse.Namespace) -> ScalingForecast:
    from keras_gpukit.rules.cluster.scaling import forecast

    given = (args.step_ms, args.gradient_mb, args.batch, args.inside, args.between)
    if args.log_dir is None and not any(given):
        raise ValueError(NOTHING_GIVEN)
    name, summary = (None, None) if args.log_dir is None else _read_run(args.log_dir, args.run)
    basis, inside, between = _known(args, summary)
    return forecast(
        basis,
        inside,
        between,
        gpus=args.gpus,
        gpus_per_node=args.gpus_per_node,
        links_per_node=args.links_per_node,
        run=name,
    )


def _read_run(log_dir: Path, wanted: str | None) -> tuple[str, RunSummary]:
    from keras_gpukit.saved_runs import load_report

    runs = load_report(log_dir).runs
    for each in runs:
        if each.name == wanted or (wanted is None and each.phase == "fit"):
            return each.name, each.summary
    names = ", ".join(each.name for each in runs)
    raise ValueError(f"There is no {wanted or 'fit'} under {log_dir}; runs: {names}")


def _known(args: argparse.Namespace, summary: RunSummary | None) -> tuple[ScalingBasis, Link, Link]:
    """Returns the known figures and both links; options take precedence over the run."""
    from keras_gpukit.records.scaling import ScalingBasis
    from keras_gpukit.rules.cluster.scaling import basis_of, latency_s, measured_link

    basis = ScalingBasis() if summary is None else basis_of(summary)
    given: dict[str, Any] = {}
    if args.step_ms is not None:
        given |= {"step_s": args.step_ms / 1e3, "on_cpu": False}
    if args.gradient_mb is not None:
        given["gradient_bytes"] = round(args.gradient_mb * 1e6)
    if args.batch is not None:
        given["batch"] = float(args.batch)
    links = {}
    for place in ("inside", "between"):
        latency_us = getattr(args, f"{place}_latency_us")
        known_s = None if latency_us is None else latency_us / 1e6
        source = _GIVEN if latency_us is not None else ""
        of_run = place == ("between" if basis.workers > 1 else "inside")
        if known_s is None and of_run and summary is not None:
            known_s = latency_s(summary)
            source = "half the workers' shortest round trip" if known_s is not None else ""
        text = getattr(args, place)
        if text is not None:
            links[place] = replace(_link(text), latency_s=known_s, latency_source=source)
        else:
            measured = basis if of_run else ScalingBasis()
            links[place] = measured_link(measured, known_s, source)
    unknown = {name: why for name, why in basis.unknown.items() if name not in given}
    return replace(basis, **given, unknown=unknown), links["inside"], links["between"]


def _link(text: str) -> Link:
    from keras_gpukit.records.scaling import Link
    from keras_gpukit.rules.cluster.scaling import LINKS

    if text in LINKS:
        return LINKS[text]
    try:
        return Link(above_0(text) * 1e9, source=_GIVEN)
    except (ValueError, argparse.ArgumentTypeError):
        raise ValueError(
            f"a link is GB/s in one direction or one of {', '.join(LINKS)}. Received: {text!r}"
        ) from None


def _counts(text: str) -> tuple[int, ...]:
    return tuple(positive(each.strip()) for each in text.split(","))
