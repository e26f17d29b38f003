"""The obvious planner for pods that mind each other, volumes, ports and what they would like.

Where a pod may go is worked out anew for every pod, from who is where. A draft that could still be
in several zones settles on what it would be launched with as soon as a pod has to know, but not
for pods that only have to keep off: these wait until the round is over.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from math import inf
from typing import Final

import msgspec
from tests.support.obvious import Draft, ObviousPlanner, Opening
from tests.support.randomworlds import World
from tests.support.shop import Shop, cost
from tests.support.slowcensus import Census, Place, is_meant
from tests.support.slowlimits import Limits, Settling, company, questions
from tests.support.slowsearch import Option, Search, alternative_of
from tests.support.slowshops import (
    bought,
    clashes,
    has_ports_and_volumes,
    looked_at,
    restricted,
    values,
    without_clashes,
)
from tests.support.slowwants import Want, wants
from tests.support.standing import has_room, in_order, is_welcome

from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import HOSTNAME
from wainwright.model.pod import Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import Requirements
from wainwright.model.taints import PREFER_NO_SCHEDULE
from wainwright.model.topology import Spread

NEVER: Final = Requirements.from_labels({"example.com/nobody": "has-it"})
"""What no pool promises: of an alternative that contradicts the option only slots are left."""


class SlowPlanner(ObviousPlanner):
    def __init__(self, world: World, settling: Settling = Settling.UNLESS_SHUNNED) -> None:
        super().__init__(world)
        self.settling = settling
        self.census = Census()
        self.stuck: set[tuple[int, str]] = set()
        """Drafts that cannot settle on a label before their round is over."""
        self.given_up: dict[str, tuple[GivenUp, ...]] = {}
        self.nodes = in_order(world.snapshot.nodes)
        taints = [taint for shop in self.shops for taint in shop.pool.taints]
        taints += [taint for node in self.nodes for taint in node.lasting_taints]
        self.soft_taints = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)

    def wants(self, pod: Pod) -> Iterator[Want]:
        return wants(pod, self.options.preference_policy, soft_taints=self.soft_taints)

    def is_tied(self, pod: Pod) -> bool:
        """Whether other pods may keep it from some place."""
        company = [*self.snapshot.pods, *(each for node in self.nodes for each in node.pods)]
        shunned = any(is_meant((t,), pod) for each in company for t in each.bonds.anti_affinity)
        return shunned or any(want.spreads or want.near or want.away for want in self.wants(pod))

    def is_servable(self, pod: Pod) -> bool:
        """Whether a pool would still launch a node for it, if nobody else was there."""
        if pod.unsupported or pod.volume_problem is not None:
            return False
        asked = [(want.pod, wanted) for want in self.wants(pod) for wanted in want.pod.alternatives]
        return any(self._opening(*each) is not None for each in asked)

    def _passes(self, left: list[Pod]) -> list[Pod]:
        self.stuck = set()
        return super()._passes(left)

    def _place(self, pod: Pod) -> bool:
        """Gives up preferences one by one, but not for a slot that is merely held by others."""
        if pod.volume_problem is not None:
            return False
        for want in self.wants(pod):
            found = self._place_wanting(want)
            if found and want.given_up:
                self.given_up[pod.key] = want.given_up
            if found is not None:
                return found
        return False

    def _place_wanting(self, want: Want) -> bool | None:
        """None where there is nothing to wait for either."""
        if want.near and not self._is_possible(want):
            return None
        if self._in_company(want):
            return True
        search = Search(want.pod, self._limits(want))
        for number, wanted in enumerate(want.pod.alternatives):
            if self._to_node(want.pod, wanted, search.limits) or self._to_draft(search, number):
                return True
            opening = self._best(search.new, number)
            if opening is not None:
                other = alternative_of(search, opening)
                if other != number and self._to_draft(search, other):
                    return True  # a slot for another alternative, which finds room without it
                if opening.draft is not None:
                    self.drafts.append(opening.draft)
                return opening.draft is not None
        return True if self._steers(want, search.limits.adrift) else None

    def _is_possible(self, want: Want) -> bool:
        """Whether any node or pool is what the pod wants; if none, no draft is to settle for it."""
        pod = want.pod
        return any(
            any(is_welcome(node, pod, wanted) for node in self.nodes)
            or any(shop.joined(shop.node, pod, wanted) is not None for shop in self.shops)
            for wanted in pod.alternatives
        )

    def _steers(self, want: Want, adrift: list[Draft]) -> bool:
        """Joins the one draft that keeps it off by where it may end, as then it cannot."""
        if len(adrift) != 1:
            return False
        search = Search(want.pod, self._limits(want, steered=True))
        count = range(len(want.pod.alternatives))
        return any(self._to_draft(search, number, adrift) for number in count)

    def _in_company(self, want: Want) -> bool:
        """Joins those whom the pod wants to be near, if it is open where all of them will be."""
        self._count()
        for number, terms in enumerate(want.near):
            for each in company(terms):
                found = self.census.by_value(each.key, each.counts)
                afloat = all(draft.launch is None for draft in found.undecided)
                if each.key != HOSTNAME and found.undecided and not found.known and afloat:
                    near = want.near[:number] + want.near[number + 1 :]
                    there = tuple({q.key: None for q in company(terms) if q.key != HOSTNAME})
                    met = msgspec.structs.replace(want, near=near, there=there)
                    search = Search(want.pod, self._limits(met))
                    count = range(len(want.pod.alternatives))
                    return any(self._to_draft(search, n, found.undecided) for n in count)
        return False

    def _limits(self, want: Want, *, steered: bool = False) -> Limits:
        self._count()
        for each in list(questions(self.census, want)):
            for draft in self.census.by_value(each.key, each.counts).undecided:
                if draft.launch is not None or not self.settling.waits(each):
                    self._decide(draft, each.key)
        launchable = partial(self._launchable, want)
        return Limits(self.census, want, launchable, steered=steered)

    def _count(self) -> None:
        standing: list[tuple[Place, list[Pod]]] = [
            (node, [*node.pods, *self.received.get(node.name, ())]) for node in self.nodes
        ]
        self.census.occupied = [*standing, *((draft, draft.pods) for draft in self.drafts)]

    def _decide(self, draft: Draft, key: str) -> None:
        """Has the draft settle on what it would be launched with, if it can."""
        if (id(draft), key) in self.stuck:
            return
        value = bought(draft, draft.launch or self._choice(draft), key)
        narrowed = None if value is None else restricted(draft, key, value)
        if narrowed is not None:
            draft.asked, draft.types, draft.held = narrowed.asked, narrowed.types, narrowed.held
        if narrowed is not None or value is None or draft.launch is not None:
            self.census.settle(draft, key, value)
        else:
            self.stuck.add((id(draft), key))

    def _launchable(self, want: Want, spread: Spread) -> set[str]:
        live = {name for name, count in self.free.items() if count > 0}
        found: set[str] = set()
        for shop in self.shops:
            among = self._within_limits(shop, worst=False)
            for asked in looked_at(shop, want, spread):
                found |= values(shop, spread.key, asked, among, live)
        return found

    def _to_node(self, pod: Pod, wanted: Requirements, limits: Limits) -> bool:
        daemonsets = self.snapshot.daemonsets
        for node in self.nodes:
            there = self.received.setdefault(node.name, [])
            if (
                limits.admits(node)
                and is_welcome(node, pod, wanted)
                and has_room(node, [*there, pod], daemonsets)
                and has_ports_and_volumes(node, [*node.pods, *there], pod, daemonsets)
            ):
                there.append(pod)
                return True
        return False

    def _joinable_by(self, options: Sequence[Option], number: int) -> list[Draft]:
        """The drafts that the pod may join without leaving a slot or a heavier pool aside."""
        drafts = self._joinable()
        slot = max((self._slot_weight(each.pod) for each in options if drafts), default=-inf)
        step = self._best(options, number) if drafts and self.options.strict_weights else None
        least = -inf if step is None else step.shop.pool.weight
        return [
            draft
            for draft in drafts
            if draft.shop.pool.weight >= least and (draft.held or draft.shop.pool.weight > slot)
        ]

    def _to_draft(self, search: Search, number: int, among: Sequence[Draft] | None = None) -> bool:
        """Drafts that have not settled on a label in question have to for the pod's sake."""
        for draft in self._joinable_by(search.new, number):
            if among is not None and draft not in among:
                continue
            joined = self._joined_by(search, number, draft) if search.limits.admits(draft) else None
            if joined is not None:
                draft.asked, draft.types, draft.held = joined.asked, joined.types, joined.held
                draft.pods.append(search.pod)
                return True
        return False

    def _joined_by(self, search: Search, number: int, draft: Draft) -> Draft | None:
        """The draft with the pod on it, in the emptiest place, and then the cheapest."""
        if not search.limits.is_undecided(draft):
            return self._joined(draft, search.pod, search.pod.alternatives[number])
        ways: list[tuple[Draft, list[int]]] = []
        for option in search.options:
            wanted = option.alternatives[number]
            joined = None if wanted is None else self._joined(draft, search.pod, wanted)
            if joined is not None:
                ways.append((joined, option.crowd))
        if not ways or draft.launch is not None:
            return ways[0][0] if ways else None
        return min((way for way, crowd in ways if crowd == ways[0][1]), key=self._price)

    def _price(self, draft: Draft) -> float:
        return cost(*self._choice(draft))

    def _joined(self, draft: Draft, pod: Pod, wanted: Requirements) -> Draft | None:
        if clashes(draft.pods, pod):
            return None
        portless = copy(draft)
        portless.types = without_clashes(draft.shop, draft.types, pod)
        return super()._joined(portless, pod, wanted)

    def _new(
        self,
        shop: Shop,
        pod: Pod,
        wanted: Requirements,
        slots: Collection[str],
        among: Sequence[InstanceType],
    ) -> Draft | None:
        return super()._new(shop, pod, wanted, slots, without_clashes(shop, among, pod))

    def _openings(self, pod: Pod, shops: Iterable[Shop] | None = None) -> Iterator[Opening]:
        """Only asked for the slots among them, of which there are none once all are taken."""
        return super()._openings(pod, shops) if any(self.free.values()) else iter(())

    def _best(self, options: Sequence[Option], number: int) -> Opening | None:
        """The heaviest pool; there a slot before one that is held, and that before any other node.

        Then the emptiest place, and then the cheapest. Open choice: the first among equals.
        """
        found: list[tuple[Opening, list[int]]] = []
        for option in options:
            wanted = option.alternatives[number]
            opening = self._opening(option.pod, NEVER if wanted is None else wanted)
            if opening is not None:
                found.append((opening, option.crowd))
        if not found:
            return None
        best, emptiest = min(found, key=lambda each: _rank(each[0]))
        equal = [o for o, crowd in found if crowd == emptiest and _rank(o) == _rank(best)]
        return min(equal, key=lambda o: 0.0 if o.draft is None else self._price(o.draft))


def _rank(opening: Opening) -> tuple[float, int]:
    kind = 2 if not opening.is_slot else 1 if opening.draft is None else 0
    return -opening.shop.pool.weight, kind
