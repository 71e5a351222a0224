"""What pages take from the code and from results is all there, and nothing else."""

import dataclasses
import importlib.util
import itertools
import re
import typing

import pytest
from helpers.docs_code import PAGES, ROOT

from keras_gpukit import records
from keras_gpukit.cli.main import parsers

RESULTS = ROOT / "benchmarks" / "results"
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
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
    for path in RESULTS.glob("*.json"):
        [section] = re.findall(rf"### {path.name}\n(.*?)(?=\n### |\Z)", page, re.DOTALL)
        script, commit = re.search(
            r"`(?:python|keras-gpukit run) (\S+).*?`, (at commit \w{8})?", section
        ).groups()
        assert script.startswith("benchmarks/")
        assert commit or (ROOT / script).exists()
        assert "tensorflow 2." in section
        assert len(section.split("\n\n")[1]) > 20  # what the benchmark asks


@pytest.mark.parametrize("file", sorted(each.name for each in RESULTS.glob("*.json")))
def test_each_results_file_is_cited(file):
    assert any(file in text for text in TEXT.values())


def test_each_results_file_and_benchmark_that_is_cited_exists():
    found = (re.findall(r"benchmarks/[\w./]+\.(?:json|py)", text) for text in TEXT.values())
    cited = set(itertools.chain(*found))
    assert len(cited) > 20
    assert [path for path in sorted(cited) if not (ROOT / path).exists()] == []


def test_the_demo_s_figures_are_the_same_wherever_they_are_shown():
    row = re.compile(r"^(?:examples/s|step time)  .*", re.M)
    shown = {tuple(rows) for text in TEXT.values() if (rows := row.findall(text))}
    assert [len(rows) for rows in shown] == [2]


def dataclasses_in(kind):
    if dataclasses.is_dataclass(kind):
        yield kind
        for each in typing.get_type_hints(kind).values():
            yield from dataclasses_in(each)
    for inner in typing.get_args(kind):
        yield from dataclasses_in(inner)


RECORDS = (
    records.Report,
    records.BatchSizeSearch,
    records.Diagnosis,
    records.MemoryPrediction,
    records.SpeedupSearch,
    records.SplitPlan,
    records.TuningRecord,
)


def test_each_type_in_what_users_get_is_documented():
    text = "".join(TEXT.values())
    for kind in {each for record in RECORDS for each in dataclasses_in(record)}:
        home = re.escape(kind.__module__)
        assert re.search(rf"^::: {home}(\.{kind.__name__})?$", text, re.MULTILINE), kind
