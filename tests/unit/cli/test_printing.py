"""Tables in a pipe, and the places of diagnostics."""

import os
import re
import subprocess
import sys
from pathlib import Path

from wainwright.catalogue.diagnostics import object_warning
from wainwright.cli import printing
from wainwright.cli.catalog_input import locate_diagnostics
from wainwright.cli.printing import align_columns, join_cells, lay_out_table, stack_columns


def test_columns_stand_below_each_other_and_numbers_end_at_the_right() -> None:
    assert align_columns([("NAME", "PRICE"), ("a", "0.1"), ("long-name", "12")], numbers=1) == [
        "NAME       PRICE",
        "a            0.1",
        "long-name     12",
    ]


def test_no_rows_are_no_lines() -> None:
    assert align_columns([]) == []


def on_a_terminal(code: str, *, errors: bool = False) -> str:
    """The output of a small program on a terminal of 80 columns, or what goes to its standard
    error."""
    terminal, window = os.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    output, error = (subprocess.DEVNULL, window) if errors else (window, None)
    command = [sys.executable, "-c", code]
    subprocess.run(command, stdout=output, stderr=error, env=environment, check=True)
    os.close(window)
    with os.fdopen(terminal, "rb", buffering=0) as printed:
        return printed.read(65536).decode().replace("\r\n", "\n")


def test_a_simulation_shows_on_a_terminal_how_far_it_is() -> None:
    path = "tests/scenarios/simulation/thin-path.yaml"
    code = (
        f"from wainwright.cli.main import wain; wain(['simulate', '{path}'], standalone_mode=False)"
    )
    text = on_a_terminal(code, errors=True)
    assert re.search(r"thin-path: \w+ of 30m · \d+ nodes? · \d+ running, \d+ pending", text)


def test_on_a_narrow_terminal_no_number_is_cut() -> None:
    long = "x" * 100
    made = f"print_table(('NAME', 'PRICE'), [('{long}', '0.123456')], numbers=1)"
    text = on_a_terminal(f"from wainwright.cli.printing import print_table; {made}")
    assert f"{long}\n    0.123456\n" in text


def test_columns_that_do_not_fit_go_on_below_and_none_is_broken() -> None:
    assert stack_columns([10, 10, 10], 40) == [[0, 1, 2]]
    assert stack_columns([10, 10, 10], 33) == [[0, 1], [2]]
    assert stack_columns([10, 10, 10], 5) == [[0], [1], [2]]
    rows = [("POOL", "TYPE", "PRICE"), ("general", "m5.24xlarge", "$4.608/h")]
    lines = [join_cells(line) for line in lay_out_table(rows, {2}, 24)]
    assert lines == ["POOL     TYPE", "       PRICE", "general  m5.24xlarge", "    $4.608/h"]


def test_the_table_of_a_plan_fits_into_80_columns() -> None:
    plan = "['plan', 'examples/reserved-then-spot', '--now', '2026-01-31T12:00:00Z']"
    code = f"from wainwright.cli.main import wain; wain({plan}, standalone_mode=False)"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(code))
    rows = [line for line in plain.splitlines() if "cr-0123456789abcdef0" in line]
    assert rows
    assert max(map(len, plain.splitlines())) <= 80
    heading = next(line for line in plain.splitlines() if line.startswith("NODES"))
    assert heading.split() == ["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "EACH"]
    assert "reserved cr-0123456789abcdef0" in plain


def test_on_a_narrow_terminal_sentences_fold() -> None:
    words = " ".join(["word"] * 40)
    made = f"print_table(('NAME', 'WHY'), [('a', '{words}')])"
    text = on_a_terminal(f"from wainwright.cli.printing import print_table; {made}")
    assert text.count("word") == 40
    assert max(map(len, text.splitlines()[1:])) <= 80  # the heading has colours in it


def test_the_object_of_that_name_is_found_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    one = "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: %s}\nspec: {}\n"
    file.write_text(f"{one % 'a'}---\n{one % 'b'}")
    remarks = [
        object_warning("NodeOverlay", "b", ("spec",), "void"),
        object_warning("NodeOverlay", "c", (), "?"),
    ]
    placed, homeless = locate_diagnostics(remarks, [str(file), "-"])
    assert (placed.file, placed.line, placed.path) == (str(file), 9, "spec")
    assert (homeless.file, homeless.line) == ("NodeOverlay c", None)


def test_the_same_diagnostic_is_shown_once() -> None:
    remark = object_warning("Cloud", "", (), "said twice")
    assert len(locate_diagnostics([remark, remark], [])) == 1


def test_no_command_prints_past_the_module_that_escapes() -> None:
    folder = Path(printing.__file__).parent
    past = re.compile(r"click\.(echo|secho)|(?<![.\w])print\(|Console\(markup=True")
    for file in sorted(folder.glob("*.py")):
        if file.name not in ("printing.py", "main.py"):
            assert past.search(file.read_text("utf-8")) is None, file.name


def test_a_file_name_with_markup_in_it_is_shown_as_it_is_while_reading() -> None:
    name = "[/bold]\\x1b[31m"
    made = f"report('{name}', 500)"
    text = on_a_terminal(
        "from rich.console import Console; from wainwright.cli.options import _progress_callback\n"
        f"with Console().status('') as status: report = _progress_callback(status); {made}"
    )
    assert "reading [/bold]" in text
    assert "\x1b[31m" not in text
