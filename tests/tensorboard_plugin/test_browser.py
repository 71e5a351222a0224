"""What people see, in a real Chromium: the tab, the Profile tab and the report of a real fit."""

from __future__ import annotations

import contextlib
import gzip
import json
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
    fit,
    needed_chromium,
    profile_page,
    report_frame,
    resize,
    tensorboard,
    wait_for_charts,
    wait_until,
)
from helpers.recorded_runs import BEGAN_S, run_lines, write_lines
from playwright.sync_api import Error

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SWEEP = "sweep-of-learning-rates-with-resnet50"
VERDICT = "is spent waiting for data"
DEADLINE_MS = DEADLINE_S * 1000
ZOOM = """async (id) => {
  await Plotly.relayout(id, { "xaxis.range": [0.5, 1.5] });
  await Plotly.restyle(id, { visible: "legendonly" }, [0]);
}"""
VIEW = """(id) => {
  const { data, layout } = document.getElementById(id);
  const { top } = document.querySelector(".plot").getBoundingClientRect();
  const hidden = data.filter((trace) => trace.visible === "legendonly").length;
  const last = Math.max(...data.map(({ x }) => x.at(-1) ?? 0));
  return { top, range: layout.xaxis.range, hidden, last };
}"""
BACKGROUND = (
    "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with needed_chromium() as launched:
        yield launched


class Watched:
    """A fit that goes on until it is asked to end, and a TensorBoard that shows it."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        for number in range(5):  # older runs next to it
            lines = run_lines(5 + number, began_s=BEGAN_S + number)
            write_lines(folder / "logs" / SWEEP / f"lr-{number}", lines)
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
    page.goto(f"{watched.address}/#gpukit&gpukit.run=mine")
    page.get_by_role("tab", name="GPU Kit").wait_for()
    wait_until(lambda: f"{VERDICT}: the bottleneck is" in body(page))  # the stage, while it runs
    result = wait_until(lambda: steps_told(page))
    bar = page.frame_locator("iframe")
    bar.get_by_role("button", name="Pause").click()
    bar.get_by_text("Paused").wait_for()
    frame = report_frame(page)
    assert re.search(r"Running for .* s: .* epoch \d", frame.inner_text("body"))
    frame.get_by_text("More charts").first.click()
    plot = frame.locator(".plot[data-time]").first.get_attribute("id")
    frame.evaluate(ZOOM, plot)
    frame.locator("figure summary").first.click()
    frame.evaluate("scrollTo(0, 300)")
    before = frame.evaluate(VIEW, plot)

    bar.get_by_role("button", name="Resume").click()
    wait_until(lambda: steps_told(page) not in (None, result))
    assert_background(frame, light=True)
    page.evaluate("document.body.classList.add('dark-mode')")  # as TensorBoard's switch does
    assert_background(frame, light=False)
    watched.end()
    wait_until(lambda: "completed" in body(page))
    assert report_frame(page) == frame  # in place
    assert VERDICT in frame.inner_text("body")
    assert_background(frame, light=False)
    view = frame.evaluate(VIEW, plot)
    assert (view["range"], view["hidden"]) == ([0.5, 1.5], 1)
    assert view["last"] > before["last"]  # points may become fewer: neighbours are joined
    assert view["top"] == pytest.approx(before["top"], abs=50)
    assert frame.locator("figure details[open]").count() == 1
    (run,) = watched.profile("runs")
    (host,) = watched.profile("hosts", run=run, tag="overview_page")
    trace = frame.get_by_role("link", name="its trace in the Profile tab").first
    there = profile_page(watched.address, run, "trace_viewer@", host["hostname"])
    assert trace.evaluate("link => link.href") == there
    assert page.errors == []
    own = (watched.address, "data:", "blob:")
    assert [url for url in page.asked if not url.startswith(own)] == []

    page.evaluate("location.hash = '#text'")  # whether TensorBoard has found texts yet or not
    page.wait_for_timeout(1000)  # for what was under way
    page.asked.clear()
    page.wait_for_timeout(4000)
    assert not any("gpukit/state" in url for url in page.asked)


def test_many_runs_are_sorted_filtered_compared_and_linked(watched, page):
    watched.end()
    page.goto(f"{watched.address}/#gpukit")
    wait_until(lambda: "6 runs compared" in body(page))
    frame = report_frame(page)
    names = frame.locator(".runs-table tbody tr:visible th")
    frame.get_by_role("button", name="ran for").click()
    assert frame.locator("[aria-sort]").get_attribute("aria-sort") == "ascending"
    frame.get_by_label("Filter the runs").fill("lr-")
    assert sorted(names.all_inner_texts()) == [f"{SWEEP}/lr-{number}" for number in range(5)]
    assert "5 of 6 runs" in body(page)
    frame.get_by_label("Filter the runs").fill("mine")
    frame.get_by_label("Compare mine").check()
    frame.get_by_label("Filter the runs").fill("")
    frame.get_by_label(f"Compare {SWEEP}/lr-3").check()
    compared = frame.locator("#comparison")
    compared.get_by_text("Settings that differ").wait_for()
    assert re.search(r"cores\s+16\s+\d+\n", compared.inner_text())
    assert re.search(
        r"\ndecode\b.*16 ms, 2 parallel, train.py:12, bottleneck", compared.inner_text()
    )
    assert "compare%3Drun-" in page.url

    frame.locator(".runs-table").get_by_role("link", name=f"{SWEEP}/lr-3").click()
    wait_until(lambda: "Training report" in body(page) and "runs compared" not in body(page))
    assert f"gpukit.run={SWEEP}%2Flr-3" in page.url
    assert report_frame(page).locator(".run:target h2").inner_text() == "lr-3"
    picked = page.frame_locator("iframe").get_by_label("Runs in").locator("option:checked")
    assert re.fullmatch(r"….*-with-resnet50/lr-3", picked.inner_text())
    assert picked.get_attribute("title") == f"{SWEEP}/lr-3"
    page.go_back()
    wait_until(lambda: "Settings that differ" in body(page))
    page.go_back()
    wait_until(lambda: "runs compared" in body(page) and "Settings that differ" not in body(page))
    assert page.errors == []


def test_the_profile_tab_shows_steps_and_what_held_them_up_and_its_other_tools_open(watched, page):
    watched.end()
    (run,) = wait_until(lambda: watched.profile("runs"))
    (host,) = watched.profile("hosts", run=run, tag="overview_page")
    overview = watched.profile("data", run=run, tag="overview_page", host=host["hostname"])
    assert overview[3]["p"]["bottleneck"] not in ("", "unknown")
    analysis = watched.profile("data", run=run, tag="input_pipeline_analyzer", host="")
    assert len(analysis[1]["rows"]) == 8  # of ten: xprof leaves out the first and the last
    memory = watched.profile("data", run=run, tag="memory_profile", host=host["hostname"])
    assert memory["memoryProfilePerAllocator"]

    def shown(tool):
        page.goto(profile_page(watched.address, run, tool, host["hostname"]))
        return page.frame_locator("iframe[src*='profile'], iframe")

    frame = shown("input_pipeline_analyzer")
    frame.get_by_text("input-bound because").wait_for()
    assert frame.get_by_text(run, exact=False).first.is_visible()
    average = re.search(r"Average: ([\d.]+) ms", frame.locator("body").inner_text())
    assert average
    assert float(average[1]) > 1
    for tool, words in {"memory_profile": "Memory ID", "trace_viewer@": "/host:CPU"}.items():
        frame = shown(tool)
        if tool == "trace_viewer@":
            frame = frame.frame_locator("iframe")
        frame.get_by_text(words).locator("visible=true").first.wait_for()
        assert "no memory activity" not in frame.locator("body").inner_text()


def test_the_report_opens_from_a_file_without_a_network(watched, page, tmp_path):
    watched.end()
    file = tmp_path / "report.html"
    command = [sys.executable, "-m", "keras_gpukit", "report", watched.log_dir, "--out", file]
    subprocess.run(command, check=True, timeout=DEADLINE_S, capture_output=True)
    heights = "Array.from(document.querySelectorAll('.plot'), (plot) => plot.clientHeight)"
    for scheme, width in (("light", 1300), ("dark", 375)):
        page.asked.clear()
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(file.as_uri())
        wait_for_charts(page)
        assert VERDICT in page.inner_text("body")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        before = page.evaluate(heights)
        resize(page, width - 50, 700)
        # Legends of more lines make a chart higher.
        assert all(now >= old for now, old in zip(page.evaluate(heights), before, strict=True))
        assert_background(page, light=scheme == "light")
        assert page.errors == []
        assert [url for url in page.asked if not url.startswith("data:")] == [file.as_uri()]


def body(page) -> str:
    """The text of the report in the tab, empty without one."""
    frame = report_frame(page)
    try:
        return frame.inner_text("body") if frame else ""
    except Error:  # a newer one has taken its place
        return ""


def assert_background(page, *, light: bool) -> None:
    """Checks that a page, or a frame, is light or dark."""
    wait_until(lambda: all((part > 200) == light for part in page.evaluate(BACKGROUND)))


def steps_told(page) -> str | None:
    """The figure "steps" of the report in the tab."""
    result = re.search(r"^steps\s+([\d,]+)$", body(page), re.MULTILINE)
    return result[1] if result else None
