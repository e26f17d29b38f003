"""Counts the source files that run on four paths through the code: how far must one read?

`python -m scripts.trace_files` counts them, `--list` names them too. A file counts when one of its
functions runs between the start and the end of the path; importing it does not count. A command
runs once before it is recorded: it imports some modules while it runs, and the bodies of their
classes are calls too.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from click.testing import CliRunner
from tests.support.aws_provider import ProviderScene, node_claim, run_scene

from wainwright.cli.main import wain

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = str(ROOT / "src" / "wainwright") + "/"
EXAMPLE: Final = ROOT / "examples" / "reserved-then-spot"
TOO_LARGE: Final = """
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: shop}
spec:
  containers: [{name: main, image: main, resources: {requests: {cpu: "900"}}}]
"""

Executed = set[str]


@contextmanager
def record_files(executed: Executed) -> Iterator[None]:
    def on_event(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCES) and frame.f_code.co_name != "<module>":
            executed.add(name.removeprefix(SOURCES))

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


def plan_a_pod(executed: Executed) -> None:
    """A pod from YAML to a planned NodeClaim."""
    _run_twice(executed, "plan", str(EXAMPLE), "-o", "json")


def explain_a_pod(executed: Executed) -> None:
    """The reason of an unschedulable pod, to the terminal."""
    _run_twice(executed, "plan", str(EXAMPLE / "nodepool.yaml"), "-", given=TOO_LARGE)


def _run_twice(executed: Executed, *arguments: str, given: str | None = None) -> None:
    CliRunner().invoke(wain, arguments, given, catch_exceptions=False)
    with record_files(executed):
        CliRunner().invoke(wain, arguments, given, catch_exceptions=False)


def launch_a_claim(executed: Executed) -> None:
    """A launch, from NodeClaim to CreateFleet and back."""
    _launch(executed, lambda name: not name.startswith("emulator/"))


def create_a_fleet(executed: Executed) -> None:
    """A CreateFleet request through the emulator."""
    _launch(executed, lambda name: name.startswith("emulator/"))


def _launch(executed: Executed, wanted: Callable[[str], bool]) -> None:
    every: Executed = set()

    async def launch(scene: ProviderScene) -> None:
        await scene.cloud.refresh()
        with record_files(every):
            await scene.launch_one(node_claim())

    run_scene(launch)
    every.clear()
    run_scene(launch)
    executed.update(filter(wanted, every))


PATHS: Final = (plan_a_pod, explain_a_pod, launch_a_claim, create_a_fleet)


def main(arguments: list[str]) -> None:
    for path in PATHS:
        executed: Executed = set()
        path(executed)
        print(f"{len(executed):4} files executed: {path.__doc__}")
        for name in sorted(executed) if "--list" in arguments else ():
            print(f"       {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
