"""Writes anew what docs/emulator.md shows of the emulator: run it when a test says so.

    .venv/bin/python scripts/update_emulator_docs.py

Commands and programs stand in the document itself; this fills in what they print. The session of
the AWS CLI needs its environment: `make awscli`.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wainwright.clock import SystemClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.admin_api import connection_info
from wainwright.emulator.settings import EmulatorSettings

DOC = Path(__file__).parent.parent / "docs" / "emulator.md"
ENDPOINT = "http://127.0.0.1:4580"
BIN = Path(sys.executable).parent
AWS = Path(f"{sys.prefix}-awscli") / "bin"
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)


def block(name: str, text: str | None = None) -> str:
    """The code block after the marker of that name."""
    found = re.search(_pattern(name), _read() if text is None else text, re.DOTALL)
    if found is None:
        raise LookupError(f"{DOC.name} has no block {name}")
    return found[2]


def _pattern(name: str) -> str:
    return rf"(<!-- {name} -->\n+```\w*\n)(.*?)(```\n)"


def _read() -> str:
    return DOC.read_text(encoding="utf-8")


def commands() -> list[str]:
    """Of the session, each as it is written."""
    return COMMAND.findall(block("session"))


def announcement_text() -> str:
    """The line that the emulator prints, folded."""
    cloud = EmulatedAwsAccount(clock=SystemClock(), settings=EmulatorSettings(queue_base=ENDPOINT))
    line = msgspec.json.encode(connection_info(cloud, ENDPOINT))
    return json.dumps(json.loads(line), indent=2) + "\n"


def operations() -> str:
    """The table of what is emulated."""
    known: dict[str, list[str]] = {}
    for part in EmulatedAwsAccount(clock=SystemClock()).services.all():
        known.setdefault(part.name, []).extend(part.operations())
    rows = [f"| `{name}` | {', '.join(sorted(each))} |" for name, each in known.items() if each]
    return "\n".join(["| service | operations |", "|---|---|", *rows])


def documented_operations() -> str:
    """The table that the document has."""
    found = re.search(r"<!-- operations -->\n+(.*?)\n\n", _read(), re.DOTALL)
    return "" if found is None else found[1]


def session_output(environment: Mapping[str, str]) -> str:
    """What the commands of the session print, one after the other."""
    where = {**environment, "PATH": f"{AWS}{os.pathsep}{os.environ['PATH']}"}
    return "".join(f"$ {each}\n{_output(['sh', '-c', each], where)}" for each in commands())


def program_output(environment: Mapping[str, str]) -> str:
    """What the program prints."""
    return _output([sys.executable, "-c", block("python")], environment)


def _output(command: list[str], environment: Mapping[str, str]) -> str:
    kept = {name: each for name, each in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        command, env={**kept, **environment}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


@contextmanager
def _emulator() -> Iterator[Mapping[str, str]]:
    """One of its own; gives the environment that leads to it."""
    command = [str(BIN / "wain"), "emulator", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield json.loads(child.stdout.readline())["environment"]
        finally:
            child.terminate()


def main() -> None:
    with _emulator() as environment:
        made = {"session": session_output(environment), "printed": program_output(environment)}
    text = _read()
    for name, inner in {**made, "announcement": announcement_text()}.items():
        text = re.sub(_pattern(name), _replacement(inner), text, flags=re.DOTALL)
    DOC.write_text(text.replace(documented_operations(), operations()), encoding="utf-8")


def _replacement(inner: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}{inner}{found[3]}"


if __name__ == "__main__":
    main()
