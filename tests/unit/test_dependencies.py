"""What is installed is what is imported: the lock files, and the page that explains them."""

import re
import tomllib

from tests.support.manifest_tables import TESTS

ROOT = TESTS.parent
PINNED = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)


def locked(name: str) -> set[str]:
    return set(PINNED.findall((ROOT / "requirements" / f"{name}.txt").read_text("utf-8")))


def required() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return {re.split(r"[<>=~]", each)[0].lower() for each in project["dependencies"]}


def never_imported() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^NEVER_IMPORTED := (.*)$", makefile, re.MULTILINE)[0].split())


def test_what_is_never_imported_is_not_installed() -> None:
    assert len(never_imported()) == 9
    assert not locked("run") & (never_imported() | {"boto3", "setuptools"})
    assert locked("build") == {"setuptools"}


def test_every_dependency_is_locked_and_explained() -> None:
    assert required() <= locked("run")
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    rows = set(re.findall(r"^\| ([A-Za-z0-9-]+) \| ", text, re.MULTILINE)) - {"package"}
    assert {name.lower() for name in rows} == required()
    assert f"{len(locked('run'))} are locked" in text
