"""One Chromium for the tests of a module; where there is none they are skipped.

Not for the whole session: as long as Playwright runs, no test of the same thread can run an event
loop of its own. For the same reason `wain` is started as a process here.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str:
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        reason = "no Chromium on this machine: apt-get install chromium"
        if os.environ.get("WAIN_REQUIRE_CHROMIUM"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


class OpenedPages:
    """Opens pages in windows of their own, and remembers what went wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.problems: list[str] = []
        self.requests: list[str] = []

    def open(
        self, file: Path | str, *, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> Page:
        """A file, or the address of a server."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(file if isinstance(file, str) else file.as_uri())
        page.wait_for_selector("#details-body *")
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(text)


@pytest.fixture
def pages(browser: Browser) -> Iterator[OpenedPages]:
    """Every page must have come without a console error and without a request to elsewhere."""
    opened = OpenedPages(browser)
    yield opened
    for context in browser.contexts:
        context.close()
    assert opened.problems == []
    assert [url for url in opened.requests if not url.startswith("file://")] == []


class LivePages(OpenedPages):
    """Pages of servers."""

    may_fail = False
    """Whether connections are lost on purpose, of which a browser complains by itself."""

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser)
        self.origins: set[str] = set()

    def serve(self, address: str, *, width: int = 1440, height: int = 900) -> Page:
        self.origins.add(_origin(address))
        return self.open(address, width=width, height=height)


@pytest.fixture
def live_pages(browser: Browser) -> Iterator[LivePages]:
    """No page may send a request to another server than its own."""
    opened = LivePages(browser)
    yield opened
    for context in browser.contexts:
        context.close()
    assert opened.problems == [] or opened.may_fail
    assert [url for url in opened.requests if _origin(url) not in opened.origins] == []


def _origin(url: str) -> str:
    return "/".join(url.split("/")[:3])
