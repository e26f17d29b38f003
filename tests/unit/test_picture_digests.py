"""The pictures of the documentation show the page, the examples and the words of today.

Whether they do is asked by `make check`, which makes the reports.
"""

import shutil
from pathlib import Path

from scripts.picture_digests import (
    DIGESTS,
    PAGE,
    ROOT,
    SOURCES,
    WORD,
    current_digests,
    outdated,
    recorded_digests,
    report_of,
)

WORDS = {"simulate": frozenset({"launched", "reserved"}), "consolidate": frozenset({"removed"})}


def test_every_picture_has_a_digest() -> None:
    assert {each.stem for each in DIGESTS.parent.glob("*.png")} == SOURCES.keys()
    assert recorded_digests().keys() == SOURCES.keys()


def test_a_changed_page_makes_the_pictures_of_it_outdated(tmp_path: Path) -> None:
    recorded = current_digests(ROOT, WORDS)
    for source in {source for sources in SOURCES.values() for source in sources}:
        to = tmp_path / source
        to.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copyfile
        copy(ROOT / source, to)
    assert outdated(recorded, tmp_path, WORDS) == []
    page = tmp_path / PAGE
    page.write_text(f"{page.read_text(encoding='utf-8')}<!-- new -->", encoding="utf-8")
    changed = [name for name in sorted(SOURCES) if PAGE in SOURCES[name]]
    assert outdated(recorded, tmp_path, WORDS) == changed


def test_changed_wording_makes_the_pictures_of_the_report_outdated() -> None:
    recorded = current_digests(ROOT, WORDS)
    changed = {**WORDS, "simulate": frozenset({"started", "reserved"})}
    names = [name for name in sorted(SOURCES) if report_of(name) == "simulate"]
    assert outdated(recorded, ROOT, changed) == names


def test_random_ends_of_pod_names_are_no_words() -> None:
    text = "web-5d8fctgn-gpprh was Evicted: $0.25/h saved"
    assert WORD.findall(text) == ["web", "was", "Evicted", "saved"]
