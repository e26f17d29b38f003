"""Host ports: which conflict, on sets of hosts and in plans."""

import pytest
from tests.support.model_builders import (
    existing_node,
    labelled_pods,
    plan_pods,
    zonal_instance_type,
)

from wainwright.core.scheduling.constraints.host_ports import HostPortUsage, ports_conflict
from wainwright.model.pod import HostPort, PodConstraints

WEB = HostPort(port=80)
CONFLICTS = [
    (WEB, HostPort(port=80), True),
    (WEB, HostPort(port=81), False),
    (WEB, HostPort(port=80, protocol="UDP"), False),
    (WEB, HostPort(port=80, address="10.0.0.1"), True),
    (HostPort(port=80, address="::"), HostPort(port=80, address="10.0.0.1"), True),
    (HostPort(port=80, address="10.0.0.2"), HostPort(port=80, address="10.0.0.1"), False),
    (HostPort(port=80, address=""), HostPort(port=80, address="10.0.0.1"), True),
]


@pytest.mark.parametrize(("used", "requested", "conflict"), CONFLICTS)
def test_host_ports_conflict_by_number_protocol_and_address(
    used: HostPort, requested: HostPort, conflict: bool
) -> None:
    ports = HostPortUsage()
    ports.add(0b101, [used])
    assert ports.admits([requested], 0b111) == (0b010 if conflict else 0b111)
    assert ports_conflict(requested, used) is ports_conflict(used, requested) is conflict


def test_ports_are_in_use_on_every_host_they_were_added_to() -> None:
    ports = HostPortUsage()
    ports.add(0b001, [WEB])
    ports.add(0b100, [WEB, HostPort(port=81)])
    assert ports.admits([WEB], 0b111) == 0b010
    assert ports.admits([HostPort(port=81)], 0b111) == 0b011
    assert ports.admits([], 0b111) == 0b111


def test_host_ports_are_in_use_on_existing_nodes_and_on_drafts() -> None:
    constraints = PodConstraints(ports=(WEB,))
    node = existing_node("n", "zone-a", *labelled_pods(1, "running", constraints=constraints))
    result = plan_pods(
        labelled_pods(2, constraints=constraints), zonal_instance_type(), nodes=[node]
    )
    assert result.placements == ()
    assert [len(claim.pods) for claim in result.claims] == [1, 1]
    other = plan_pods(
        labelled_pods(2, constraints=PodConstraints(ports=(HostPort(port=81),))), nodes=[node]
    )
    assert [place.pods for place in other.placements] == [("shop/web-0",)]
