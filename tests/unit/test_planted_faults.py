"""The lists of planted faults fit the sources: an entry that does not would test nothing."""

from pathlib import Path

import pytest
from scripts.planted_faults import (
    PACKAGE,
    PlantedFault,
    failure_without_fault,
    read_list,
)

LISTS = sorted(Path("tests/data").glob("planted_*.yaml"))
FAULTS = [
    pytest.param(fault, id=f"{path.stem}-{fault.id}")
    for path in LISTS
    for fault in read_list(path).faults
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_changes_the_source_and_names_tests_that_exist(
    fault: PlantedFault,
) -> None:
    source = (PACKAGE / fault.file).read_text("utf-8")
    assert fault.applied(source) not in (None, source)
    files = [each for each in fault.tests if each.startswith("tests/")]
    assert [each for each in files if not Path(each.partition("::")[0]).exists()] == []


def fault_with(test: Path) -> PlantedFault:
    return PlantedFault(
        id="any", what="it is not planted", file="", before="", after="", tests=[f"{test}"]
    )


def test_tests_that_fail_without_a_fault_are_found_before_it_is_planted(tmp_path: Path) -> None:
    red, green = tmp_path / "test_red.py", tmp_path / "test_green.py"
    red.write_text("def test_red() -> None:\n    raise AssertionError\n")
    green.write_text("def test_green() -> None:\n    pass\n")
    assert failure_without_fault([fault_with(green)], jobs=1) == ""
    assert "test_red" in failure_without_fault([fault_with(green), fault_with(red)], jobs=1)
