"""The report in a real Chromium: cursor and zoom, printing, small screens, accessibility."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.browsing import needed_chromium, resize, serious_violations, wait_until
from helpers.recorded_profiles import write_profile
from helpers.recorded_runs import BEGAN_S, SUMMARY, run_lines, with_validation, write_lines
from helpers.summaries import series_of_points

from keras_gpukit.records import MOST_COMPARED, Ceilings, StepFlops
from keras_gpukit.reports.html import render
from keras_gpukit.saved_runs.log_folder import load_report

pytestmark = pytest.mark.browser
TIMELINE, BUSY = ".plot[id$='-timeline']", ".plot[id$='-busy']"
MORE = "document.querySelectorAll('.rest > details').forEach((each) => (each.open = true))"
SCREEN = {"width": 1440, "height": 4500}
FLOPS = StepFlops({"float32": 10**12}, 10**10, ceilings=Ceilings({"TF32": 300.0}, 2000.0))


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("logs")
    lines = [
        (*line, replace(record, flops=FLOPS) if line[-1] == "summary" else record)
        for *line, record in with_validation(run_lines())
    ]
    write_lines(folder, lines)
    write_profile(folder / "train", "transformer")
    file: Path = folder / "report.html"
    file.write_text(render(load_report(folder)), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def page(report) -> Iterator[Any]:
    """One page for all: each test puts it back as it was."""
    with needed_chromium() as browser:
        page = browser.new_page(viewport=SCREEN)
        page.set_default_timeout(240_000)
        page.goto(report)
        page.locator(".plot .main-svg").first.wait_for()
        page.evaluate(MORE)
        yield page


def x_range(page: Any, plot: str) -> list[float]:
    return page.evaluate("plot => document.querySelector(plot).layout.xaxis.range", plot)


def wait_for_begin(page: Any, plot: str, begin: float) -> None:
    wait_until(lambda: x_range(page, plot)[0] == begin)


def test_charts_over_time_share_one_cursor(page):
    spot = page.locator(f"{TIMELINE} .nsewdrag").first.bounding_box()
    page.mouse.move(spot["x"] + spot["width"] / 4, spot["y"] + 20)
    page.mouse.move(spot["x"] + spot["width"] / 4 + 5, spot["y"] + 25, steps=3)
    for plot in (TIMELINE, BUSY):
        result = page.locator(f"{plot} .hoverlayer .legend")
        result.wait_for()
        assert "epoch 1" in (result.text_content() or "")
    here, there = (page.locator(f"{plot} .legendtitletext") for plot in (TIMELINE, BUSY))
    # Each chart has readings of its own, a second apart at most.
    places = [float(each.text_content().split()[0]) for each in (here, there)]
    assert places[0] == pytest.approx(places[1], abs=1.5)
    page.mouse.move(5, 5)


def test_charts_over_time_share_one_zoom_and_can_be_put_back(page):
    whole = x_range(page, BUSY)
    zoom = "plot => Plotly.relayout(document.querySelector(plot), {'xaxis.range': [10, 20]})"
    page.evaluate(zoom, TIMELINE)
    wait_for_begin(page, BUSY, 10)
    assert x_range(page, BUSY) == [10, 20]
    button = page.get_by_role("button", name="Show the whole run").first
    button.click()
    wait_for_begin(page, BUSY, 0)
    assert x_range(page, BUSY) == whole
    assert not button.is_visible()


def test_code_is_copied_with_one_click(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy ds.cache()").first.click()
    wait_until(lambda: page.evaluate("navigator.clipboard.readText()") == "ds.cache()")


def test_a_long_table_is_filtered_by_words(page):
    table = page.locator(".filtered").first
    table.evaluate("table => table.closest('details').open = true")
    shown = table.locator("tbody tr:not([hidden])")
    assert shown.count() == 3
    table.locator("input").fill("dense matmul")
    assert shown.count() == 1
    assert table.locator("[role=status]").inner_text() == "1 of 3 rows"
    # What the page shows when it was brought up to date is filtered too.
    page.evaluate(
        "document.querySelectorAll('.filtered tr').forEach((row) => (row.hidden = false))"
    )
    page.evaluate("document.dispatchEvent(new CustomEvent('gpukit:updated'))")
    assert shown.count() == 1
    table.locator("input").fill("")
    assert shown.count() == 3
    table.evaluate("table => (table.closest('details').open = false)")


def test_two_runs_that_are_picked_are_compared_as_python_compared_them(page, tmp_path):
    steps = [25.0 + 0.1 * (place % 3) for place in range(20)]
    for number in range(MOST_COMPARED + 1):
        series = series_of_points("step/time_ms", [each + 5 * (number % 2) for each in steps])
        step_s = 0.025 + 0.005 * (number % 2)
        rate = replace(SUMMARY.throughput, step_time_s=step_s, examples_per_s=32 / step_s)
        summary = replace(SUMMARY, series=(series,), throughput=rate)
        lines = run_lines(1, summary=summary, began_s=BEGAN_S + number)
        write_lines(tmp_path / f"run {number:02}", lines)
    file = tmp_path / "report.html"
    file.write_text(render(load_report(tmp_path)), encoding="utf-8")
    picked = page.context.browser.new_page()
    picked.goto(file.as_uri())
    for name in ("run 19", "run 18"):  # the older one is the first, in whichever order
        picked.get_by_label(f"Compare {name}").check()
    compared = picked.locator("#comparison")
    headline = compared.locator(".headline").inner_text()
    assert headline.startswith("run 19 is 1.2× slower than run 18: ")
    row = compared.get_by_role("row", name="step time")
    assert row.locator(".worse").inner_text() == "worse"
    assert compared.locator("thead").first.inner_text().split("\t")[1:3] == ["run 18", "run 19"]
    picked.get_by_label("Compare run 00").check()
    assert "For others: keras-gpukit compare" in compared.inner_text()
    compared.get_by_role("button", name="Close").click()
    assert compared.inner_text() == ""
    picked.close()


def test_printed_are_verdict_two_charts_and_findings(page):
    """Findings are open, scroll boxes too, and charts fit the paper."""
    closed = page.locator(".finding:not([open])").count()
    assert closed
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".finding:not([open])").count() == 0
    assert page.locator(".run").first.locator("figure:visible").count() == 2
    boxes = "document.querySelectorAll('.scroll').values()"
    for side in ("Height", "Width"):
        cut = f"{boxes}.filter((box) => box.scroll{side} - box.client{side} > 1).toArray().length"
        assert page.evaluate(cut) == 0
    widths = "[...document.querySelectorAll('.plot .main-svg')].map((svg) => svg.clientWidth)"
    assert max(page.evaluate(widths)) <= 703
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    page.set_viewport_size(SCREEN)
    assert page.locator(".finding:not([open])").count() == closed


def test_in_a_notebook_the_frame_draws_its_charts_and_its_links_stay_within_it(page, tmp_path):
    write_lines(tmp_path / "logs", run_lines())
    notebook = tmp_path / "notebook.html"
    shown = load_report(tmp_path / "logs")._repr_html_()
    notebook.write_text(f"<!doctype html><title>Notebook</title>{shown}", encoding="utf-8")
    around = page.context.browser.new_page()
    around.set_default_timeout(240_000)
    around.goto(notebook.as_uri())
    frame = around.frame_locator("iframe")
    frame.locator(".plot .main-svg").first.wait_for()
    frame.locator("p.links a[href^='#']").first.click()
    inside = around.frames[1]
    assert inside.evaluate("document.activeElement.id || location.hash")
    assert inside.locator(".plot .main-svg").count() > 3
    assert around.url == notebook.as_uri()
    # The page cannot reach the notebook around it.
    reach = "() => { try { return parent.document.title } catch { return null } }"
    assert inside.evaluate(reach) is None
    around.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 375)])
def test_axe_finds_no_serious_violation(page, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 4500})
    opened = "document.querySelectorAll('details').forEach((each) => (each.open = {}))"
    page.evaluate(opened.format("true"))
    found = serious_violations(page)
    page.evaluate(opened.format("false"))
    page.emulate_media(color_scheme="light")
    assert found == []


def test_words_of_charts_are_legible_on_a_phone(page):
    page.evaluate(MORE)
    resize(page, 375, 4500)
    words = page.evaluate(
        """[...document.querySelectorAll('.plot text')]
        .filter((text) => text.textContent.trim() && text.getClientRects().length)
        .map((text) => {
          const plot = text.closest('.plot').getBoundingClientRect();
          const box = text.getBoundingClientRect();
          const size = parseFloat(getComputedStyle(text).fontSize);
          return [text.textContent, size, plot.left - box.left, box.right - plot.right];
        })"""
    )
    assert len(words) > 50
    assert [word for word in words if word[1] < 11] == []
    assert [word for word in words if max(word[2:]) > 2] == []
    # No legend lies over what is drawn, and no plotting area is flattened by one.
    plots = page.evaluate(
        """[...document.querySelectorAll('.plot:has(.infolayer .legend)')].map((plot) => {
          const area = plot.querySelector('.nsewdrag').getBoundingClientRect();
          const legend = plot.querySelector('.infolayer .legend').getBoundingClientRect();
          return [plot.id, area.top - legend.bottom, area.height];
        })"""
    )
    assert len(plots) > 5
    assert [plot for plot in plots if plot[1] < 0 or plot[2] < 70] == []
    page.set_viewport_size(SCREEN)
