"""Who requires a label that no type has; misspelt values are corrected, and another zone or type is
not taken for a misspelling."""

import pytest
from tests.support.model_builders import (
    explain_pods,
    instance_type,
    label_requirement,
    labelled_pods,
)

from wainwright.core.scheduling.constraints.label_diagnosis import suggest_correction
from wainwright.model.labels import INSTANCE_FAMILY
from wainwright.model.reasons import NoMatchingInstanceType
from wainwright.model.requirements import (
    NO_REQUIREMENTS,
    Requirements,
    ValueSet,
    none_of,
    one_of,
)
from wainwright.model.snapshot import Pool

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
    assert suggest_correction(INSTANCE_FAMILY, one_of([written]), KNOWN) == (written, meant)


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
    assert suggest_correction(INSTANCE_FAMILY, wanted, KNOWN) is None


def test_of_several_values_the_misspelt_one_is_corrected() -> None:
    assert suggest_correction(INSTANCE_FAMILY, one_of(["spot", "ondemand"]), KNOWN) == (
        "ondemand",
        "on-demand",
    )


@pytest.mark.parametrize(
    ("by_pod", "by_pool", "required_by", "wanted"),
    [
        (("c5",), (), "pod", ("c5",)),
        ((), ("c5",), "pool", ("c5",)),
        (("c5",), ("c5", "r5"), "pod", ("c5",)),
        (("c5", "m5"), ("c5",), "pool", ("c5",)),
        (("c5", "m5"), ("c5", "r5"), "both", ("c5",)),
    ],
)
def test_whose_requirement_it_is_that_leaves_no_type(
    by_pod: tuple[str, ...], by_pool: tuple[str, ...], required_by: str, wanted: tuple[str, ...]
) -> None:
    """There are types of the families m5 and r5."""
    types = [instance_type(name=f"{n}.large", labels={INSTANCE_FAMILY: n}) for n in ("m5", "r5")]
    pool = Pool(name="web", requirements=_families(by_pool))
    waiting = labelled_pods(1, alternatives=(_families(by_pod),))
    [group] = explain_pods(waiting, *types, pools=(pool,))
    reason = group.pools[0].reason
    assert isinstance(reason, NoMatchingInstanceType)
    assert (reason.required_by.value, reason.wanted) == (required_by, one_of(wanted))


def _families(names: tuple[str, ...]) -> Requirements:
    return label_requirement(INSTANCE_FAMILY, "In", *names) if names else NO_REQUIREMENTS
