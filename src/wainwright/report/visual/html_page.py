"""A report as one HTML file: the page with its data inside, and no reference to anything else."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from wainwright.report.visual.story import Report

DATA_MARK: Final = "{{report}}"
UNSAFE: Final = re.compile(r"[<>&]|[^\x20-\x7e]")
"""What could end the element that holds the data or begin another one, and all that is not ASCII:
whatever reads the file, and however, finds the same data."""

POLICY: Final = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
FILE_POLICY: Final = "default-src 'none';"
LIVE_POLICY: Final = "default-src 'none'; connect-src 'self';"


@cache
def _page() -> tuple[str, str]:
    """What is before the data, and after."""
    text = files("wainwright.report.visual").joinpath("page.html").read_text(encoding="utf-8")
    before, _, after = text.partition(DATA_MARK)
    return before, after


def render_page(report: Report) -> str:
    """Works from a file:// address; `scripts/build_page.py` builds the page."""
    before, after = _page()
    return f"{before}{embed(report)}{after}"


def render_live_page(report: bytes) -> str:
    """The page of a server, which may ask that server for more; `report` is the JSON."""
    before, after = _page()
    before = before.replace(FILE_POLICY, LIVE_POLICY, 1)
    return f"{before}{_embed_json(report)}{after}"


def live_policy() -> str:
    """The Content-Security-Policy of such a page."""
    found = POLICY.search(_page()[0])
    assert found is not None
    return found[1].replace(FILE_POLICY, LIVE_POLICY, 1)


def embed(report: Report) -> str:
    """The JSON of the report, as it may stand inside a script element."""
    return _embed_json(msgspec.json.encode(report))


def _embed_json(report: bytes) -> str:
    return UNSAFE.sub(_escape, report.decode())


def _escape(found: re.Match[str]) -> str:
    """As JSON writes it, characters beyond the first plane as two."""
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True)
    )
