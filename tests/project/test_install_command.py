"""How to install an extra, by where the package came from."""

import importlib.metadata
import json
from types import SimpleNamespace

import pytest
from helpers.processes import ROOT

from keras_gpukit.version import install_command


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
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert install_command("mlflow") == f'pip install "{source}[mlflow]"'


def test_a_clone_that_is_not_installed_is_named(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("demo") == f'pip install "{ROOT}[demo]"'
