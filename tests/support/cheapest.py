"""The cheapest plan of a tiny world, found by trying every one that there is.

Every pod is on a node of the cluster or shares a new one with any others, of any pool, bought in
any way that suits all of them. Weights and the order of pods do not matter here, and slots of
reservations need not be used: a plan may be cheaper than anything that a planner would come to,
but never dearer than the best that it could.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, product
from math import inf

import msgspec
from tests.support.cases import allows, machine
from tests.support.obvious import shops
from tests.support.randomworlds import World
from tests.support.shop import Shop, cost, is_ordinary, requests_of, sold
from tests.support.standing import has_room, in_order, is_welcome, undemanding

from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.node import Node
from wainwright.model.options import MinValuesPolicy
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, subtract


class Purchase(msgspec.Struct, frozen=True):
    """One way to buy a node for some pods."""

    cost: float
    shop: Shop
    kind: InstanceType
    reservation: str | None

    @property
    def uses(self) -> tuple[str, str | None, tuple[int, ...]]:
        """What others cannot have then: of limits, and of reservations."""
        pool, amounts = self.shop.pool, machine(self.kind)
        return pool.name, self.reservation, tuple(amounts.get(name, 0) for name in pool.limits)


class Ledger(msgspec.Struct, frozen=True):
    """What is left: of limits by pool, of reservations by id, and who is on which node."""

    limits: Mapping[str, Resources]
    slots: Mapping[str, int]
    received: Mapping[str, tuple[Pod, ...]]

    def allows(self, bought: Purchase) -> bool:
        slot, left = bought.reservation, self.limits[bought.shop.pool.name]
        is_free = slot is None or self.slots[slot] > 0
        return is_free and allows(bought.shop, left, bought.kind)

    def after(self, bought: Purchase) -> "Ledger":
        name = bought.shop.pool.name
        limits = {**self.limits, name: subtract(self.limits[name], machine(bought.kind))}
        slots = dict(self.slots)
        if bought.reservation is not None:
            slots[bought.reservation] -= 1
        return msgspec.structs.replace(self, limits=limits, slots=slots)

    def with_pod(self, node: Node, pod: Pod) -> "Ledger":
        received = {**self.received, node.name: (*self.received.get(node.name, ()), pod)}
        return msgspec.structs.replace(self, received=received)


class Cheapest:
    """Looks for it among all plans that place these pods of a world."""

    def __init__(self, world: World, pods: Sequence[Pod]) -> None:
        self._world = world
        self._pods = [undemanding(pod) for pod in pods]
        self._shops = shops(world)
        self._nodes = in_order(world.snapshot.nodes)
        self._gate = world.options.capacity_reservations
        self._strict = world.options.min_values_policy is MinValuesPolicy.STRICT
        self._known: dict[tuple[str, ...], list[Purchase]] = {}

    @cached_property
    def cost(self) -> float:
        """USD per hour with fees; infinite where not all of the pods can have a place."""
        limits = {s.pool.name: subtract(s.pool.limits, s.pool.in_use) for s in self._shops}
        return self._cost(self._pods, Ledger(limits, self._slots, {}))

    def _cost(self, left: Sequence[Pod], ledger: Ledger) -> float:
        """Whatever the first pod may do, and then the best for the others."""
        if not left:
            return 0.0
        first, others = left[0], left[1:]
        best = min(
            (self._cost(others, ledger.with_pod(n, first)) for n in self._open_to(first, ledger)),
            default=inf,
        )
        for company in subsets(others):
            rest = [pod for pod in others if pod not in company]
            for bought in self._purchases((first, *company)):
                if bought.cost < best and ledger.allows(bought):
                    best = min(best, bought.cost + self._cost(rest, ledger.after(bought)))
        return best

    def _open_to(self, pod: Pod, ledger: Ledger) -> Iterator[Node]:
        for node in self._nodes:
            together = [*ledger.received.get(node.name, ()), pod]
            if any(is_welcome(node, pod, wanted) for wanted in pod.alternatives) and has_room(
                node, together, self._world.snapshot.daemonsets
            ):
                yield node

    def _purchases(self, pods: Sequence[Pod]) -> list[Purchase]:
        """Every way to buy one node for all of them; of those that use up the same the cheapest."""
        key = tuple(pod.key for pod in pods)
        if key not in self._known:
            ways = [each for shop in self._shops for each in self._at(shop, pods)]
            ways.sort(key=lambda each: -each.cost)
            self._known[key] = list({each.uses: each for each in ways}.values())
        return self._known[key]

    def _at(self, shop: Shop, pods: Sequence[Pod]) -> Iterator[Purchase]:
        requests, slots = requests_of(pods), [name for name, n in self._slots.items() if n]
        for alternatives in product(*(pod.alternatives for pod in pods)):
            asked = _joined(shop, pods, alternatives)
            types = [] if asked is None else shop.buyable(asked, requests, slots, shop.types)
            if asked is not None and self._is_diverse(shop, asked, types, slots):
                offers = [(k, each) for k in types for each in sold(k, asked, slots)]
                for kind, offering in _launched(shop, asked, offers):
                    yield Purchase(cost(kind, offering), shop, kind, offering.reservation_id)

    def _is_diverse(
        self,
        shop: Shop,
        asked: Requirements,
        types: Sequence[InstanceType],
        slots: Collection[str],
    ) -> bool:
        counts = shop.counts(asked, types, slots) if self._strict else {}
        return all(count >= (asked[key].min_values or 0) for key, count in counts.items())

    @cached_property
    def _slots(self) -> dict[str, int]:
        """Free slots by reservation: the fewest that any pool is told of, less those promised."""
        free: dict[str, int] = {}
        kinds = [kind for shop in self._shops for kind in shop.types if self._gate]
        for each in (offering for kind in kinds for offering in kind.offerings):
            if each.reservation_id is not None:
                known = free.get(each.reservation_id, each.available)
                free[each.reservation_id] = min(known, each.available)
        for node in self._world.snapshot.nodes:
            name = node.reservation_id or ""
            if not node.launched and not node.deleting and free.get(name):
                free[name] -= 1
        return free


def subsets(pods: Sequence[Pod]) -> Iterator[tuple[Pod, ...]]:
    for size in range(len(pods) + 1):
        yield from combinations(pods, size)


def _joined(
    shop: Shop, pods: Sequence[Pod], alternatives: Sequence[Requirements]
) -> Requirements | None:
    asked: Requirements | None = shop.node
    for pod, wanted in zip(pods, alternatives, strict=True):
        asked = None if asked is None else shop.joined(asked, pod, wanted)
    return asked


def _launched(
    shop: Shop, asked: Requirements, offers: Sequence[tuple[InstanceType, Offering]]
) -> Sequence[tuple[InstanceType, Offering]]:
    """Not whole machines and accelerators, unless they are asked for or alone.

    minValues and limits may leave a claim nothing else, whatever there is: then anything goes.
    """
    if shop.minimums or shop.pool.limits:
        return offers
    reserved = [pair for pair in offers if pair[1].reservation_id is not None]
    other = [pair for pair in offers if pair[1].reservation_id is None]
    ordinary = [pair for pair in other if is_ordinary(pair[0], asked)]
    return [*reserved, *(ordinary or other)]
