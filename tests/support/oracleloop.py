"""The oracle looped like our rounds: what it claims is launched, until no pod gains a place.

A claim becomes a machine under way, bought as our launch choice would buy it: a NodeClaim with an
instance, and a node that has joined and is not ready yet, with the claim's pods bound to it.
"""

from collections.abc import Mapping
from math import fsum
from typing import Final

from msgspec.structs import replace
from tests.support.oracle import Answer, Claim, Oracle
from tests.support.oraclecatalogue import Manifest, allocatable
from tests.support.oraclemachines import (
    as_planned,
    bound_to,
    labels_of,
    node_of,
    with_slot_taken,
)
from tests.support.oracleours import Launched, Outcome
from tests.support.oracleworlds import World

from wainwright.core.launch import Buy, choose, left_to
from wainwright.model.index import TypeIndex

MOST: Final = 60  # loops; each places a pod, and worlds have hardly more of them that wait


class Quarrel(RuntimeError):
    """The two sides do not even agree on what can be bought."""


def theirs(oracle: Oracle, world: World, indexes: Mapping[str, TypeIndex]) -> Outcome:
    """What the reference comes to; `indexes` are the catalogues that its claims are bought from."""
    loop = _Loop(world, indexes)
    for number in range(1, MOST + 1):
        answer = oracle.ask(loop.world.question())
        if not loop.took(answer):
            return loop.outcome(answer, number)
    raise Quarrel(f"{world.profile}/{world.seed}: still at work after {MOST} loops")


class _Loop:
    """The world as it is by now, and what has been launched."""

    def __init__(self, world: World, indexes: Mapping[str, TypeIndex]) -> None:
        self.world = world
        self._indexes = indexes
        self._launched: list[Launched] = []
        self._placed: set[str] = set()
        self._homes: dict[str, int] = {}
        """Which of the launched machines has this provider id."""

    def took(self, answer: Answer) -> bool:
        """Lets the answer come true; False where there is nothing in it."""
        joining = {pod: home.providerID for home in answer.existing for pod in home.pods}
        opening: dict[str, str] = {}
        for claim in answer.claims:
            opening |= dict.fromkeys(claim.pods, self._launch(claim))
        self._bind(opening | joining)
        for pod in opening.keys() | joining.keys():
            self._enter(pod, opening.get(pod) or joining[pod], joined=pod in joining)
        return bool(opening or joining)

    def outcome(self, last: Answer, loops: int) -> Outcome:
        return Outcome(
            placed=frozenset(self._placed),
            cost=fsum(each.price for each in self._launched),
            launched=tuple(self._launched),
            errors={each.pod: each.message for each in last.errors},
            loops=loops,
            final=self.world,
        )

    def _launch(self, claim: Claim) -> str:
        """Buys it; gives the provider id of the new machine."""
        index = self._indexes[claim.nodePool]
        buy = self._bought(claim, index)
        number, kind = len(self._launched), index.types[buy.row].name
        provider = f"aws:///{buy.offering.zone}/i-launched-{number:03}"
        self._homes[provider] = number
        self._launched.append(
            Launched(
                pool=claim.nodePool,
                instance_type=kind,
                zone=buy.offering.zone,
                capacity_type=buy.offering.capacity_type or "",
                price=buy.offering.price,
                pods=(),
                reservation_id=buy.offering.reservation_id,
                instance_types=claim.instanceTypes,
                zones=tuple(sorted({each.zone for each in claim.offerings})),
                capacity_types=tuple(sorted({each.capacityType for each in claim.offerings})),
            )
        )
        self._stand_up(f"launched-{number:03}", provider, claim, buy, kind)
        return provider

    def _bought(self, claim: Claim, index: TypeIndex) -> Buy:
        """What our launch choice takes of what was left to the claim."""
        slots = {each["reservationID"]: each["available"] for each in self._offerings()}
        try:
            buy = choose(left_to(as_planned(claim), index), lambda name: int(slots[name]))
        except AssertionError:
            raise Quarrel(f"nothing that {claim} may buy is sold") from None
        name, bought = index.types[buy.row].name, buy.offering
        wanted = (name, bought.zone, bought.capacity_type, bought.reservation_id)
        left = {
            (each.instanceType, each.zone, each.capacityType, each.reservationID)
            for each in claim.offerings
        }
        if wanted not in left:
            raise Quarrel(f"we would buy {wanted}, which was not left to {claim}")
        return buy

    def _offerings(self) -> list[Manifest]:
        return [each for kind in self.world.types for each in kind["offerings"]]

    def _stand_up(self, name: str, provider: str, claim: Claim, buy: Buy, kind: str) -> None:
        """Adds the claim and its node to the world, and takes its slot from the reservation."""
        sold = next(each for each in self.world.types if each["name"] == kind)
        assert claim.nodeClaim is not None
        made, bought = claim.nodeClaim, buy.offering
        labels = labels_of(made, sold, buy)
        status = {"capacity": sold["capacity"], "allocatable": allocatable(sold)}
        claimed = {
            **made,
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": labels},
            "status": {**status, "nodeName": name, "providerID": provider},
        }
        types = [with_slot_taken(each, bought.reservation_id) for each in self.world.types]
        objects = (*self.world.objects, claimed, node_of(claimed))
        self.world = replace(self.world, objects=objects, types=tuple(types))

    def _bind(self, bound: Mapping[str, str]) -> None:
        """Puts pods on nodes, which are known by their provider id or, if foreign, by name."""
        self._join(set(bound.values()))
        names = {
            each["spec"].get("providerID") or each["metadata"]["name"]: each["metadata"]["name"]
            for each in self.world.kinds("Node")
        }
        homes = {pod: names[provider] for pod, provider in bound.items()}
        objects = tuple(bound_to(each, homes) for each in self.world.objects)
        self.world = replace(self.world, objects=objects)

    def _join(self, providers: set[str]) -> None:
        """Gives claims that receive pods their node, if the world began before it had joined."""
        joined = {each["spec"].get("providerID") for each in self.world.kinds("Node")}
        nodes = tuple(
            node_of(claim)
            for claim in self.world.kinds("NodeClaim")
            if claim["status"]["providerID"] in providers - joined
        )
        self.world = replace(self.world, objects=(*self.world.objects, *nodes))

    def _enter(self, pod: str, provider: str, *, joined: bool) -> None:
        """Remembers where the pod went, if that was launched here."""
        self._placed.add(pod)
        number = self._homes.get(provider)
        if number is not None:
            old = self._launched[number]
            came = (*old.joined, pod) if joined else old.joined
            self._launched[number] = replace(old, pods=(*old.pods, pod), joined=came)
