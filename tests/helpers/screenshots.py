"""The charts of the docs, taken in Chromium of two real runs of the demo.

make screenshots
"""

import io
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from helpers.browsing import chromium, fit, profile_page, report_frame, tensorboard, wait_until
from helpers.processes import ROOT

SIZE = {"width": 1280, "height": 860}
TALL = {"width": 1280, "height": 1700}
FIT_S = 25


def train(logs: Path, images: Path) -> None:
    """Both pipelines of the demo, one after the other."""
    for pipeline in ("as_written", "as_advised"):
        with fit(logs / pipeline, pipeline, images):
            wait_until(lambda log_dir=logs / pipeline: list(log_dir.rglob("*.xplane.pb")))
            time.sleep(FIT_S)


def take(logs: Path, charts: Path) -> None:
    """Takes all charts of runs."""
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

        page = browser.new_page(viewport=TALL)
        page.goto(report.as_uri())
        page.locator(".plot .main-svg").first.wait_for()
        page.screenshot(path=charts / "report.png")
        page.close()


def draw_verdict(charts: Path) -> None:
    """Draws a panel that `benchmarks/everyday.py` kept, in the colours of a terminal."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    results = json.loads((ROOT / "benchmarks/results/everyday.json").read_text(encoding="utf-8"))
    shown = Text("\n".join(results["situations"]["waiting_map"]["panels"]["with"]))
    shown.highlight_words(("Verdict", "Why", "Next"), "bold")
    cause = r"(?<=Verdict )\d+ %.*?(?= *│)|(?<=│ {9})\(waiting_map\.py:\d+\)"
    shown.highlight_regex(cause, "bold red")
    shown.highlight_regex(r"\(input-bound\)|Also.*?(?=│)|(?<=│ )(60 steps|s, input).*?(?=│)", "dim")
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True)
    console.print(shown)
    # A page of the site fetches nothing, so the reader's own fonts are used.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    title = "keras-gpukit run waiting_map.py"
    console.save_svg(str(charts / "verdict.svg"), title=title, code_format=form, unique_id="v")


def main(charts: Path) -> None:
    charts.mkdir(parents=True, exist_ok=True)
    draw_verdict(charts)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, "demo")  # pages show the end of where the runs are
        train(folder / "logs", folder / "images")
        take(folder / "logs", charts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
