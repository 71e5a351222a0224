"""The report in the output of a notebook, in a real Chromium."""

from __future__ import annotations

import pytest
from helpers.browsing import needed_chromium
from helpers.recorded_runs import run_lines, write_lines

from keras_gpukit import load_report

pytestmark = pytest.mark.browser


def test_the_frame_draws_its_charts_and_its_links_stay_within_it(tmp_path):
    write_lines(tmp_path / "logs", run_lines())
    shown = load_report(tmp_path / "logs")._repr_html_()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>Notebook</title>{shown}", encoding="utf-8")
    with needed_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(notebook.as_uri())
        frame = page.frame_locator("iframe")
        frame.locator(".plot .main-svg").first.wait_for()
        frame.locator("p.links a[href^='#']").first.click()
        inside = page.frames[1]
        assert inside.evaluate("document.activeElement.id || location.hash")
        assert inside.locator(".plot .main-svg").count() > 3
        assert page.url == notebook.as_uri()
        # The page cannot reach the notebook around it.
        reach = "() => { try { return parent.document.title } catch { return null } }"
        assert inside.evaluate(reach) is None
