"""Whether the pictures of docs/images show today's page; `make screenshots` takes them anew.

A digest of what each picture is made from is kept beside them: of files, and of the words in the
report that it shows. A picture itself differs by a pixel from one machine to the next.

    python scripts/picture_digests.py
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
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
WAIN: Final = Path(sys.executable).with_name("wain")
REPORTS: Final[dict[str, tuple[str, ...]]] = {
    "simulate": ("simulate", f"{SALE_DAY}/scenario.yaml"),
    "consolidate": ("consolidate", "examples/consolidate"),
}
"""Commands whose reports the pictures show; the demo is the sale day too."""
WORD: Final = re.compile(r"\b(?=[a-z]*[aeiou])[a-z]{2,}\b", re.IGNORECASE)
"""With a vowel, which the random ends of pod names do not have."""

Words = Mapping[str, AbstractSet[str]]
"""Those of each report. Its numbers may change, as long as they are said in the same words."""


@cache
def report_words() -> Words:
    return {name: frozenset(WORD.findall(_report(command))) for name, command in REPORTS.items()}


def _report(command: tuple[str, ...]) -> str:
    arguments = [str(WAIN), *command, "-o", "html"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"wain {' '.join(command)} gave no report: {done.stderr}")
    return done.stdout


def report_of(picture: str) -> str:
    return "consolidate" if picture == "report-consolidate" else "simulate"


def current_digests(root: Path, words: Words) -> dict[str, str]:
    return {
        name: _digest(root, sources, words[report_of(name)])
        for name, sources in sorted(SOURCES.items())
    }


def _digest(root: Path, sources: tuple[str, ...], words: AbstractSet[str]) -> str:
    whole = hashlib.sha256(" ".join(sorted(words)).encode())
    for file in _files(root, sources):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
    return whole.hexdigest()


def _files(root: Path, sources: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        path = root / source
        yield from sorted(path.rglob("*.yaml")) or [path]


def outdated(recorded: Mapping[str, str], root: Path, words: Words) -> list[str]:
    """The pictures whose sources have changed since they were taken."""
    current = current_digests(root, words)
    return [name for name, digest in current.items() if recorded.get(name) != digest]


def recorded_digests() -> dict[str, str]:
    digests: dict[str, str] = json.loads(DIGESTS.read_text(encoding="utf-8"))
    return digests


def write_digests() -> None:
    digests = current_digests(ROOT, report_words())
    DIGESTS.write_text(f"{json.dumps(digests, indent=2)}\n", encoding="utf-8")


def main() -> None:
    names = outdated(recorded_digests(), ROOT, report_words())
    if names:
        files = ", ".join(f"docs/images/{name}.png" for name in names)
        sys.exit(f"{files}: what they show has changed since; run: make screenshots")


if __name__ == "__main__":
    main()
