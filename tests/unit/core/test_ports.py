"""Host ports: who clashes with whom, on rows of a table and in plans."""

import pytest
from tests.support.tiedmodel import machine, planned, pods, standing

from wainwright.core.ports import Ports
from wainwright.model.attachments import HostPort
from wainwright.model.pod import Bonds

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
    ports = Ports()
    ports.take(0b101, [taken])
    assert ports.clashing([wanted]) == (0b101 if clash else 0)
    assert wanted.clashes_with(taken) is taken.clashes_with(wanted) is clash


def test_rows_add_up() -> None:
    ports = Ports()
    ports.take(0b001, [WEB])
    ports.take(0b100, [WEB, HostPort(port=81)])
    assert ports.clashing([WEB]) == 0b101
    assert ports.clashing([HostPort(port=81)]) == 0b100
    assert ports.clashing([]) == 0


def test_a_port_is_taken_on_nodes_and_on_drafts_alike() -> None:
    bonds = Bonds(ports=(WEB,))
    node = standing("n", "zone-a", *pods(1, "running", bonds=bonds))
    made = planned(pods(2, bonds=bonds), machine(), nodes=[node])
    assert made.placements == ()
    assert [len(claim.pods) for claim in made.claims] == [1, 1]
    other = planned(pods(2, bonds=Bonds(ports=(HostPort(port=81),))), nodes=[node])
    assert [place.pods for place in other.placements] == [("shop/web-0",)]
