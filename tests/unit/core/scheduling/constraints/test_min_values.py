"""minValues of a draft: counted again only when a type is lost that the count depends on."""

from tests.support.model_builders import instance_type, label_requirement

from wainwright.core.scheduling.constraints.min_values import Witnesses
from wainwright.core.scheduling.nodeclaim_template import NodeClaimTemplate
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import INSTANCE_FAMILY
from wainwright.model.snapshot import Pool

INDEX = InstanceTypeIndex(
    [
        instance_type(name=f"{family}.{size}", labels={INSTANCE_FAMILY: family})
        for family in ("c5", "m5", "r5")
        for size in range(20)
    ]
)
TEMPLATE = NodeClaimTemplate(
    0,
    Pool(name="web", requirements=label_requirement(INSTANCE_FAMILY, "Exists", min_values=3)),
    INDEX,
    (),
)


def recheck(previous: Witnesses, types: int) -> Witnesses | None:
    base = TEMPLATE.base
    return TEMPLATE.min_values_checker.admits_fewer(
        TEMPLATE.min_values, previous, base, types, base.offering_groups
    )


def witnesses() -> Witnesses:
    base = TEMPLATE.base
    found = TEMPLATE.min_values_checker.admits(
        TEMPLATE.min_values, base, INDEX.all_types, base.offering_groups
    )
    assert found is not None
    return found


def test_losing_other_types_counts_nothing_again() -> None:
    found = witnesses()
    assert found[0].bit_count() == 3
    assert recheck(found, found[0]) is found


def test_after_losing_one_of_them_another_type_of_its_family_counts() -> None:
    [before] = found = witnesses()
    lost = before & -before
    again = recheck(found, INDEX.all_types ^ lost)
    assert again is not None
    assert again[0].bit_count() == 3
    assert not again[0] & lost


def test_after_losing_a_whole_family_they_are_unmet() -> None:
    family = INDEX.compatible_types(label_requirement(INSTANCE_FAMILY, "In", "r5"))
    assert recheck(witnesses(), INDEX.all_types ^ family) is None
