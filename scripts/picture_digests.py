"""Whether the pictures of docs/images show today's page; `make screenshots` takes them anew.

A digest of the files that each picture is made from is kept beside them: a picture itself differs
by a pixel from one machine to the next.

    python scripts/picture_digests.py
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DIGESTS: Final = ROOT / "docs" / "images" / "digests.json"
SCRIPT: Final = "scripts/make_screenshots.py"
PAGE: Final = "src/wainwright/report/visual/page.html"
SALE_DAY: Final = "examples/sale-day"
DEMO: Final = "src/wainwright/data/demo"
SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "report": (SCRIPT, PAGE, SALE_DAY),
    "report-dark": (SCRIPT, PAGE, SALE_DAY),
    "report-node": (SCRIPT, PAGE, SALE_DAY),
    "report-consolidate": (SCRIPT, PAGE, "examples/consolidate"),
    "serve": (SCRIPT, PAGE, DEMO),
    "top": (SCRIPT, "src/wainwright/report/visual/top_screen.py", DEMO),
}
"""By picture the files and folders that it is made from."""


def current_digests(root: Path = ROOT) -> dict[str, str]:
    return {name: _digest(root, sources) for name, sources in sorted(SOURCES.items())}


def _digest(root: Path, sources: tuple[str, ...]) -> str:
    whole = hashlib.sha256()
    for file in _files(root, sources):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
    return whole.hexdigest()


def _files(root: Path, sources: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        path = root / source
        yield from sorted(path.rglob("*.yaml")) or [path]


def outdated(root: Path = ROOT) -> list[str]:
    """The pictures whose sources have changed since they were taken."""
    recorded = json.loads((root / DIGESTS.relative_to(ROOT)).read_text(encoding="utf-8"))
    return [name for name, digest in current_digests(root).items() if recorded.get(name) != digest]


def write_digests() -> None:
    DIGESTS.write_text(f"{json.dumps(current_digests(), indent=2)}\n", encoding="utf-8")


def main() -> None:
    names = outdated()
    if names:
        files = ", ".join(f"docs/images/{name}.png" for name in names)
        sys.exit(f"{files}: made from files that have changed since; run: make screenshots")


if __name__ == "__main__":
    main()
