"""States of a simulated cluster as values, for tests of what is judged on them."""

from collections.abc import Mapping, Sequence

import msgspec

from wainwright.api.wire import WireStruct
from wainwright.model.simulation import EndClaim, EndNode, EventEntry
from wainwright.sim.observed_state import ReservationCount


class SimulatedState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an expectation may look at."""

    at: float = 0.0
    pending_pods: int = 0
    running_pods: int = 0
    longest_wait: float = 0.0
    nodes: int = 0
    nodes_by_capacity_type: Mapping[str, int] = {}
    price_per_hour: float = 0.0
    reservations: Mapping[str, ReservationCount] = {}
    new_events: Sequence[EventEntry] = ()
    node_list: Sequence[EndNode] = ()
    claim_list: Sequence[EndClaim] = ()
    objects: Mapping[tuple[str, str, str], WireStruct] = {}

    def node_views(self) -> Sequence[EndNode]:
        return self.node_list

    def claim_views(self) -> Sequence[EndClaim]:
        return self.claim_list

    def find_object(self, kind: str, namespace: str, name: str) -> WireStruct | None:
        return self.objects.get((kind, namespace, name))

    def object_names(self, kind: str) -> Sequence[tuple[str, str]]:
        return [(namespace, name) for known, namespace, name in self.objects if known == kind]


def simulated_node(name: str | None, **changes: object) -> EndNode:
    values: dict[str, object] = {
        "claim": "default-x",
        "nodePool": "default",
        "instance": "i-1",
        "instanceType": "m5.large",
        "zone": "us-west-2a",
        "capacityType": "spot",
        "reservationID": None,
        "pricePerHour": 0.04,
        "ready": True,
        "pods": [],
    }
    return msgspec.convert({"name": name, **values, **changes}, EndNode)


def simulated_claim(name: str, **changes: object) -> EndClaim:
    values: dict[str, object] = {
        "nodePool": "default",
        "node": None,
        "instance": "i-1",
        "conditions": {},
        "labels": {},
    }
    return msgspec.convert({"name": name, **values, **changes}, EndClaim)
