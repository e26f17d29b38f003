"""What it costs to disrupt a node."""

import pytest

from wainwright.core.disruption.disruption_cost import disruption_cost, pod_eviction_cost
from wainwright.model.disruption import NodeClaimState
from wainwright.model.pod import EvictionFacts, Pod
from wainwright.model.snapshot import Node


def pod(*, cost: float = 0.0, priority: int = 0, daemonset: bool = False) -> Pod:
    facts = EvictionFacts(deletion_cost=cost)
    return Pod(namespace="shop", name="a", priority=priority, daemonset=daemonset, eviction=facts)


@pytest.mark.parametrize(
    ("cost", "priority", "expected"),
    [
        (0, 0, 1.0),
        (2**27, 0, 2.0),
        (-(2**27), 0, 0.0),
        (0, 2**25, 2.0),
        (2**31 - 1, 2_000_000_000, 10.0),
        (-(2**31), -(2**31), -10.0),
    ],
)
def test_deletion_cost_and_priority_change_what_an_eviction_costs(
    cost: float, priority: int, expected: float
) -> None:
    assert pod_eviction_cost(pod(cost=cost, priority=priority)) == expected


@pytest.mark.parametrize(
    ("own", "managed", "expected"),
    [(None, False, 2.0), (None, True, 1.0), (0.0, False, 1.0), (-(2.0**27), True, 0.0)],
)
def test_a_deletion_cost_counts_unless_the_pod_states_another_or_a_controller_writes_it(
    own: float | None, managed: bool, expected: float
) -> None:
    facts = EvictionFacts(deletion_cost=2.0**27, disruption_cost=own)
    stated = Pod(namespace="shop", name="a", eviction=facts)
    assert pod_eviction_cost(stated, managed_deletion_cost=managed) == expected
    node = Node(name="n", pods=(stated,))
    assert disruption_cost(node, None, managed_deletion_cost=managed) == 1.0 + expected


def test_a_node_costs_its_evictions_and_itself() -> None:
    pods = (pod(), pod(), pod(daemonset=True), pod(cost=-(2**31)))
    assert disruption_cost(Node(name="n", pods=pods), None) == 3.0


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 2.0), (25, 1.75), (100, 1.0), (500, 1.0), (-5, 2.0)]
)
def test_the_nearer_its_expiry_the_less_it_costs(age: float, expected: float) -> None:
    claim = NodeClaimState(name="c", created=1000.0, expire_after=100.0)
    assert disruption_cost(Node(name="n", pods=(pod(),), claim=claim), 1000.0 + age) == expected


def test_a_node_that_does_not_expire_has_its_whole_life_before_it() -> None:
    claim = NodeClaimState(name="c", created=1000.0)
    assert disruption_cost(Node(name="n", pods=(pod(),), claim=claim), 10.0**9) == 2.0
