"""The steps of the Dockerfile, run in a clean folder: there need not be a container engine. They
build the wheel and install it into a clean environment, so that is shown as well.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from scripts.image_steps import ROOT, Image, build_image, read_steps

STEPS = read_steps((ROOT / "Dockerfile").read_text("utf-8"))
EXAMPLE = ROOT / "examples" / "reserved-then-spot"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def image(folder: Path) -> Image:
    return build_image(folder)


def run(image: Image, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """As the image would be, with its environment and nothing of the caller's."""
    return subprocess.run(
        [*image.entry_point, *arguments],
        env=image.environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_prints_its_version(image: Image) -> None:
    ended = run(image, "--version")
    assert ended.returncode == 0, ended.stderr
    assert "0.1.0" in ended.stdout


def test_it_plans_with_the_data_that_it_carries(image: Image, folder: Path) -> None:
    before = written_files(folder)
    ended = run(image, "plan", str(EXAMPLE), "-o", "json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["nodeClaims"]
    assert written_files(folder) == before, "the root file system of the pod is read-only"


def written_files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_it_has_a_command_for_the_chart_to_start(image: Image) -> None:
    ended = run(image, "run", "--provider=aws")
    assert ended.returncode == 2
    assert "the name of the cluster is not set" in ended.stderr


def test_the_wheel_has_every_file_of_the_sources(image: Image, folder: Path) -> None:
    assert image.entry_point
    (wheel,) = (folder / "build" / "dist").glob("*.whl")
    there = {name for name in ZipFile(wheel).namelist() if name.startswith("wainwright/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert there == {name.removeprefix("src/") for name in tracked}


def test_nothing_can_be_installed_into_it(image: Image, folder: Path) -> None:
    assert image.entry_point
    python = folder / "opt" / "wainwright" / "bin" / "python"
    ended = subprocess.run([str(python), "-m", "pip"], capture_output=True, text=True, check=False)
    assert "No module named pip" in ended.stderr


def test_it_is_started_by_nobody_who_may_do_anything() -> None:
    users = [each.argument for each in STEPS if each.instruction == "USER"]
    assert users == ["65532:65532"]


def test_packages_come_by_their_hashes_or_from_the_wheel() -> None:
    installs = [each.argument for each in STEPS if " pip install " in each.argument]
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


def test_only_the_sources_of_the_wheel_are_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[1] == "*"
    copied = [
        source
        for step in STEPS
        if step.instruction == "COPY" and "--from" not in step.argument
        for source in step.argument.split()[:-1]
    ]
    allowed = {each.removeprefix("!") for each in ignored if each.startswith("!")}
    assert {each.replace("run.txt", "*.txt").replace("build.txt", "*.txt") for each in copied} == (
        allowed
    )
