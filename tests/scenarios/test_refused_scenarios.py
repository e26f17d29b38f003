"""Scenarios that are refused before they run: each file says at its end what is wrong with it, as
`# error LINE: FIELD: what was found and expected (what to do)`.
"""

from pathlib import Path

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.manifests.problems import InvalidInput, Problem
from wainwright.sim.scenario_reader import read_scenario

FOLDER = TESTS / "scenarios" / "refused"
FILES = sorted(FOLDER.glob("*.yaml"))
MARK = "# error "


def described(problem: Problem) -> str:
    hint = f" ({problem.hint})" if problem.hint else ""
    return f"{problem.line}: {problem.path}: {problem.sentence}{hint}"


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_everything_wrong_is_said_with_line_and_field(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    lines = file.read_text().splitlines()
    expected = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    with pytest.raises(InvalidInput) as raised:
        read_scenario(file.name)
    problems = raised.value.report.errors
    assert [described(each) for each in problems] == expected
    assert {each.file for each in problems} == {file.name}
    assert all(each.expected or each.hint for each in problems)
