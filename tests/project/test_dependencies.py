"""What the package imports is declared, and each dependency has its reason in the documentation."""

from __future__ import annotations

import ast
import re
import sys
from importlib import metadata
from pathlib import Path

from keras_gpukit.version import __version__

ROOT = Path(__file__).parents[2]
# Several distributions share this name.
GOOGLE = {"google": ["protobuf"]}


def imported():
    """Names of the third-party modules that the package imports."""
    modules = set()
    for path in (ROOT / "keras_gpukit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_each_imported_module_is_declared():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = declared(project[: project.index("docs = [")])
    distributions = metadata.packages_distributions() | GOOGLE
    undeclared = [
        module
        for module in imported()
        if not {each.lower() for each in distributions[module]} & names
    ]
    assert undeclared == []


def test_each_dependency_has_its_reason():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = project[project.index("dependencies = [") :].partition("[project.optional")[0]
    dependencies = declared(listed) - {"dependencies"}
    page = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
    assert len(dependencies) > 10
    assert [each for each in sorted(dependencies) if f"`{each}`" not in page] == []


def test_the_oldest_versions_that_are_tested_are_those_that_may_be_installed():
    project, tested = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "noxfile.py")
    )
    for package in ("tensorflow", "tensorboard", "keras"):
        [oldest] = re.findall(rf'^  "{package}>=([\d.]+)"', project, re.MULTILINE)
        assert f'"{package}=={oldest}.*"' in tested


def test_the_citation_has_this_version():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
