"""What holds for every command: streams, Ctrl-C, imports, the same bytes for any hash seed."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.manifest_tables import TESTS

from wainwright.cli import main
from wainwright.cli.main import COMMAND_GROUPS, print_unexpected, wain

ROOT = TESTS.parent
STORY = "examples/reserved-then-spot"
WAIN = (sys.executable, "-c", "from wainwright.cli.main import main; main()")
SCRIPT = Path(sys.executable).with_name("wain")
COMMANDS = [
    ("plan", STORY),
    ("plan", STORY, "-o", "json"),
    ("explain", "pod", "web-0", STORY),
    ("--help",),
]


def started(arguments: tuple[str, ...], stdout: int | None) -> tuple[int, str]:
    """Exit code and standard error; a stdout of None is closed."""
    line = list(map(str, (*WAIN, *arguments)))
    if stdout is None:
        line = ["sh", "-c", 'exec "$@" >&-', "sh", *line]
    done = subprocess.run(
        line, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_closed_pipe_is_not_reported_as_an_unschedulable_pod(
    arguments: tuple[str, ...],
) -> None:
    reading, to = os.pipe()
    os.close(reading)
    try:
        assert started(arguments, to) == (141, "")
    finally:
        os.close(to)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_reported_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        code, output = started(arguments, full.fileno())
    expected = "error: standard output cannot be written: No space left on device\n"
    assert (code, output) == (2, expected)


def test_a_closed_standard_output_is_reported_in_one_line() -> None:
    code, output = started(("plan", STORY), None)
    assert (code, output) == (2, "error: standard output cannot be written: it is closed\n")


@pytest.mark.parametrize(
    "command", ["plan", "validate", "convert", "consolidate", "emulator set", "emulator --faults"]
)
def test_a_closed_standard_input_is_an_empty_file(command: str) -> None:
    line = ["sh", "-c", 'exec "$@" <&-', "sh", *WAIN, *command.split(), "-"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "standard input" in done.stdout + done.stderr
    assert "the file is empty" in done.stdout + done.stderr


def test_the_error_of_a_task_is_named_and_not_that_there_was_a_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tasks = "unhandled errors in a TaskGroup"
    inner = ExceptionGroup(tasks, [KeyError("the real one"), ValueError("another")])
    print_unexpected(ExceptionGroup(tasks, [inner]))
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "error: a bug in wain, triggered by this input: KeyError: 'the real one'"


def test_without_a_standard_error_the_plan_is_made_all_the_same() -> None:
    line = ["sh", "-c", 'exec "$@" 2>&-', "sh", *WAIN, "plan", STORY]
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert "7 of 7 pods scheduled" in done.stdout


EXAMPLE = TESTS.parent / "examples" / "reserved-then-spot"
PROGRAM = """\
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
_, folder, last = sys.argv


def interrupt(event, details):
    if event == "import" and details[0] == last:
        os.kill(os.getpid(), signal.SIGINT)


from wainwright.cli.main import main

sys.addaudithook(interrupt)
sys.argv = ["wain", "plan", folder]
main()
"""


@pytest.mark.parametrize(
    "loaded",
    [
        pytest.param("logging", id="while the engine for CEL starts, which is not Python"),
        "wainwright.core.plan",
    ],
)
def test_it_ends_in_a_word(loaded: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLE), loaded]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")


LOADED = """
import sys
from click.testing import CliRunner
from wainwright.cli.main import wain

result = CliRunner().invoke(wain, ["plan", "examples/reserved-then-spot", "-o", "json"])
assert '"kind": "Plan"' in result.stdout, result.output
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name for name in sys.modules if name.startswith("wainwright.")))
"""
FOREIGN = {"boto3", "botocore", "aiohttp", "asyncio", "ssl", "prometheus_client", "rich"}
OURS = ("wainwright.aws", "wainwright.emulator", "wainwright.kube", "wainwright.controllers")
UNNEEDED = (
    "wainwright.core.disruption.",
    "wainwright.core.explain.",
    "wainwright.core.removal_simulation",
    "wainwright.offline_disruption",
    "wainwright.report.drift_preview",
    "wainwright.report.consolidation",
    "wainwright.messages.disruption",
)
NEEDED = {
    "wainwright.core.disruption.disruption_input",
    "wainwright.core.disruption.eviction",
}
"""The settings that a saved input may have, and where the pods of nodes being deleted go."""


def loaded_by_a_plan() -> tuple[set[str], set[str]]:
    """Packages, and our modules."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=TESTS.parent, capture_output=True, check=True, text=True
    )
    packages, modules = (set(line.split()) for line in done.stdout.splitlines())
    return packages, modules


def test_a_plan_loads_nothing_that_talks_to_a_cloud_or_a_cluster() -> None:
    packages, modules = loaded_by_a_plan()
    assert packages & FOREIGN == set()
    assert [name for name in modules if name.startswith(OURS)] == []


def test_a_plan_of_scheduled_pods_loads_neither_disruption_nor_explanations_nor_rendering() -> None:
    packages, modules = loaded_by_a_plan()
    assert packages & {"subprocess", "zipfile"} == set()
    assert {name for name in modules if name.startswith(UNNEEDED)} <= NEEDED


PRINT = """
from click.testing import CliRunner
from wainwright.cli.main import wain

NOW = ("--now", "2026-01-31T12:00:00Z")
for arguments in (
    ("plan", "examples/weights-gpu-families", "-o", "json", *NOW),
    ("plan", "examples/weights-gpu-families", "-o", "nodeclaims", *NOW),
    ("plan", "--diff", "examples/reserved-only", "examples/reserved-then-spot", "-o", "json", *NOW),
    ("reservations", "examples/reserved-only", "-o", "json", *NOW),
    ("explain", "type", "p4d.24xlarge", "-o", "json"),
    ("validate", "examples/mistakes", "-o", "json"),
):
    print(CliRunner().invoke(wain, arguments).stdout)
"""


def printed(seed: str) -> bytes:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", PRINT]
    done = subprocess.run(
        command, env=environment, cwd=TESTS.parent, capture_output=True, check=True
    )
    return done.stdout


def test_law_2_another_hash_seed_prints_the_same_bytes() -> None:
    first, second = printed("1"), printed("2")
    assert first == second
    assert first.count(b'"apiVersion"') >= 3


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("paln", "plan"),
        ("plan --packing cots x", "cost"),
        ("plan -o jsno x", "json"),
        ("catalog --capacity-type spto", "spot"),
        ("consolidate --method emptyness x", "emptiness"),
        ("completion bsh", "bash"),
    ],
)
def test_a_misspelt_word_gets_the_one_that_was_meant(line: str, meant: str) -> None:
    with pytest.raises(click.UsageError, match=rf"Did you mean {meant}\?"):
        wain.main(line.split(), standalone_mode=False)


def options_without_help(command: click.Command, *names: str) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.help:
            yield f"{' '.join(names)} {parameter.opts[0]}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options_without_help(below, *names, name)


def test_every_option_of_every_command_says_what_it_does() -> None:
    assert list(options_without_help(wain, "wain")) == []


def test_the_help_has_every_command_once_under_its_job() -> None:
    grouped = [name for names in COMMAND_GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(main.COMMANDS)
    text = CliRunner().invoke(wain, ["--help"]).stdout
    assert [text.index(f"\n{job}:\n") for job in COMMAND_GROUPS] == sorted(
        text.index(f"\n{job}:\n") for job in COMMAND_GROUPS
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_values(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = CliRunner().invoke(wain, ["completion", shell]).stdout
    assert f"_WAIN_COMPLETE={shell}_complete" in script
    monkeypatch.setenv("COMP_WORDS", "wain plan --packing ")
    monkeypatch.setenv("COMP_CWORD", "" if shell == "fish" else "3")
    monkeypatch.setenv("_WAIN_COMPLETE", f"{shell}_complete")
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    assert {"cost", "first-fit"} <= set(re.findall(r"[\w-]+", done.stdout))
