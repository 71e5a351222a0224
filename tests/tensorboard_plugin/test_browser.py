"""What people see, in a real Chromium: the tab, the Profile tab and the report of a real fit."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import (
    DEADLINE_S,
    chromium,
    find_chromium,
    fit,
    profile_page,
    report_frame,
    tensorboard,
    wait_until,
)
from playwright.sync_api import Error

pytestmark = [pytest.mark.browser, pytest.mark.slow]
VERDICT = "Steps wait for input"
DEADLINE_MS = DEADLINE_S * 1000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if find_chromium() is None:
        message = "no Chromium is installed; on Debian: apt-get install chromium"
        if os.environ.get("GPUKIT_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with chromium() as launched:
        yield launched


class Watched:
    """A fit that goes on until it is told to end, and a TensorBoard that shows it."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.log_dir = folder / "logs" / "mine"
        self._fit = stack.enter_context(contextlib.ExitStack())
        self._fit.enter_context(fit(self.log_dir, "as_written", folder / "images"))
        self.address = stack.enter_context(tensorboard(folder / "logs"))

    def end(self) -> None:
        """Waits until the fit has ended in good order, with its profile written."""
        record = self.log_dir / "gpukit" / "run.jsonl"
        wait_until(lambda: record.exists() and b'"kind":"capture"' in record.read_bytes())
        self._fit.close()

    def tabs(self) -> Any:
        with urllib.request.urlopen(f"{self.address}/data/plugins_listing") as answer:
            return json.load(answer)

    def profile(self, route: str, **query: str) -> Any:
        """What the Profile tab asks its server."""
        url = f"{self.address}/data/plugin/profile/{route}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return json.loads(gzip.decompress(answer.read()))


@pytest.fixture(scope="module")
def watched(browser, tmp_path_factory) -> Iterator[Watched]:
    with contextlib.ExitStack() as stack:
        yield Watched(tmp_path_factory.mktemp("browser"), stack)


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """A page, which notes what went wrong in it and what it asked for."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.set_default_timeout(DEADLINE_MS)
    page.errors, page.asked = [], []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda line: line.type == "error" and page.errors.append(line.text))
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    page.close()


def test_the_tab_follows_a_fit_to_its_verdict(watched, page):
    wait_until(lambda: watched.tabs()["gpukit"]["enabled"])
    page.goto(f"{watched.address}/#gpukit")
    page.get_by_role("tab", name="GPU Kit").wait_for()
    told = wait_until(lambda: steps_told(page))
    bar = page.frame_locator("iframe")
    bar.get_by_role("button", name="Pause").click()
    bar.get_by_text("Paused").wait_for()
    frame = report_frame(page)
    assert "running" in frame.inner_text("body")
    frame.locator("figure summary").first.click()
    frame.evaluate("scrollTo(0, 300)")

    bar.get_by_role("button", name="Resume").click()
    wait_until(lambda: steps_told(page) not in (None, told))
    watched.end()
    wait_until(lambda: "completed" in body(page))
    frame = report_frame(page)
    assert VERDICT in frame.inner_text("body")
    assert frame.evaluate("scrollY") == pytest.approx(300, abs=50)
    assert frame.locator("figure details[open]").count() == 1
    assert frame.locator(".plot .main-svg").count() > 0
    assert page.errors == []
    assert outside(page, watched.address) == []

    page.evaluate("location.hash = '#text'")  # whether TensorBoard has found texts yet or not
    page.wait_for_timeout(1000)  # for what was under way
    page.asked.clear()
    page.wait_for_timeout(4000)
    assert not any("gpukit/state" in url for url in page.asked)


def test_the_profile_tab_shows_steps_and_what_held_them_up(watched, page):
    watched.end()
    (run,) = wait_until(lambda: watched.profile("runs"))
    (host,) = watched.profile("hosts", run=run, tag="overview_page")
    overview = watched.profile("data", run=run, tag="overview_page", host=host["hostname"])
    assert overview[3]["p"]["bottleneck"] not in ("", "unknown")
    analysis = watched.profile("data", run=run, tag="input_pipeline_analyzer", host="")
    assert len(analysis[1]["rows"]) == 8  # of ten: xprof leaves out the first and the last
    memory = watched.profile("data", run=run, tag="memory_profile", host=host["hostname"])
    assert memory["memoryProfilePerAllocator"]

    page.goto(profile_page(watched.address, run, "input_pipeline_analyzer", host["hostname"]))
    shown = profile_frame(page)
    shown.get_by_text("input-bound because").wait_for()
    assert shown.get_by_text(run, exact=False).first.is_visible()
    average = re.search(r"Average: ([\d.]+) ms", shown.locator("body").inner_text())
    assert average
    assert float(average[1]) > 1


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("overview_page", "Host Compute Time"),
        ("memory_profile", "Memory ID"),
        ("trace_viewer@", "/host:CPU"),
    ],
)
def test_the_profile_tabs_other_tools_open(watched, page, tool, words):
    watched.end()
    (run,) = wait_until(lambda: watched.profile("runs"))
    (host,) = watched.profile("hosts", run=run, tag="overview_page")
    page.goto(profile_page(watched.address, run, tool, host["hostname"]))
    frame = profile_frame(page)
    if tool == "trace_viewer@":
        frame = frame.frame_locator("iframe")
    frame.get_by_text(words).locator("visible=true").first.wait_for()
    assert "no memory activity" not in frame.locator("body").inner_text()


@pytest.fixture(scope="module")
def report(watched, tmp_path_factory) -> str:
    """The address of a report's file."""
    watched.end()
    file = tmp_path_factory.mktemp("report") / "report.html"
    command = [sys.executable, "-m", "keras_gpukit", "report", watched.log_dir, "--out", file]
    subprocess.run(command, check=True, timeout=DEADLINE_S, capture_output=True)
    return file.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 375])
def test_the_report_opens_from_a_file_without_a_network(report, page, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(report)
    page.locator(".plot .main-svg").first.wait_for()
    assert VERDICT in page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = "Array.from(document.querySelectorAll('.plot'), (plot) => plot.clientHeight)"
    before = page.evaluate(heights)
    page.set_viewport_size({"width": width - 50, "height": 700})
    page.wait_for_timeout(500)  # Plotly waits for the last of several changes
    assert page.evaluate(heights) == before
    brightness = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert all((part > 200) == (scheme == "light") for part in brightness)
    assert page.errors == []
    assert [url for url in page.asked if not url.startswith("data:")] == [report]


def body(page) -> str:
    """The text of the report in the tab, empty while there is none."""
    frame = report_frame(page)
    try:
        return frame.inner_text("body") if frame else ""
    except Error:  # a newer one has taken its place
        return ""


def steps_told(page) -> str | None:
    """The figure "steps" of the report in the tab."""
    told = re.search(r"^steps\s+([\d,]+)$", body(page), re.MULTILINE)
    return told[1] if told else None


def profile_frame(page) -> Any:
    """Where TensorBoard shows the Profile tab."""
    return page.frame_locator("iframe[src*='profile'], iframe")


def outside(page, address: str) -> list[str]:
    """What was asked of anybody else."""
    own = (address, "data:", "blob:")
    return [url for url in page.asked if not url.startswith(own)]
