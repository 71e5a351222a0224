"""Pages of the documentation in a real Chromium."""

import pytest
from helpers.browsing import needed_chromium, serious_violations
from helpers.processes import ROOT
from mkdocs.commands.build import build
from mkdocs.config import load_config

PAGES = ("index", "troubleshooting/memory-grows", "reference/cli", "guides/tune", "gpu-evidence")

pytestmark = [pytest.mark.browser, pytest.mark.heavy]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Only these pages: those of the API take most of the time of a build."""
    folder = tmp_path_factory.mktemp("site")
    others = ["*.md", *(f"!/{page}.md" for page in PAGES)]
    pages = [f"{page}.md" for page in PAGES]
    config = load_config(
        str(ROOT / "mkdocs.yml"),
        site_dir=str(folder),
        nav=pages,
        exclude_docs="\n".join(others),
        plugins=[],
        use_directory_urls=False,
    )
    build(config)
    return folder


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 375)])
def test_axe_finds_no_serious_violation(site, scheme, width):
    with needed_chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 2000}, color_scheme=scheme)
        page.set_default_timeout(240_000)
        for name in PAGES:
            page.goto((site / f"{name}.html").as_uri())
            assert serious_violations(page) == [], name
