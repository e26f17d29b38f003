"""Neighbours: every pod where the plan has it, to ask what ties each to its place."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from wainwright.core.drafts import DraftTable
from wainwright.core.idleness.homes import Homes
from wainwright.core.idleness.ties import Tie
from wainwright.core.nodes import NodeTable
from wainwright.core.relax import Degree, degrees
from wainwright.core.slack import Slack
from wainwright.core.solve import stocked
from wainwright.core.templates import Template
from wainwright.core.topology.bound import bound
from wainwright.core.topology.registry import Registry, Standing
from wainwright.core.topology.topology import Topology
from wainwright.model.node import Node
from wainwright.model.options import PreferencePolicy
from wainwright.model.plan import Plan, PlannedClaim
from wainwright.model.pod import NO_BONDS, Bonds, Pod
from wainwright.model.preference import GivenUp
from wainwright.model.snapshot import Snapshot


class Neighbours:
    """The cluster as the plan leaves it, counted."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        homes: Homes,
        policy: PreferencePolicy,
    ) -> None:
        self._homes = homes
        self._policy = policy
        self._registry = Registry()
        running = (pod for node in snapshot.nodes if not node.deleting for pod in node.pods)
        self._registry.introduce(snapshot.pods, running)
        settled = _settled(snapshot, plan, homes) if self._registry.groups else ()
        self._table = NodeTable(settled, ())
        self._numbers = {node.name: number for number, node in enumerate(self._table.nodes)}
        self._degrees: dict[tuple[Bonds, tuple[GivenUp, ...]], Degree] = {}
        self._ties: dict[object, Tie | None] = {}

    def count(self, templates: Sequence[Template], free: Mapping[str, int]) -> None:
        """To be called before anything is asked; pools say where pods could be besides."""
        if self._registry.groups:
            stock = stocked(templates, Counter(free), gate=True)
            stock.begin_round()
            drafts = DraftTable(templates, Slack((), 0))
            Topology(self._registry, templates, self._table, drafts, stock).refresh_all()

    @property
    def keys(self) -> list[str]:
        """The labels by which anything is counted."""
        return self._registry.keys

    def tie(self, pod: Pod, claim: PlannedClaim, given_up: tuple[GivenUp, ...]) -> Tie | None:
        """None for a pod that may be anywhere; for those that are alike it is the very same."""
        standing = self._registry.standing(pod)
        if not self._registry.groups or (pod.bonds is NO_BONDS and not standing.shunned):
            return None
        number = self._numbers[claim.name]
        counting = frozenset(self._counting(pod, standing, number))
        labels = self._table.nodes[number].labels
        here = tuple(labels.get(key) for key in self._registry.keys)
        looks = (pod.namespace, *pod.labels.items(), pod.bonds, pod.alternatives, pod.tolerations)
        key = (looks, given_up, counting, here)
        if key not in self._ties:
            found = bound(pod, self._degree(pod.bonds, given_up), self._registry, standing)
            self._ties[key] = None if found is None else Tie(found, counting, labels.__getitem__)
        return self._ties[key]

    def _counting(self, pod: Pod, standing: Standing, number: int) -> Iterator[int]:
        """The groups that count the pod on this node."""
        own = (self._registry.shunned(term) for term in pod.bonds.anti_affinity)
        labels = self._table.nodes[number].labels
        for group in (*standing.counted, *own):
            is_labelled = group.key in labels or group.key not in self._registry.keys
            if group.nodes >> number & 1 and is_labelled:
                yield group.number

    def _degree(self, bonds: Bonds, given_up: tuple[GivenUp, ...]) -> Degree:
        """What the pod still asked for when it found its place."""
        key = (bonds, given_up)
        if key not in self._degrees:
            every = list(degrees(bonds, self._policy, tainted=True))
            self._degrees[key] = next(
                (each for each in every if each.given_up == given_up), every[-1]
            )
        return self._degrees[key]


def _settled(snapshot: Snapshot, plan: Plan, homes: Homes) -> Iterator[Node]:
    """The nodes with the pods that they receive, and the new ones with theirs."""
    pods = {pod.key: pod for pod in snapshot.pods}
    taints = {pool.name: pool.taints for pool in snapshot.pools}
    received = {each.node: [pods[key] for key in each.pods] for each in plan.placements}
    for node in snapshot.nodes:
        yield msgspec.structs.replace(node, pods=(*node.pods, *received.get(node.name, ())))
    for claim in plan.claims:
        yield homes.node(claim, (pods[key] for key in claim.pods), taints[claim.pool])
