"""Misspelt values are corrected, and another zone or type is not taken for a misspelling."""

import pytest

from wainwright.core.scheduling.constraints.label_diagnosis import suggest_correction
from wainwright.model.requirements import ValueSet, none_of, one_of

KNOWN = ["us-west-2a", "us-west-2b", "on-demand", "spot", "m5.large", "m5.2xlarge"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("us-west2a", "us-west-2a"),
        ("us-wset-2b", "us-west-2b"),
        ("US-WEST-2A", "us-west-2a"),
        ("ondemand", "on-demand"),
        ("On_Demand", "on-demand"),
        ("m5.lrge", "m5.large"),
    ],
)
def test_a_misspelt_value_is_corrected(written: str, meant: str) -> None:
    assert suggest_correction(one_of([written]), KNOWN) == (written, meant)


@pytest.mark.parametrize(
    "wanted",
    [
        one_of(["us-west-2c"]),
        one_of(["us-east-2a"]),
        one_of(["us-west-1a"]),
        one_of(["c5.large"]),
        one_of(["m6.large"]),
        one_of(["reserved"]),
        one_of([""]),
        none_of(["us-west2a"]),
        one_of(["spot"]),
    ],
    ids=str,
)
def test_another_value_is_not_corrected(wanted: ValueSet) -> None:
    assert suggest_correction(wanted, KNOWN) is None


def test_of_several_values_the_misspelt_one_is_corrected() -> None:
    assert suggest_correction(one_of(["spot", "ondemand"]), KNOWN) == ("ondemand", "on-demand")
