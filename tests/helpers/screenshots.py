"""The charts of the docs, taken in Chromium of two real runs of the demo.

make screenshots
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from helpers.browsing import chromium, fit, profile_page, report_frame, tensorboard, wait_until

SIZE = {"width": 1280, "height": 860}
TALL = {"width": 1280, "height": 1700}
PHONE = {"width": 390, "height": 844}
FIT_S = 25


def train(logs: Path, images: Path) -> None:
    """Both pipelines of the demo, one after the other."""
    for pipeline in ("as_written", "as_advised"):
        with fit(logs / pipeline, pipeline, images):
            wait_until(lambda log_dir=logs / pipeline: list(log_dir.rglob("*.xplane.pb")))
            time.sleep(FIT_S)


def take(logs: Path, charts: Path) -> None:
    """Takes all charts.

    Args:
        logs: Where the runs are.
        charts: Where the charts go.
    """
    charts.mkdir(parents=True, exist_ok=True)
    report = logs.parent / "report.html"
    command = [sys.executable, "-m", "keras_gpukit", "report", logs / "as_written", "--out", report]
    subprocess.run(command, check=True)
    with chromium() as browser, tensorboard(logs) as address:
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{address}/#gpukit")
        wait_until(lambda: report_frame(page))
        page.frame_locator("iframe").get_by_label("Runs in").select_option("as_written")
        wait_until(lambda: "folder=" in report_frame(page).url)
        report_frame(page).locator(".plot .main-svg").first.wait_for()
        page.screenshot(path=charts / "gpukit_tab.png")

        (profile,) = (logs / "as_written").rglob("*.xplane.pb")
        run, host = f"as_written/gpukit/{profile.parent.name}", profile.name.split(".")[0]
        page.goto(profile_page(address, run, "trace_viewer@", host))
        frame = page.frame_locator("iframe").frame_locator("iframe")
        frame.get_by_text("/host:CPU").locator("visible=true").first.wait_for()
        page.wait_for_timeout(3000)  # the trace is drawn on a canvas, without an event
        page.screenshot(path=charts / "profile_tab.png")
        page.close()

        for name, size, scheme in (
            ("report", TALL, "light"),
            ("report_phone_dark", PHONE, "dark"),
        ):
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(report.as_uri())
            page.locator(".plot .main-svg").first.wait_for()
            page.screenshot(path=charts / f"{name}.png")
            page.close()


def main(charts: Path) -> None:
    # The charts show where the runs are, so the folder has no name by chance.
    folder = Path(tempfile.gettempdir(), "demo")
    folder.mkdir()
    try:
        train(folder / "logs", folder / "images")
        take(folder / "logs", charts)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
