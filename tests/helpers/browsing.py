"""A real Chromium and a real TensorBoard, for the tests and the screenshots."""

import contextlib
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from helpers.processes import free_ports
from helpers.processes import wait_for as wait_until

DEADLINE_S = 240
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Each chart has the size of its place, whose height follows from its legend's lines.
CHARTS_FIT = """[...document.querySelectorAll(".plot")].every((plot) =>
  plot.closest("details:not([open])") ||
  ["clientWidth", "clientHeight"].every(
    (size) => plot.querySelector(".main-svg")?.[size] === plot[size],
  ),
)"""
# No sandbox, since CI is root; the rest keeps Chromium from looking for the network.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Where Chromium is installed, if it is."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def chromium() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(OPTIONS))
        yield browser
        browser.close()


@contextlib.contextmanager
def needed_chromium() -> Iterator:
    """A browser for a test, which is skipped without one, or fails where one is required."""
    if find_chromium() is None:
        message = "no Chromium is installed; on Debian: apt-get install chromium"
        if os.environ.get("GPUKIT_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with chromium() as browser:
        yield browser


def serious_violations(page: Any) -> list[tuple[str, str]]:
    """What axe finds on a page that keeps people from reading it: the rule, and an element."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        (each["id"], each["nodes"][0]["html"])
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def resize(page: Any, width: int, height: int) -> None:
    """Gives a page another size, and waits until its charts have theirs."""
    page.set_viewport_size({"width": width, "height": height})
    wait_for_charts(page)


def wait_for_charts(page: Any) -> None:
    """Waits until each chart that is seen is drawn in the size of its place."""
    # The page's policy forbids Playwright's own way, which compiles words in the page.
    wait_until(lambda: page.evaluate(CHARTS_FIT), what="the charts")


@contextlib.contextmanager
def tensorboard(logdir: Path, *options: str) -> Iterator[str]:
    """A TensorBoard process; gives its address."""
    [port] = free_ports()
    where = ["--logdir", str(logdir), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--load_fast=false", *where, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or _answers(address), 3 * DEADLINE_S)
        assert process.poll() is None, "TensorBoard ended"
        yield address
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def fit(log_dir: Path, pipeline: str, images: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real run that goes on meanwhile, and ends in good order."""
    log_dir.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("browsed_fit.py"), log_dir, pipeline, images],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # An allocator whose numbers can be read, as a GPU's can.
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_CPU_ALLOCATOR_USE_BFC": "true"},
    )
    try:
        yield process
        (log_dir / "end").touch()
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()


def profile_page(address: str, run: str, tool: str, host: str) -> str:
    """Where the Profile tab shows a tool."""
    return f"{address}/?run={quote(run, safe='')}&tag={quote(tool)}&host={quote(host)}#profile"


def report_frame(page) -> Any:
    """The frame with the report in the tab GPU Kit, the one that is shown; None before that."""
    from playwright.sync_api import Error

    page.wait_for_timeout(50)  # Playwright hears of new frames only while it is in a call
    for frame in page.frames:
        if "/data/plugin/gpukit/report" in frame.url:
            with contextlib.suppress(Error):  # it may be on its way out
                if "behind" not in (frame.frame_element().get_attribute("class") or ""):
                    return frame
    return None


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/data/environment", timeout=DEADLINE_S):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False
