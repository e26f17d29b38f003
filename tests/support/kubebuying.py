"""A plan whose nodes are bought in other ways than the one that it names: any that is left."""

from random import Random

import msgspec
from tests.support.randomworlds import World
from tests.support.shop import sold

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.plan import Launch, Plan, PlannedClaim
from wainwright.model.requirements import Requirement, Requirements


def bought_otherwise(world: World, plan: Plan, dice: Random) -> Plan:
    """The same plan where each claim is launched with any of the offerings left to it."""
    claims = tuple(_bought(claim, _offers(world, claim), dice) for claim in plan.claims)
    return msgspec.structs.replace(plan, claims=claims)


def _offers(world: World, claim: PlannedClaim) -> list[tuple[InstanceType, Offering]]:
    held = claim.choices.reservation_ids
    found = [
        (kind, offering)
        for kind in world.types[claim.pool]
        if kind.name in claim.choices.instance_types
        for offering in sold(kind, claim.requirements, held)
        if offering.zone and offering.capacity_type
    ]
    return [each for each in found if each[1].reservation_id or not held]


def _bought(
    claim: PlannedClaim, offers: list[tuple[InstanceType, Offering]], dice: Random
) -> PlannedClaim:
    if not offers:
        return claim
    kind, offering = dice.choice(offers)
    launch = Launch(
        instance_type=kind.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type or "",
        price=offering.price,
        reservation_id=offering.reservation_id,
    )
    return msgspec.structs.replace(claim, launch=launch)


def without_min_values(world: World) -> World:
    """Who has to keep several zones open cannot settle on one for the sake of others' pods."""
    pools = tuple(
        msgspec.structs.replace(
            pool,
            requirements=Requirements(
                Requirement(key=key, allowed=found.allowed)
                for key, found in pool.requirements.items()
            ),
        )
        for pool in world.snapshot.pools
    )
    snapshot = msgspec.structs.replace(world.snapshot, pools=pools)
    return msgspec.structs.replace(world, snapshot=snapshot)
