"""`wain emulator` as a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIN = Path(sys.executable).with_name("wain")


class Emulating:
    """A process, and the line that it printed."""

    def __init__(self, child: "subprocess.Popen[str]", said: dict[str, Any]) -> None:
        self.child = child
        self.said = said

    def stop(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to standard error."""
        self.child.terminate()
        rest, errors = self.child.communicate(timeout=30)
        assert rest == "", "more than one line was printed"
        return self.child.returncode, errors


@contextmanager
def emulating(*flags: str) -> Iterator[Emulating]:
    """Runs until the block ends, on a port that is free."""
    child = subprocess.Popen(
        [WAIN, "emulator", "--port", "0", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, child.communicate(timeout=30)[1]
        yield Emulating(child, json.loads(line))
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()
