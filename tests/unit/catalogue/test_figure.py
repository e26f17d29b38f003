"""Every number can say which rule gave it."""

import string

import pytest

from wainwright.catalogue import builtin
from wainwright.catalogue.figure import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Figure, Rule
from wainwright.catalogue.settings import ClassSettings
from wainwright.catalogue.shapes import shape


def test_the_numbers_of_a_type_come_with_their_rules() -> None:
    made = shape(builtin.machines()["m5.xlarge"], ClassSettings())
    told = {name: figure.explained() for name, figure in made.capacity.items()}
    assert told[CPU] == "the type has 4 vCPUs"
    assert told[MEMORY] == (
        "16Gi of the type, less 7.5 % for the virtual machine, rounded up to 1229Mi"
    )
    assert told[PODS] == (
        "4 network interfaces × (15 addresses each − 1) + 2; the type has 4 interfaces, "
        "0 of them reserved and 0 only for EFA"
    )
    assert told[EPHEMERAL_STORAGE].startswith("the default volume of this AMI family")


def test_overhead_comes_with_its_rules() -> None:
    overhead = shape(builtin.machines()["m5.xlarge"], ClassSettings()).overhead
    assert overhead.kube_reserved[MEMORY].explained() == (
        "255Mi + 11Mi × 58 pods that the network interfaces allow"
    )
    assert overhead.eviction[EPHEMERAL_STORAGE].explained() == (
        "the kubelet's own threshold of nodefs.available: 10 % of 20Gi"
    )


@pytest.mark.parametrize("rule", Rule)
def test_a_rule_is_a_sentence_without_its_amount(rule: Rule) -> None:
    named = {name for _, name, _, _ in string.Formatter().parse(rule.value) if name}
    told = Figure(1, rule, dict.fromkeys(named, 7)).explained()
    assert told
    assert "{" not in told


def test_rules_are_told_apart_by_their_sentences() -> None:
    assert len(Rule.__members__) == len(set(Rule))
