"""Topology groups: where one more pod keeps within the skew, and which nodes are full."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.core.scheduling.topology.allowed_domains import (
    MAX_OPTIONS,
    allowed_domains,
    domains_within_skew,
)
from wainwright.core.scheduling.topology.constraints import TopologyConstraints
from wainwright.core.scheduling.topology.domains import Domains
from wainwright.core.scheduling.topology.groups import HostGroup, LabelGroup, TopologyKind
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import ALL_PODS, AffinityTerm, TopologySpread

SKEWS: list[tuple[dict[str, int], int, int | None, bool, list[str]]] = [
    ({"a": 0, "b": 0, "c": 0}, 1, None, True, ["a", "b", "c"]),
    ({"a": 2, "b": 1, "c": 1}, 1, None, True, ["b", "c"]),
    ({"a": 2, "b": 1, "c": 0}, 1, None, True, ["c"]),
    ({"a": 2, "b": 1, "c": 0}, 2, None, True, ["c", "b"]),
    ({"a": 5, "b": 5}, 1, None, True, ["a", "b"]),
    ({"a": 1, "b": 1}, 1, 3, True, []),
    ({"a": 1, "b": 1}, 1, 2, True, ["a", "b"]),
    ({"a": 0, "b": 1}, 1, None, False, ["a", "b"]),
    ({"a": 0, "b": 2}, 1, None, False, ["a"]),
    ({}, 1, None, True, []),
]
"""Counts, maxSkew, minDomains, whether the pod itself counts, and where it may go."""


@pytest.mark.parametrize(("counts", "max_skew", "min_domains", "itself", "allowed"), SKEWS)
def test_the_emptiest_domains_come_first_and_max_skew_is_kept(
    counts: dict[str, int], max_skew: int, min_domains: int | None, itself: bool, allowed: list[str]
) -> None:
    group = LabelGroup(TopologyKind.SPREAD, ZONE, (AffinityTerm(key=ZONE, selector=ALL_PODS),), 0)
    group.spread = TopologySpread(
        key=ZONE, selector=ALL_PODS, max_skew=max_skew, min_domains=min_domains
    )
    group.counts, group.domains = dict(counts), tuple(sorted(counts))
    assert domains_within_skew(group, itself=itself) == allowed


def test_counts_outside_the_domains_are_ignored() -> None:
    group = LabelGroup(TopologyKind.SPREAD, ZONE, (AffinityTerm(key=ZONE, selector=ALL_PODS),), 0)
    group.spread = TopologySpread(key=ZONE, selector=ALL_PODS)
    group.counts, group.domains = {"a": 1, "gone": 0}, ("a", "b")
    assert domains_within_skew(group, itself=True) == ["b"]


def test_a_node_is_full_when_it_has_as_many_pods_as_the_limit() -> None:
    group = HostGroup(
        TopologyKind.SPREAD, HOSTNAME, (AffinityTerm(key=HOSTNAME, selector=ALL_PODS),), 0, 2
    )
    group.add_node(3)
    group.add_draft(1)
    assert (group.full_nodes, group.full_drafts, group.has_pods) == (0, 0, True)
    group.add_node(3)
    assert (group.full_nodes, group.full_drafts) == (0b1000, 0)
    group.add_draft(1)
    assert (group.full_nodes, group.full_drafts) == (0b1000, 0b10)


def test_a_fork_does_not_change_the_original_group() -> None:
    group = HostGroup(
        TopologyKind.ANTI_AFFINITY,
        HOSTNAME,
        (AffinityTerm(key=HOSTNAME, selector=ALL_PODS),),
        0,
        2,
    )
    group.add_node(0)
    fork = group.fork()
    fork.add_node(0)
    assert (group.full_nodes, fork.full_nodes) == (0, 1)
    label = LabelGroup(
        TopologyKind.ANTI_AFFINITY, ZONE, (AffinityTerm(key=ZONE, selector=ALL_PODS),), 0
    )
    label.add("a")
    label_fork = label.fork()
    label_fork.add("a")
    assert (label.counts, label_fork.counts) == ({"a": 1}, {"a": 2})


def spread_over(key: str, counts: dict[str, int]) -> LabelGroup:
    group = LabelGroup(TopologyKind.SPREAD, key, (AffinityTerm(key=key, selector=ALL_PODS),), 0)
    group.spread = TopologySpread(key=key, selector=ALL_PODS, max_skew=100)
    group.counts, group.domains = dict(counts), tuple(sorted(counts))
    return group


def options_of(*groups: LabelGroup) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The values of the options, and the ranks of their counts."""
    constraints = TopologyConstraints([(each, True) for each in groups], (), (), ())
    allowed = allowed_domains(constraints, Domains([each.key for each in groups], ()))
    assert allowed is not None
    values = [
        tuple(next(iter(option.allowed(each.key).values)) for each in groups)
        for option in allowed.options
    ]
    return list(zip(values, allowed.domain_counts, strict=True))


COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2), min_size=1)


@given(st.lists(COUNTS, min_size=2, max_size=4))
def test_options_are_the_emptiest_combinations_in_order(counts: list[dict[str, int]]) -> None:
    groups = [spread_over(f"key-{number}", each) for number, each in enumerate(counts)]
    ranked = []
    for each in counts:
        levels = sorted(set(each.values()))
        in_order = sorted((count, value) for value, count in each.items())
        ranked.append([(value, levels.index(count)) for count, value in in_order])
    combined = [(tuple(v for v, _ in each), tuple(r for _, r in each)) for each in product(*ranked)]
    combined.sort(key=lambda each: (sum(each[1]), each[1]))
    assert options_of(*groups) == combined[:MAX_OPTIONS]


def test_billions_of_combinations_are_not_made_to_find_the_first() -> None:
    counts = {f"value-{number:03}": 0 for number in range(300)}
    groups = [spread_over(f"key-{number}", counts) for number in range(4)]
    found = options_of(*groups)
    assert len(found) == MAX_OPTIONS
    assert found[1] == (("value-000", "value-000", "value-000", "value-001"), (0, 0, 0, 0))
