"""What goes without saying: labels of a node that are clear although no offering names them."""

from typing import Final, TypeAlias

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVATION_LABELS,
    RESERVED,
    SPOT,
    ZONE,
)
from wainwright.model.requirements import NO_REQUIREMENTS, Requirement, Requirements
from wainwright.model.values import NOTHING, one_of

UNRESERVED: Final = one_of([ON_DEMAND, SPOT])
"""What an offering can be bought as that leaves its capacity type open."""

Labels: TypeAlias = tuple[Requirements, str | None]
"""What sets an offering apart besides its type: the labels of its nodes, and its reservation."""


def labels_of(kind: InstanceType, offering: Offering) -> Labels:
    """Those that the offering names, and zone and capacity type as far as they are clear."""
    said = offering.requirements
    if ZONE not in said or CAPACITY_TYPE not in said:
        said = said.narrow(_zone(kind, offering)).narrow(_capacity_type(kind, offering))
    return said, offering.reservation_id


def _zone(kind: InstanceType, offering: Offering) -> Requirements:
    """The zones that the type names, where it does."""
    own = kind.requirements
    if ZONE in offering.requirements or own.allowed(ZONE).open:
        return NO_REQUIREMENTS
    return Requirements([own[ZONE]])


def _capacity_type(kind: InstanceType, offering: Offering) -> Requirements:
    """On demand or spot; reserved is what has a reservation, and nothing else."""
    if CAPACITY_TYPE in offering.requirements:
        return NO_REQUIREMENTS
    usual = UNRESERVED if offering.reservation_id is None else one_of([RESERVED])
    both = usual & kind.requirements.allowed(CAPACITY_TYPE)
    return Requirements([Requirement(key=CAPACITY_TYPE, allowed=usual if both.empty else both)])


def with_reservation(requirements: Requirements, reservation_id: str | None) -> Requirements:
    """Says of the reservation what the offering left unsaid: which it is, or that there is none."""
    known = NOTHING if reservation_id is None else one_of([reservation_id])
    said = dict.fromkeys(RESERVATION_LABELS, NOTHING) | {RESERVATION_ID: known}
    return requirements.narrow(
        Requirements(
            Requirement(key=key, allowed=values)
            for key, values in said.items()
            if key not in requirements
        )
    )
