"""The pictures of the documentation show the page and the examples of today."""

import shutil
from pathlib import Path

from scripts.picture_digests import DIGESTS, PAGE, ROOT, SOURCES, outdated


def test_every_picture_was_taken_of_todays_page_and_examples() -> None:
    assert outdated() == [], "run: make screenshots"


def test_every_picture_has_a_digest() -> None:
    assert {each.stem for each in DIGESTS.parent.glob("*.png")} == SOURCES.keys()


def test_a_changed_page_makes_the_pictures_of_it_outdated(tmp_path: Path) -> None:
    copied = {source for sources in SOURCES.values() for source in sources}
    for source in (*copied, DIGESTS.relative_to(ROOT).as_posix()):
        to = tmp_path / source
        to.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, to)
    page = tmp_path / PAGE
    page.write_text(f"{page.read_text(encoding='utf-8')}<!-- new -->", encoding="utf-8")
    assert outdated(tmp_path) == [name for name in sorted(SOURCES) if PAGE in SOURCES[name]]
