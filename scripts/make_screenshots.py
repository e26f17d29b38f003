"""Takes the pictures of docs/images in a real Chromium; `make screenshots`.

python scripts/make_screenshots.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
WAIN = Path(sys.executable).with_name("wain")
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
REPORTS = {
    "simulate": ("simulate", "examples/sale-day/scenario.yaml"),
    "consolidate": ("consolidate", "examples/consolidate"),
}


class Picture(NamedTuple):
    name: str
    report: str
    scheme: str
    moment: float | None = None
    """Seconds or steps; None: where the page opens."""
    keys: tuple[str, ...] = ()
    """Pressed in the picture of the cluster, to select something."""


PICTURES = (
    Picture("report", "simulate", "light"),
    Picture("report-dark", "simulate", "dark", 15.8 * 3600),
    Picture("report-node", "simulate", "light", 14.8 * 3600, ("ArrowDown", "ArrowDown")),
    Picture("report-consolidate", "consolidate", "light", 0.0, ("ArrowRight",)),
)


def make_page(arguments: tuple[str, ...], folder: Path) -> Path:
    file = folder / f"{len(list(folder.iterdir()))}.html"
    command = [str(WAIN), *arguments, "-o", "html"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    file.write_text(done.stdout, encoding="utf-8")
    return file


def take(browser: Browser, picture: Picture, page_file: Path) -> Path:
    context = browser.new_context(
        viewport={"width": 1360, "height": 850},
        color_scheme="dark" if picture.scheme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(page_file.as_uri())
    if picture.moment is not None:
        page.locator("#moment").evaluate(
            "(it, at) => { it.value = at; it.dispatchEvent(new Event('input')); }", picture.moment
        )
    for key in picture.keys:
        page.locator("#picture-0").press(key)
    page.wait_for_timeout(500)
    file = IMAGES / f"{picture.name}.png"
    page.screenshot(path=file)
    context.close()
    return file


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = {name: make_page(each, Path(folder)) for name, each in REPORTS.items()}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for picture in PICTURES:
            file = take(browser, picture, pages[picture.report])
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
        browser.close()


if __name__ == "__main__":
    main()
