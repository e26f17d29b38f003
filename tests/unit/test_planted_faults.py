"""The lists of planted faults fit the sources: an entry that does not would test nothing."""

from pathlib import Path

import pytest
from scripts.planted_faults import PACKAGE, PlantedFault, read_list

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
