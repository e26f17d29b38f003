"""Laws of reservations kept idle by company: who is named was truly in the way."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.kubebinding import Cluster
from tests.support.kubefilter import Host, refusal
from tests.support.randomworlds import World
from tests.support.tiedworlds import mixed_world, tied_world

from wainwright.core.idleness.idle import idle
from wainwright.core.plan import plan
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, RESERVED
from wainwright.model.obstacle import Crowded, Elsewhere, KeptOff, Tied
from wainwright.model.plan import Plan
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Reservation

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller world
MANY = settings(max_examples=settings().max_examples * 4, phases=UNSHRUNK)
FREE = (Requirements(),)
ROOM = {"cpu": 10**9, "memory": 10**15, "pods": 10**6}


@MANY
@given(seed=SEEDS)
def test_among_pods_that_mind_each_other(seed: int) -> None:
    assert_named_truly(tied_world(seed))


@MANY
@given(seed=SEEDS)
def test_among_pods_of_which_some_do(seed: int) -> None:
    assert_named_truly(mixed_world(seed))


@pytest.mark.parametrize("seed", [873])
def test_what_was_in_the_way_only_for_a_while_is_not_named(seed: int) -> None:
    """A new node that might have counted for the spread has become one that does not."""
    world = mixed_world(seed)
    found = [kept.reason for _, kept in stocktaking(world, planned(world))]
    assert Crowded() in found
    assert not any(isinstance(each, Elsewhere) for each in found)


def planned(world: World) -> Plan:
    return plan(world.snapshot, world.catalogs, world.options, advise=False)


def stocktaking(world: World, made: Plan) -> list[tuple[str, KeptOff]]:
    if not world.options.capacity_reservations:
        return []
    uses = made.reservations
    listed = tuple(Reservation(id=u.id, total=u.total, available=u.available) for u in uses)
    snapshot = msgspec.structs.replace(world.snapshot, reservations=listed)
    found = idle(snapshot, world.catalogs, made, world.options)
    return [(one.id, kept) for one in found for kept in one.kept]


def assert_named_truly(world: World) -> None:
    made = planned(world)
    for name, kept in stocktaking(world, made):
        assert not isinstance(kept.reason, Elsewhere), kept
        if isinstance(kept.reason, Tied):
            for key in kept.pods:
                assert is_named_truly(world, made, name, kept, key), kept


def is_named_truly(world: World, made: Plan, name: str, kept: KeptOff, key: str) -> bool:
    """Whether a kube-scheduler would keep the pod off a machine of the reservation.

    What the pod would only like, and places where no node is yet, it does not know.
    """
    cluster = Cluster(world, made)
    pod = next(each for each, _ in cluster.waiting if each.key == key)
    if is_beyond(pod):
        return True
    for other, host in cluster.waiting:
        if other is not pod:
            host.pods.append(other)
    slots = hosts(world, name, kept.pool)
    # Where the reservation is for several types, others may not suit the pod for other reasons.
    return any(refusal(anybody(pod), slot, [*cluster.hosts, slot]) for slot in slots)


def is_beyond(pod: Pod) -> bool:
    bonds = pod.bonds
    return bool(bonds.spreads or bonds.preferred_affinity or bonds.preferred_anti_affinity)


def anybody(pod: Pod) -> Pod:
    """The pod with nothing but what ties it to others."""
    bonds = msgspec.structs.replace(pod.bonds, ports=(), attachments=(), volume_places=FREE)
    return msgspec.structs.replace(pod, requests={}, alternatives=FREE, bonds=bonds)


def hosts(world: World, name: str, pool: str) -> list[Host]:
    """New machines of the reservation, one for each type that it is for."""
    asked = next(each for each in world.snapshot.pools if each.name == pool).node_requirements
    return [
        Host("new", labels(asked, kind, offer), (), dict(ROOM))
        for kind in world.catalogs[pool].types
        for offer in kind.offerings
        if offer.reservation_id == name
    ]


def labels(asked: Requirements, kind: InstanceType, offer: Offering) -> dict[str, str]:
    every = kind.requirements.narrow(offer.requirements).narrow(asked)
    known = {key: value for key in every if (value := every.only(key)) is not None}
    return {**known, CAPACITY_TYPE: RESERVED, HOSTNAME: "new"}
