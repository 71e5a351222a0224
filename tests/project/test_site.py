"""The pages that are made from the code and from results say all, and nothing that is not there."""

import dataclasses
import importlib.util
import re
import typing

import pytest
from helpers.docs_code import PAGES, ROOT

from keras_gpukit import records
from keras_gpukit.cli.main import parsers

SOURCES = sorted((ROOT / "keras_gpukit").rglob("*.py"))
VARIABLE = re.compile(
    r'"((?:CUDA|GPUKIT|GRPC|KERAS|LD|MLFLOW|NCCL|NO|NVIDIA|OTEL|TF|WANDB|XDG|XLA)_[A-Z\d_]+)"'
)


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_environment_variable_of_the_code_is_on_its_page(hooks):
    page = hooks.environment()
    named = {name for path in SOURCES for name in VARIABLE.findall(path.read_text("utf-8"))}
    assert len(named) > 20
    assert sorted(name for name in named if f"| `{name}` |" not in page) == []


def test_each_command_and_flag_is_on_its_page(hooks):
    page = hooks.commands()
    _, with_values = parsers()
    assert all(f"## {name}\n" in page for name in (*with_values, "report", "doctor"))
    assert "--mixed-precision" in page


def test_a_figure_comes_from_its_file_or_ends_the_build(hooks):
    shown = hooks.on_page_markdown(
        "{{ verdict_truth: causes }} runs, {{ everyday: named as .0% }} of "
        "{{ everyday: situations as len }}, {{ verdict_truth: runs/*/is_kept as true }}"
    )
    assert re.fullmatch(r"\d\d runs, \d+ % of \d\d, \d\d", shown)
    with pytest.raises(KeyError):
        hooks.on_page_markdown("{{ verdict_truth: not there }}")
    with pytest.raises(FileNotFoundError):
        hooks.on_page_markdown("{{ not_there: count }}")


def test_each_results_file_has_its_command_and_versions_on_the_page(hooks):
    page = hooks.results()
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        [section] = re.findall(rf"### {path.name}\n(.*?)(?=\n### |\Z)", page, re.DOTALL)
        script, commit = re.search(r"`python (\S+).*?`, (at commit \w{8})?", section).groups()
        assert script.startswith("benchmarks/")
        assert commit or (ROOT / script).exists()
        assert "tensorflow 2." in section
        assert len(section.split("\n\n")[1]) > 20  # what the benchmark asks


def dataclasses_in(kind):
    if dataclasses.is_dataclass(kind):
        yield kind
        for each in typing.get_type_hints(kind).values():
            yield from dataclasses_in(each)
    for inner in typing.get_args(kind):
        yield from dataclasses_in(inner)


RESULTS = (
    records.Report,
    records.BatchSizeSearch,
    records.Diagnosis,
    records.MemoryPrediction,
    records.SpeedupSearch,
    records.SplitPlan,
    records.TuningRecord,
)


def test_each_type_in_what_users_get_is_documented():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for kind in {each for result in RESULTS for each in dataclasses_in(result)}:
        home = re.escape(kind.__module__)
        assert re.search(rf"^::: {home}(\.{kind.__name__})?$", text, re.MULTILINE), kind
