"""A process in a terminal of ours: what it draws can be read, keys pressed, the window resized."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable

import pyte
from tests.support.manifest_tables import TESTS

ROOT = TESTS.parent


class Terminal:
    """A process whose terminal is ours, and the screen that its output draws."""

    def __init__(self, arguments: list[str], columns: int, lines: int = 24) -> None:
        self._controller, terminal = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._set_size(columns, lines)
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": ""}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            arguments,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
        os.close(terminal)

    def _set_size(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, size)

    def resize(self, columns: int, lines: int) -> None:
        self._set_size(columns, lines)
        self.screen.resize(lines, columns)
        os.killpg(self.process.pid, 28)  # SIGWINCH

    def press(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def wait_until(self, is_there: Callable[[list[str]], bool], seconds: float = 60.0) -> list[str]:
        """Reads until the screen is as expected: output decides, and not a pause."""
        until = time.monotonic() + seconds
        while not is_there(list(self.screen.display)):
            left = max(0.0, until - time.monotonic())
            ready, _, _ = select.select([self._controller], [], [], left)
            assert ready, "it never came:\n" + "\n".join(self.screen.display)
            self._stream.feed(os.read(self._controller, 65_536))
        return list(self.screen.display)

    def wait_for(self, text: str) -> list[str]:
        return self.wait_until(lambda screen: any(text in line for line in screen))

    def end(self) -> int:
        """What is still written must be read, or the process waits for it."""
        while self.process.poll() is None:
            if select.select([self._controller], [], [], 0.1)[0]:
                try:
                    os.read(self._controller, 65_536)
                except OSError:
                    break
        return self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._controller)
