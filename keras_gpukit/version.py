"""The package's version, read by the build and by the package itself; and how to install more."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"


def install_command(extra: str) -> str:
    """Returns the command that installs an extra of this package, from where it was installed.

    A clone or a wheel is named by its path, which pip has kept (`direct_url.json`, PEP 610); so is
    a clone that runs without being installed. Otherwise it came from a package index.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    source: Path | str = "keras-gpukit"
    try:
        kept = distribution("keras-gpukit").read_text("direct_url.json")
    except PackageNotFoundError:
        source = Path(__file__).parents[1]
    else:
        if kept and (url := json.loads(kept)["url"]).startswith("file:"):
            source = url2pathname(urlsplit(url).path)
    return f'pip install "{source}[{extra}]"'
