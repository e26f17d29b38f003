"""The capacity reservations that the status of classes names, where nobody states their counts.

A status says which reservations the terms of the class have found, and neither their tags nor how
much of them is free. So they get the tags that the terms ask for, and as many instances as nodes of
the input run in them: what is in use is known, and nothing beyond it is promised.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.wire import WireStruct
from wainwright.model.labels import RESERVATION_ID


def reservations_of_class_status(objects: Sequence[WireStruct]) -> list[CloudReservation]:
    """Each reservation once, in the order of ids."""
    found: dict[str, CloudReservation] = {}
    used = _instances_in_use(objects)
    for node_class in objects:
        if isinstance(node_class, EC2NodeClass) and node_class.status is not None:
            for each in node_class.status.capacityReservations or ():
                reservation = _reservation(each, node_class, used[each.id])
                found[each.id] = _joined(found.get(each.id), reservation)
    return [found[name] for name in sorted(found)]


def _instances_in_use(objects: Iterable[WireStruct]) -> Counter[str]:
    """By reservation; a node and its claim are one instance."""
    instances: dict[str, str] = {}
    for item in objects:
        if isinstance(item, Node | NodeClaim):
            reservation = (item.metadata.labels or {}).get(RESERVATION_ID, "")
            if reservation:
                instances[_instance_of(item)] = reservation
    return Counter(instances.values())


def _instance_of(item: Node | NodeClaim) -> str:
    if isinstance(item, Node):
        return item.spec.providerID or item.metadata.name
    return (item.status.providerID if item.status is not None else "") or item.metadata.name


def _reservation(
    status: CapacityReservation, node_class: EC2NodeClass, used: int
) -> CloudReservation:
    return CloudReservation(
        id=status.id,
        instanceType=status.instanceType,
        availabilityZone=status.availabilityZone,
        total=used,
        available=0,
        instanceMatchCriteria=status.instanceMatchCriteria,
        ownerID=status.ownerID or None,
        tags=_wanted_tags(node_class) or None,
        reservationType=status.reservationType,
        endTime=status.endTime,
        interruptible=status.interruptible,
        groups=status.reservationGroups,
    )


def _wanted_tags(node_class: EC2NodeClass) -> dict[str, str]:
    terms = node_class.spec.capacityReservationSelectorTerms or []
    return {key: value for term in terms for key, value in (term.tags or {}).items()}


def _joined(known: CloudReservation | None, other: CloudReservation) -> CloudReservation:
    """One that two classes have found matches the terms of both."""
    if known is None:
        return other
    tags = {**(known.tags or {}), **(other.tags or {})}
    return msgspec.structs.replace(other, tags=tags or None)
