"""Karpenter's own disruption methods and ours on the same clusters: a few fixed ones of every
profile. `make oracle-disruption` compares any number; the figures are in
docs/internals/disruption-oracle.md.
"""

import pytest
from tests.oracle.client import Oracle
from tests.oracle.disruption.clusters import DISRUPTION_PROFILES
from tests.oracle.disruption.comparison import compare_disruption

SEEDS = range(2)
LEAST = 0.95  # of their saving; theirs is not repeatable, and two clusters say little


@pytest.mark.parametrize("profile", DISRUPTION_PROFILES)
def test_our_commands_are_valid_and_save_about_as_much(oracle: Oracle, profile: str) -> None:
    found = compare_disruption(oracle, profile, SEEDS, runs=1)
    assert found.broken == {}
    assert [case.ours.complaints for case in found.cases] == [()] * len(SEEDS)
    assert all(case.ours.settled and case.theirs[0].settled for case in found.cases)
    assert found.ours.saving >= LEAST * found.theirs.saving
    assert found.theirs.commands > 0
