"""Carries out the steps of the Dockerfile without a container engine, in a folder of its own.

`image_steps.py FOLDER` runs each WORKDIR, COPY and RUN of the first stage with the folder in place
of the root of the image, and then its entry point with `--version`. What a base image would bring
(a Python, a C library) is this machine's.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
IMAGE_FOLDERS: Final = ("/build", "/opt/wainwright")
"""Where the image has its files; everything else is of the base image."""


class Step(NamedTuple):
    stage: int
    instruction: str
    argument: str


def read_steps(dockerfile: str) -> list[Step]:
    steps, stage = [], -1
    for line in dockerfile.replace("\\\n", " ").splitlines():
        instruction, _, argument = line.strip().partition(" ")
        if not instruction or instruction.startswith("#"):
            continue
        stage += instruction == "FROM"
        steps.append(Step(stage, instruction, argument))
    return steps


class Image:
    """The files of an image in a folder, and how it is started."""

    def __init__(self, folder: Path, steps: list[Step]) -> None:
        self._folder, self._steps = folder, steps
        self._work = folder
        for each in IMAGE_FOLDERS:
            self._inside(each).mkdir(parents=True)

    def build(self) -> None:
        for step in self._steps:
            if step.stage == 0 and step.instruction != "FROM":
                {"WORKDIR": self._change_folder, "COPY": self._copy, "RUN": self._run}[
                    step.instruction
                ](step.argument)

    @property
    def entry_point(self) -> list[str]:
        (argument,) = (each.argument for each in self._steps if each.instruction == "ENTRYPOINT")
        return [self._replaced(each) for each in json.loads(argument)]

    @property
    def environment(self) -> dict[str, str]:
        """Of the last stage, and nothing of the caller's."""
        pairs = (each.argument.partition("=") for each in self._steps if each.instruction == "ENV")
        return {name: self._replaced(value) for name, _, value in pairs}

    def _inside(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def _replaced(self, text: str) -> str:
        for each in IMAGE_FOLDERS:
            # Not within a path such as requirements/build.txt.
            text = re.sub(rf"(?<![\w/]){each}(?![\w.])", str(self._inside(each)), text)
        return text

    def _change_folder(self, path: str) -> None:
        self._work = self._inside(path)

    def _copy(self, argument: str) -> None:
        *sources, target = argument.split()
        for source in (ROOT / each for each in sources):
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(source, self._work / target, ignore=ignored)
            else:
                (self._work / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, self._work / target)

    def _run(self, argument: str) -> None:
        words = [
            found
            for word in shlex.split(self._replaced(argument))
            for found in (sorted(map(str, self._work.glob(word))) if "*" in word else [word])
        ]
        if words[0] == "python":
            words[0] = getattr(sys, "_base_executable", sys.executable)
        ended = subprocess.run(words, cwd=self._work, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"RUN {argument}\n{ended.stdout}{ended.stderr}")


def build_image(folder: Path) -> Image:
    image = Image(folder, read_steps((ROOT / "Dockerfile").read_text(encoding="utf-8")))
    image.build()
    return image


def main() -> int:
    image = build_image(Path(sys.argv[1]).resolve())
    command = [*image.entry_point, "--version"]
    return subprocess.run(command, env=image.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
