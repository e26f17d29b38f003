"""Takes the pictures of docs/images; `make screenshots`.

    PYTHONPATH=. python scripts/make_screenshots.py

Pages are those of a real Chromium; `wain top` runs in a terminal, whose screen is drawn there too.
"""

import signal
import subprocess
import tempfile
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, sync_playwright
from scripts.picture_digests import REPORTS, WAIN, report_of, write_digests
from tests.support.terminal import Terminal

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


class Picture(NamedTuple):
    name: str
    scheme: str
    moment: float | None = None
    """Seconds or steps; None: where the page opens."""
    keys: tuple[str, ...] = ()
    """Pressed in the picture of the cluster, to select something."""


PICTURES = (
    Picture("report", "light"),
    Picture("report-dark", "dark", 15.8 * 3600),
    Picture("report-node", "light", 14.8 * 3600, ("ArrowDown", "ArrowDown")),
    Picture("report-consolidate", "light", 0.0, ("ArrowRight",)),
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


# A page that goes on


def take_live(browser: Browser) -> Path:
    """The demo after a zone was taken out from the page."""
    command = [str(WAIN), "serve", "--demo", "--paused", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page = browser.new_page(viewport={"width": 1360, "height": 850})
        page.goto(process.stdout.readline().partition(" ")[0])
        page.locator("#speed").select_option("3600")
        for _ in range(9):
            page.locator("#step").click()
        page.locator("#moment-text", has_text="· 9h").wait_for(timeout=600_000)
        page.locator("#speed").select_option("60")
        page.locator("#happen").click()
        for _ in range(6):
            page.locator("#step").click()
        page.locator("#moment-text", has_text="9h6m").wait_for(timeout=600_000)
        page.wait_for_timeout(500)
        file = IMAGES / "serve.png"
        page.screenshot(path=file)
        page.close()
        process.send_signal(signal.SIGTERM)
    return file


# A terminal


TERMINAL = (118, 30)
COLOURS = {
    "default": "#d7dde6", "black": "#1a212c", "red": "#f0616d", "green": "#5cc489",
    "brown": "#e0a03c", "blue": "#6ea0ff", "magenta": "#b48ef0", "cyan": "#4fc1d0",
    "white": "#e8edf4", "brightblack": "#8a97a8",
}  # fmt: skip
STYLE = (
    "body { margin: 0; background: #0c1017; } "
    "pre { display: inline-block; margin: 0; padding: 14px 18px; "
    'font: 14px/1.3 "DejaVu Sans Mono", monospace; color: #d7dde6; }'
)


def take_terminal(browser: Browser) -> Path:
    """`wain top` with the nodes of the demo."""
    terminal = Terminal([str(WAIN), "top", "--demo"], *TERMINAL)
    try:
        terminal.wait_until(lambda screen: any("quit" in line for line in screen), 600.0)
        terminal.wait_for("shop/forecast-0")
        text = "\n".join(
            "".join(map(cell, cells)).rstrip() for cells in screen_cells(terminal)
        ).rstrip()
    finally:
        terminal.press("q")
        terminal.end()
        terminal.close()
    page = browser.new_page(device_scale_factor=1)
    page.set_content(f"<style>{STYLE}</style><pre>{text}</pre>")
    file = IMAGES / "top.png"
    page.locator("pre").screenshot(path=file)
    page.close()
    return file


def screen_cells(terminal: Terminal) -> list[list[Any]]:
    columns, lines = TERMINAL
    return [[terminal.screen.buffer[y][x] for x in range(columns)] for y in range(lines)]


def cell(each: Any) -> str:
    """A character of the screen in its colours."""
    text = escape(each.data)
    foreground, background = each.fg, each.bg
    if each.reverse:
        foreground, background = background, foreground
    style = [f"color: {colour(foreground)}"] if foreground != "default" else []
    style += [f"background: {colour(background)}"] if background != "default" else []
    style += ["font-weight: 700"] if each.bold else []
    return f'<span style="{"; ".join(style)}">{text}</span>' if style else text


def colour(name: str) -> str:
    return COLOURS.get(name, f"#{name}")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = {name: make_page(each, Path(folder)) for name, each in REPORTS.items()}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for picture in PICTURES:
            show(take(browser, picture, pages[report_of(picture.name)]))
        show(take_live(browser))
        show(take_terminal(browser))
        browser.close()
    write_digests()


def show(file: Path) -> None:
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
