"""The report page in a real Chromium: how long a large cluster takes to open and to scrub."""

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.measure import median_seconds, print_row
from wainwright.report.visual.html_page import render_page

NODES: Final = 5_000
PODS_PER_NODE: Final = 10
FRAMES: Final = 100
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run")


def run() -> None:
    from tests.support.large_report import large_report

    print(f"the report page: {NODES:,} nodes, {NODES * PODS_PER_NODE:,} pods")
    report = large_report(NODES, PODS_PER_NODE)
    seconds = median_seconds(lambda: render_page(report), runs=3)
    text = render_page(report)
    size = f"{len(text.encode()) / 2**20:.1f} MiB"
    print_row("written by wain", f"{seconds:.2f} s", size)
    chromium = shutil.which("chromium")
    if chromium is None:
        print("  there is no Chromium on this machine: apt-get install chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.html"
        file.write_text(text, encoding="utf-8")
        _measure(file, chromium)


def _measure(file: Path, chromium: str) -> None:
    from playwright.sync_api import sync_playwright
    from tests.support.measured_page import measured_opening, measured_scrubbing

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(file.as_uri())
        opened, spent = measured_opening(page)
        drawn, drawing = measured_scrubbing(page, FRAMES)
        browser.close()
    median = statistics.median(drawn)
    print_row("opened", f"{opened / 1000:.2f} s", f"{spent / 1000:.2f} s of processor time")
    print_row("drawn in a frame, median", f"{median:.1f} ms", "at most 33 ms")
    print_row("drawn in a frame, slowest", f"{max(drawn):.1f} ms", "")
    print_row("processor time of a frame", f"{drawing / FRAMES:.1f} ms", "")
