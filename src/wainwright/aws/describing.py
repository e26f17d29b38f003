"""Describing: a machine with all that its claim and node are to say of it."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.aws.instance import Instance
from wainwright.aws.instances import shown
from wainwright.aws.nodeclass.identity import annotations
from wainwright.aws.ordering import Source
from wainwright.model import instance as model
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import (
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
)
from wainwright.model.requirements import Requirements

PROFILE: Final = "karpenter.k8s.aws/instance-profile-name"


def described(
    machine: Instance, source: Source, *, ca_bundle: str = "", notes: tuple[str, ...] = ()
) -> model.Instance:
    """What EC2 says of it, and what the catalogue of its class knows about such machines."""
    known = shown(machine)
    kind = source.built.by_name.get(machine.instance_type)
    offering = None if kind is None else _offering(kind, known)
    labels = {**_labels(kind, offering), **known.labels, **_class_labels(machine, source)}
    return msgspec.structs.replace(
        known,
        price=None if offering is None else offering.price,
        labels=dict(sorted(labels.items())),
        annotations={
            **annotations(source.node_class, ca_bundle),
            PROFILE: source.resolved.profile,
        },
        capacity={} if kind is None else kind.capacity,
        allocatable={} if kind is None else kind.allocatable,
        notes=notes,
    )


def _offering(kind: InstanceType, machine: model.Instance) -> Offering | None:
    """The one through which it was bought; the cheapest, where several could have been."""
    return min(
        (each for each in kind.offerings if _through(each, machine)),
        key=lambda each: each.price,
        default=None,
    )


def _through(offering: Offering, machine: model.Instance) -> bool:
    return (
        offering.zone in (None, machine.zone)
        and offering.capacity_type in (None, machine.capacity_type)
        and (offering.reservation_id or "") == machine.reservation_id
    )


def _labels(kind: InstanceType | None, offering: Offering | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for requirements in (kind and kind.requirements, offering and offering.requirements):
        found |= _single(requirements or {})
    return found


def _single(requirements: Requirements | Mapping[str, object]) -> dict[str, str]:
    """Labels that can have one value only."""
    if not isinstance(requirements, Requirements):
        return {}
    values = {key: requirements.only(key) for key in requirements}
    return {key: value for key, value in values.items() if value is not None}


def _class_labels(machine: Instance, source: Source) -> dict[str, str]:
    found = {INSTANCE_TENANCY: machine.tenancy}
    group = source.resolved.placement_group
    if group is not None:
        found[PLACEMENT_GROUP_ID] = group.id
    if machine.partition:
        found[PLACEMENT_GROUP_PARTITION] = str(machine.partition)
    return found
