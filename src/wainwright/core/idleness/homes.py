"""Homes: the new nodes of a plan, seen as the nodes that they will be."""

from collections.abc import Iterable, Mapping

from wainwright.model.index import TypeIndex
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import CAPACITY_TYPE, ZONE
from wainwright.model.node import Node
from wainwright.model.plan import Launch, PlannedClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Taint


class Homes:
    """Remembers what it made, as most claims of a plan are like some other."""

    def __init__(self, catalogs: Mapping[str, TypeIndex]) -> None:
        self._catalogs = catalogs
        self._types: dict[str, dict[str, InstanceType]] = {}
        self._machines: dict[object, Requirements] = {}

    def machine(self, claim: PlannedClaim) -> Requirements:
        """What the labels of the node will be; several values where that is still open."""
        key = (claim.pool, claim.launch, claim.requirements)
        if key not in self._machines:
            kind = self._kind(claim)
            bought = kind.requirements.narrow(_sold(kind, claim.launch))
            self._machines[key] = bought.narrow(claim.requirements)
        return self._machines[key]

    def node(self, claim: PlannedClaim, pods: Iterable[Pod], taints: tuple[Taint, ...]) -> Node:
        found = self.machine(claim)
        labels = {key: value for key in found if (value := found.only(key)) is not None}
        return Node(name=claim.name, labels=labels, taints=taints, pods=tuple(pods))

    def _kind(self, claim: PlannedClaim) -> InstanceType:
        if claim.pool not in self._types:
            types = self._catalogs[claim.pool].types
            self._types[claim.pool] = {kind.name: kind for kind in types}
        return self._types[claim.pool][claim.launch.instance_type]


def _sold(kind: InstanceType, launch: Launch) -> Requirements:
    """What the offering says that is bought, and what was decided where it leaves that open."""
    decided = {CAPACITY_TYPE: launch.capacity_type}
    if launch.zone is not None:
        decided[ZONE] = launch.zone
    said = Requirements.from_labels(decided)
    fitting = (
        each.requirements
        for each in kind.offerings
        if (each.reservation_id, each.price) == (launch.reservation_id, launch.price)
        and each.requirements.compatible(said, frozenset(decided))
    )
    return next(fitting, said).narrow(said)
