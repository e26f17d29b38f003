"""Processes for tests: commands built from Go, child processes, free ports, or a skip; and programs
run under a given hash seed.
"""

import fcntl
import hashlib
import os
import platform
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MIN_GO_MINOR = 24  # of Go 1.x; anything newer fetches by itself the toolchain that go.mod asks for
GO_BUILD_FLAGS = ("-trimpath", "-buildvcs=false")


class MissingTool(RuntimeError):
    """A tool that the tests need is missing; the message says how to install it."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the running test, or fail it where WAIN_REQUIRE_GO=1 requires all tools."""
    # Imported here, because the rest of the module also serves programs that run without pytest.
    import pytest

    if os.environ.get("WAIN_REQUIRE_GO") == "1":
        forbidden = f"{reason} (WAIN_REQUIRE_GO=1 forbids the skip)"
        raise pytest.fail.Exception(forbidden, pytrace=False) from None
    raise pytest.skip.Exception(reason) from None


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A folder with go.mod and go.sum, and the commands that can be built from it."""

    folder: Path
    packages: Mapping[str, str]
    """Command name to the package it is built from."""
    ldflags: str = "-s -w"

    @property
    def cache(self) -> Path:
        """Where the commands of exactly these sources are, for this kind of machine."""
        digest = hashlib.sha256()
        for part in ("go.mod", "go.sum"):
            digest.update((self.folder / part).read_bytes())
        kind = f"{platform.system()}/{platform.machine()}"
        digest.update("\0".join((*GO_BUILD_FLAGS, self.ldflags, kind)).encode())
        return cache_folder() / self.folder.name / digest.hexdigest()[:12]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("WAIN_CACHE") or Path(base) / "wainwright")


def build_commands(module: GoModule, names: Iterable[str]) -> Path:
    """The folder that holds the named commands, after building those it lacks.

    Commands arrive in it by rename, so one that is there is whole, and needs neither
    Go nor the lock.
    """
    wanted = tuple(names)
    if not _missing_commands(module, wanted):
        return module.cache
    go = _go()
    module.cache.mkdir(parents=True, exist_ok=True)
    with _file_lock(module.cache / ".lock"):
        if lacking := _missing_commands(module, wanted):
            _build(go, module, lacking)
    return module.cache


def _missing_commands(module: GoModule, names: Iterable[str]) -> list[str]:
    return [name for name in names if not (module.cache / name).exists()]


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(go: str, module: GoModule, names: list[str]) -> None:
    what = " and ".join(names)
    _print_progress(
        f"building {what} from Go modules, once; about 6 minutes if Go has nothing cached"
    )
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=module.cache, prefix=".building-") as scratch:
        packages = [module.packages[name] for name in names]
        target = ("-ldflags", module.ldflags, "-o", f"{scratch}/")
        _run_go([go, "build", *GO_BUILD_FLAGS, *target, *packages], module.folder)
        for name in names:
            (Path(scratch) / _output(module.packages[name])).rename(module.cache / name)
    _print_progress(f"built {what} in {time.monotonic() - start:.0f} s")


def _output(package: str) -> str:
    """What `go build` calls the command: the last part of its path that is no version."""
    return re.sub(r"/v\d+$", "", package).rpartition("/")[2]


def _run_go(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, env=_go_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} failed in {folder}:\n{done.stderr[-4000:]}")


def _go_environment() -> dict[str, str]:
    # Without GOOS and GOARCH Go builds for this machine; set, they would put into the cache
    # commands that cannot run here.
    kept = {k: v for k, v in os.environ.items() if k not in ("GOOS", "GOARCH")}
    return kept | {"GOTOOLCHAIN": "auto", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise MissingTool(f"install Go 1.{MIN_GO_MINOR} or newer (there is none on this machine)")
    # "local" and a folder without a go.mod: ask what is installed, not what would be fetched.
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    version = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    minor = re.search(r"go1\.(\d+)", version)
    if minor is None or int(minor[1]) < MIN_GO_MINOR:
        found = version.strip() or "broken"
        raise MissingTool(
            f"install Go 1.{MIN_GO_MINOR} or newer (the one on this machine is {found})"
        )
    return go


def _print_progress(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


LOG_TAIL = 40


def note_log(error: BaseException, log: Path) -> None:
    """Adds the end of the log to an error that ends a test: it says why."""
    tail = log.read_text(encoding="utf-8").splitlines()[-LOG_TAIL:]
    error.add_note("\n".join((f"{log.name} ends with:", *tail)))


@dataclass(frozen=True)
class Process:
    """A child process and its log."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    @property
    def ended(self) -> bool:
        return self.child.poll() is not None

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-25:]
        return "\n".join([f"--- {self.name}, the end of its log:", *lines])

    def stop(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


# Whatever ends the test process, SIGKILL and a crash included, must end its children: an API
# server left behind holds 300 MB for ever. atexit does not run then, so the kernel is asked to do
# it (PR_SET_PDEATHSIG = 1, SIGKILL = 9). A few lines of Python ask, and then become the command;
# preexec_fn could ask too, but may deadlock when the parent has threads. The kernel goes by the
# *thread* that started the child, so start it from one that outlives the tests. Where there is no
# prctl, the caller's atexit is all there is.
EXIT_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def spawn(command: Path, flags: Mapping[str, str], *, log: Path) -> Process:
    """Start a command that ends, at the latest, when this process does."""
    line = [str(command), *(f"--{flag}={value}" for flag, value in flags.items())]
    if sys.platform == "linux":
        line = [sys.executable, "-I", "-S", "-c", EXIT_WITH_PARENT, str(os.getpid()), *line]
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C is for pytest, whose teardown still needs the command.
        child = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    return Process(command.name, child, log)


def free_ports(count: int) -> list[int]:
    """Distinct free ports, below those that Linux uses for outgoing connections.

    From the usual `bind(0)` comes a port that any client on the machine may be given before our
    server binds it, the API server's own connections to etcd among them.
    """
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            candidate = held.enter_context(socket.socket())
            port = random.randrange(20_000, 32_000)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def output_with_hash_seed(program: str, seed: str) -> bytes:
    """The program's output with PYTHONHASHSEED set to this seed."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    ).stdout
