"""What the package imports is declared, with a reason, and how an extra of it is installed."""

import ast
import functools
import json
import re
import sys
from collections import defaultdict
from importlib import metadata
from types import SimpleNamespace

import pytest
from helpers.processes import ROOT

from keras_gpukit.version import __version__, install_command

PACKAGE = ROOT / "keras_gpukit"
KINDS = ast.Import | ast.ImportFrom | ast.ClassDef
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
# Several distributions share this name.
GOOGLE = {"google": ["protobuf"]}


@functools.cache
def nodes():
    """The package's imports and classes, each with its file."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, KINDS)
    ]


def imported():
    """Names of the third-party modules that the package imports."""
    modules = set()
    for _, node in nodes():
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module)
    names = {module.split(".")[0] for module in modules}
    # `sitecustomize` is a module of the user's that Python imports at its start.
    return sorted(names - set(sys.stdlib_module_names) - {"keras_gpukit", "sitecustomize"})


def declared(text):
    """Names of the requirements in a text, in small letters."""
    return {each.lower() for each in re.findall(r"[A-Za-z][\w-]*(?=\s*[><=~])", text)}


def test_no_two_classes_have_one_name():
    places = defaultdict(set)
    for file, node in nodes():
        if isinstance(node, ast.ClassDef):
            places[node.name].add(file)
    assert {name: sorted(files) for name, files in places.items() if len(files) > 1} == {}


def test_each_imported_module_is_declared():
    names = declared(PROJECT[: PROJECT.index("docs = [")])
    distributions = metadata.packages_distributions() | GOOGLE
    assert [
        module
        for module in imported()
        if not {each.lower() for each in distributions[module]} & names
    ] == []


def test_each_dependency_has_its_reason():
    listed = PROJECT[PROJECT.index("dependencies = [") :].partition("[project.optional")[0]
    dependencies = declared(listed) - {"dependencies"}
    page = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
    assert len(dependencies) > 10
    assert [each for each in sorted(dependencies) if f"`{each}`" not in page] == []


def test_the_tested_versions_may_be_installed_and_the_citation_has_this_one():
    tested = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for package in ("tensorflow", "tensorboard", "keras"):
        [oldest] = re.findall(rf'^  "{package}>=([\d.]+)"', PROJECT, re.MULTILINE)
        assert f'"{package}=={oldest}.*"' in tested
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (None, "keras-gpukit"),  # from a package index
        ("https://example.org/keras_gpukit.whl", "keras-gpukit"),
        ("file:///home/me/my%20clone", "/home/me/my clone"),
        ("file:///tmp/keras_gpukit-1-py3-none-any.whl", "/tmp/keras_gpukit-1-py3-none-any.whl"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(monkeypatch, url, source):
    kept = None if url is None else json.dumps({"url": url})
    found = SimpleNamespace(read_text=lambda name: kept)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    assert install_command("mlflow") == f'pip install "{source}[mlflow]"'


def test_a_clone_that_is_not_installed_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("demo") == f'pip install "{ROOT}[demo]"'
