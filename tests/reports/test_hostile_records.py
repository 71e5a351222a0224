"""Records and profiles from elsewhere cannot run a script in the page, seen in a real Chromium."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import needed_chromium, report_frame, tensorboard, wait_until
from helpers.hostile import HOSTILE, filled
from helpers.recorded_runs import BEGAN_S, run_lines, write_lines
from helpers.synthetic_xplane import COMPUTE, Capture

from keras_gpukit.records import Report, RunHeader
from keras_gpukit.reports.html import render
from keras_gpukit.saved_runs.log_folder import load_report
from keras_gpukit.saved_runs.run_lines import _KINDS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
# All that a page may run, whatever its policy would refuse.
FOREIGN = """() => [...document.querySelectorAll("*")].filter((each) =>
  each.getAttributeNames().some((name) => name.startsWith("on")
    || (/href|src|action|data$/.test(name) && /^\\s*javascript:/i.test(each.getAttribute(name))))
  || each.localName === "img" || (each.localName === "a" && each.textContent === "link")
).map((each) => each.outerHTML.slice(0, 200))"""
MEET_EACH = """() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  for (const each of document.querySelectorAll("*")) {
    each.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  }
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with needed_chromium() as launched:
        yield launched


@pytest.fixture
def page(browser) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1300, "height": 2000})
    page.set_default_timeout(240_000)
    page.dialogs = []
    page.on("dialog", lambda dialog: page.dialogs.append(dialog.message) or dialog.dismiss())
    yield page
    page.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """A log folder with hostile names: its own, all in a record, and all in a profile."""
    logs = tmp_path_factory.mktemp("logs")
    folder = logs / HOSTILE.replace("/", "\N{DIVISION SLASH}")[:200]
    (*head, _), *lines = run_lines(5)
    lines.insert(0, (*head, replace(filled(RunHeader), schema=1, time_s=BEGAN_S)))
    kinds = {kind: record for kind, record in _KINDS.items() if kind != "run"}
    lines += [(BEGAN_S + 6, 200, kind, filled(record)) for kind, record in kinds.items()]
    write_lines(folder, lines)
    capture = Capture()
    gpu = capture.gpu()
    for number in range(4):
        capture.step(number, 10.0 * number, 9.0)
        names = {"tf_op": f"{HOSTILE}:{HOSTILE}", "hlo_op": HOSTILE}
        gpu.event(COMPUTE, HOSTILE, 10.0 * number + 1, 5.0, **names)
    capture.save(folder / "gpukit")
    return logs


def assert_harmless(page: Any, frame: Any) -> None:
    frame.locator(".plot .main-svg").first.wait_for()
    frame.evaluate(MEET_EACH)
    page.wait_for_timeout(500)
    assert "onerror=" in frame.inner_text("body"), "the names are shown, as text"
    assert frame.evaluate(FOREIGN) == []
    assert frame.evaluate("window.__pwned") is None
    assert page.evaluate("window.__pwned") is None
    assert page.dialogs == []


def test_reports_of_all_fields_and_of_saved_records_stay_text(page, logs, tmp_path):
    report = filled(Report)
    # The names of figures over time are the reader's own.
    over_time = {"steps": None, "host": None, "gpus": {}, "memory": {}, "validation": None}
    run = replace(report.runs[0], **over_time)
    file = tmp_path / "report.html"
    for shown in (replace(report, runs=(run, run)), load_report(logs)):
        file.write_text(render(shown), encoding="utf-8")
        page.goto(file.as_uri())
        assert_harmless(page, page)


@pytest.mark.long  # the tab shows what the report's templates make
def test_in_the_tab_they_stay_text_too(page, logs):
    with tensorboard(logs) as address:
        page.goto(f"{address}/#gpukit")
        frame = wait_until(
            lambda: (found := report_frame(page)) and found.query_selector("h2") and found
        )
        assert_harmless(page, frame)
