"""The obvious planner for pods that mind each other, volumes, ports and what they would like.

Where a pod may go is worked out anew for every pod, from who is where. A draft that could still be
in several zones settles on what it would be launched with as soon as a pod has to know; with
`hasty` off it does so only when its round is over.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from math import inf
from typing import Final

from tests.support.obvious import Draft, ObviousPlanner, Opening
from tests.support.randomworlds import World
from tests.support.shop import Shop
from tests.support.slowcensus import Census, Place, is_meant
from tests.support.slowlimits import Limits, questions
from tests.support.slowsearch import Option, Search, alternative_of
from tests.support.slowshops import (
    bought,
    clashes,
    looked_at,
    restricted,
    runs_on,
    values,
    without_clashes,
)
from tests.support.slowwants import Want, wants
from tests.support.standing import has_room, in_order, is_welcome

from wainwright.model.instance_type import InstanceType
from wainwright.model.node import Node
from wainwright.model.pod import Pod
from wainwright.model.preference import GivenUp
from wainwright.model.requirements import Requirements
from wainwright.model.taints import PREFER_NO_SCHEDULE
from wainwright.model.topology import Spread

NEVER: Final = Requirements.from_labels({"example.com/nobody": "has-it"})
"""What no pool promises: of an alternative that contradicts the option only slots are left."""


class SlowPlanner(ObviousPlanner):
    def __init__(self, world: World, *, hasty: bool = True) -> None:
        super().__init__(world)
        self.hasty = hasty
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
        return None

    def _limits(self, want: Want) -> Limits:
        self._count()
        for key, counts in list(questions(self.census, want)):
            for draft in self.census.by_value(key, counts).undecided:
                self._decide(draft, key)
        return Limits(self.census, want, lambda spread: self._launchable(want, spread))

    def _count(self) -> None:
        standing: list[tuple[Place, list[Pod]]] = [
            (node, [*node.pods, *self.received.get(node.name, ())]) for node in self.nodes
        ]
        self.census.occupied = [*standing, *((draft, draft.pods) for draft in self.drafts)]

    def _decide(self, draft: Draft, key: str) -> None:
        """Has the draft settle on what it would be launched with, if it can."""
        if not self.hasty and draft.launch is None:
            self.stuck.add((id(draft), key))
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
        for node in self.nodes:
            there = self.received.setdefault(node.name, [])
            if (
                limits.admits(node)
                and is_welcome(node, pod, wanted)
                and has_room(node, [*there, pod], self.snapshot.daemonsets)
                and self._has_ports_and_volumes(node, [*node.pods, *there], pod)
            ):
                there.append(pod)
                return True
        return False

    def _has_ports_and_volumes(self, node: Node, there: list[Pod], pod: Pod) -> bool:
        agents = [each for each in self.snapshot.daemonsets if runs_on(node, each)]
        if clashes(there, pod) or clashes(agents, pod):
            return False
        for driver, most in node.attach_limits.items():
            own = {each for each in pod.bonds.attachments if each.driver == driver}
            others = {o for each in there for o in each.bonds.attachments if o.driver == driver}
            if own and len(own | others) > most:
                return False
        return True

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

    def _to_draft(self, search: Search, number: int) -> bool:
        """Drafts that have not settled on a label in question have to for the pod's sake."""
        for draft in self._joinable_by(search.new, number):
            if not search.limits.admits(draft):
                continue
            tried: list[Requirements | None] = [search.pod.alternatives[number]]
            if search.limits.is_undecided(draft):
                tried = [option.alternatives[number] for option in search.options]
            for wanted in tried:
                joined = None if wanted is None else self._joined(draft, search.pod, wanted)
                if joined is not None:
                    draft.asked, draft.types, draft.held = joined.asked, joined.types, joined.held
                    draft.pods.append(search.pod)
                    return True
        return False

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

        Open choice: the first of the options among equals.
        """
        wanted = [(option.pod, option.alternatives[number]) for option in options]
        found = [self._opening(pod, NEVER if each is None else each) for pod, each in wanted]
        return min((each for each in found if each is not None), key=_rank, default=None)


def _rank(opening: Opening) -> tuple[float, int]:
    kind = 2 if not opening.is_slot else 1 if opening.draft is None else 0
    return -opening.shop.pool.weight, kind
