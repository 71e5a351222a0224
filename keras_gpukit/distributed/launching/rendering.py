"""Renders scripts and manifests from templates, with each value quoted for its language."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """Returns a template with its values filled in.

    Args:
        template: Name of a file in `templates/`. It can use these filters: `shell` quotes a value,
            or each word of a command, for a shell; `yaml` writes a value as one line of YAML;
            `block` indents lines by a number of columns.
        values: Values for the names in the template; a missing one is an error.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # nothing here is HTML
    )
    environment.filters["shell"] = _shell
    environment.filters["yaml"] = json.dumps  # JSON is YAML
    environment.filters["block"] = _block
    return environment.get_template(template).render(values)


def _shell(value: str | Sequence[str]) -> str:
    return shlex.quote(value) if isinstance(value, str) else shlex.join(value)


def _block(lines: str, columns: int) -> str:
    return textwrap.indent(lines.strip("\n"), " " * columns)
