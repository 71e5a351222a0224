"""The arguments of `configure_gpus` as flags of `keras-gpukit run`."""

import argparse
import inspect
import re

import pytest

from keras_gpukit import configure_gpus
from keras_gpukit.cli.command_line import split
from keras_gpukit.cli.main import parsers
from keras_gpukit.cli.run import add_gpu_flags, given_gpu_flags
from keras_gpukit.configure.settings import check


@pytest.fixture(scope="module")
def parser():
    parser = argparse.ArgumentParser()
    add_gpu_flags(parser)
    return parser


def test_each_argument_has_a_flag(parser):
    flags = set(re.findall(r"--(?!no-|help)([a-z][a-z0-9-]*)", parser.format_help()))
    arguments = set(inspect.signature(configure_gpus).parameters) - {"verbose"}
    assert {flag.replace("-", "_") for flag in flags} == arguments


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("", {}),
        ("--devices all", {"devices": "all"}),
        ("--devices 0,GPU-1a", {"devices": [0, "GPU-1a"]}),
        ("--memory growth", {"memory": "growth"}),
        ("--memory 8GiB,4GiB", {"memory": ["8GiB", "4GiB"]}),
        ("--logical-gpus 2", {"logical_gpus": 2}),
        ("--logical-gpus 4GiB,4GiB", {"logical_gpus": ["4GiB", "4GiB"]}),
        ("--mixed-precision auto", {"mixed_precision": "auto"}),
        ("--jit on --no-tf32", {"jit": True, "tf32": False}),
        ("--jit auto --soft-placement", {"jit": "auto", "soft_placement": True}),
        ("--deterministic --seed 7", {"deterministic": True, "seed": 7}),
        ("--allocator cuda_malloc_async", {"allocator": "cuda_malloc_async"}),
        ("--gpu-threads 4", {"gpu_threads": 4}),
        ("--gpu-threads gpu_shared:4", {"gpu_threads": ("gpu_shared", 4)}),
        ("--worker-timeout-s 30", {"worker_timeout_s": 30.0}),
        ("--strategy mirrored --require-gpu", {"strategy": "mirrored", "require_gpu": True}),
    ],
)
def test_values_are_those_that_configure_gpus_takes(parser, words, arguments):
    assert given_gpu_flags(parser.parse_args(words.split())) == arguments
    check(**arguments)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("run x.py", ""),
        ("run x.py", "--memory growth -- -m --help"),
        ("run --memory growth --profile x.py", "--profile"),
        ("run --log-dir=here --tf32 -m package.train", "-m x"),
        ("run --devices 0,1 --seed 3 -m package", "--seed 4"),
        ("launch --workers 2 --log-dir here x.py", "--workers 3 -- -m"),
        ("launch --ps=1 --workers 2 -m package", "--restarts 1"),
        ("report logs --json", ""),
    ],
)
def test_what_follows_the_script_is_its_own(ours, theirs):
    words = [*ours.split(), *theirs.split()]
    _, with_values = parsers()
    assert split(words, with_values) == (ours.split(), theirs.split())
