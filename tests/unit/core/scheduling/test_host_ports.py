"""Host ports: who clashes with whom, on rows of a table and in plans."""

import pytest
from tests.support.model_builders import (
    existing_node,
    labelled_pods,
    plan_pods,
    zonal_instance_type,
)

from wainwright.core.scheduling.host_ports import HostPortUsage
from wainwright.model.pod import HostPort, PodConstraints

WEB = HostPort(port=80)
CLASHES = [
    (WEB, HostPort(port=80), True),
    (WEB, HostPort(port=81), False),
    (WEB, HostPort(port=80, protocol="UDP"), False),
    (WEB, HostPort(port=80, address="10.0.0.1"), True),
    (HostPort(port=80, address="::"), HostPort(port=80, address="10.0.0.1"), True),
    (HostPort(port=80, address="10.0.0.2"), HostPort(port=80, address="10.0.0.1"), False),
    (HostPort(port=80, address=""), HostPort(port=80, address="10.0.0.1"), True),
]


@pytest.mark.parametrize(("taken", "wanted", "clash"), CLASHES)
def test_ports_clash_by_number_protocol_and_address(
    taken: HostPort, wanted: HostPort, clash: bool
) -> None:
    ports = HostPortUsage()
    ports.add(0b101, [taken])
    assert ports.with_conflict([wanted]) == (0b101 if clash else 0)
    assert wanted.conflicts_with(taken) is taken.conflicts_with(wanted) is clash


def test_rows_add_up() -> None:
    ports = HostPortUsage()
    ports.add(0b001, [WEB])
    ports.add(0b100, [WEB, HostPort(port=81)])
    assert ports.with_conflict([WEB]) == 0b101
    assert ports.with_conflict([HostPort(port=81)]) == 0b100
    assert ports.with_conflict([]) == 0


def test_a_port_is_taken_on_nodes_and_on_drafts_alike() -> None:
    constraints = PodConstraints(ports=(WEB,))
    node = existing_node("n", "zone-a", *labelled_pods(1, "running", constraints=constraints))
    made = plan_pods(labelled_pods(2, constraints=constraints), zonal_instance_type(), nodes=[node])
    assert made.placements == ()
    assert [len(claim.pods) for claim in made.claims] == [1, 1]
    other = plan_pods(
        labelled_pods(2, constraints=PodConstraints(ports=(HostPort(port=81),))), nodes=[node]
    )
    assert [place.pods for place in other.placements] == [("shop/web-0",)]
