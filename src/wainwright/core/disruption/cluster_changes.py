"""The cluster as it will be: after a plan was carried out, or after nodes were disrupted.

A preview goes on from there without a cloud: planned nodes become nodes of the snapshot, and pods
are where they were planned.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from wainwright.core.disruption.drift import DRIFTED_CONDITION
from wainwright.model.disruption import Condition, NodeClaimState
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    REGISTERED,
    RESERVATION_ID,
    WELL_KNOWN_LABELS,
    ZONE,
)
from wainwright.model.plan import NodeAssignment, Plan, PlannedNodeClaim
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources
from wainwright.model.snapshot import NODES_LIMIT, Node, Pool, Snapshot

Catalogs = Mapping[str, InstanceTypeIndex]

NOT_DRIFTED: Final = {DRIFTED_CONDITION: Condition(status="False")}
"""Of a node that was launched as its NodePool is now. Which value it has of a label that the
NodePool leaves open is not known before, so that its requirements could not tell.
"""


class ClusterChanges:
    """Makes snapshots of the same NodePools and catalogs from earlier ones."""

    def __init__(self, pools: Iterable[Pool], catalogs: Catalogs) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._types = types_by_name(catalogs)

    def after_plan(self, snapshot: Snapshot, plan: Plan) -> Snapshot:
        """Pending pods are on their nodes, and new nodes are in flight; unplaced pods are gone."""
        pods = {pod.key: pod for pod in snapshot.pods}
        new_nodes = [self._node(claim, pods, in_flight=True) for claim in plan.claims]
        nodes = _with_pods(snapshot.nodes, plan.placements, pods)
        return self._changed(snapshot, [*nodes, *new_nodes])

    def after_removal(
        self,
        snapshot: Snapshot,
        removed: Iterable[str],
        placements: Sequence[NodeAssignment],
        replacements: Sequence[PlannedNodeClaim],
        other_nodes: Iterable[Node] = (),
    ) -> Snapshot:
        """The nodes are gone, their pods are where they were placed, and replacements are there,
        besides nodes of which nobody can say what they will be.
        """
        gone = set(removed)
        pods = {pod.key: pod for node in snapshot.nodes if node.name in gone for pod in node.pods}
        kept = [node for node in snapshot.nodes if node.name not in gone]
        new_nodes = [self._node(claim, pods, in_flight=False) for claim in replacements]
        nodes = _with_pods([*kept, *other_nodes], placements, pods)
        return self._changed(snapshot, [*nodes, *new_nodes])

    def _changed(self, snapshot: Snapshot, nodes: Sequence[Node]) -> Snapshot:
        """What limits count is changed by these nodes, and not added up anew: it may be more than
        the nodes say, as where the launch of a claim has failed and may come to its largest type.
        """
        added = _usage(_missing_from(snapshot.nodes, nodes))
        gone = _usage(_missing_from(nodes, snapshot.nodes))
        pools = tuple(
            msgspec.structs.replace(
                pool, in_use=_in_use_after(pool, added[pool.name], gone[pool.name])
            )
            for pool in snapshot.pools
        )
        return msgspec.structs.replace(snapshot, pods=(), nodes=tuple(nodes), pools=pools)

    def _node(self, claim: PlannedNodeClaim, pods: Mapping[str, Pod], *, in_flight: bool) -> Node:
        pool = self._pools[claim.pool]
        instance_type = self._types[claim.pool][claim.launch.instance_type]
        return Node(
            name=claim.name,
            labels=_labels(claim, pool, instance_type),
            taints=pool.taints,
            allocatable=instance_type.allocatable,
            capacity=instance_type.capacity,
            pods=tuple(pods[key] for key in claim.pods if key in pods),
            pool=claim.pool,
            initialized=not in_flight,
            # Until it is launched the catalogue does not know that its reservation is used.
            launched=False,
            reservation_id=claim.launch.reservation_id,
            claim=NodeClaimState(
                name=claim.name,
                conditions=NOT_DRIFTED,
                expire_after=pool.disruption.expire_after,
            ),
        )


def _missing_from(known: Iterable[Node], nodes: Iterable[Node]) -> list[Node]:
    """The same object is the same node: most of a large cluster is in both."""
    ids = {*map(id, known)}
    return [node for node in nodes if id(node) not in ids]


def _usage(nodes: Iterable[Node]) -> defaultdict[str, Counter[str]]:
    """What the nodes count for against limits, by NodePool."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if node.pool is not None:
            found[node.pool].update(node.capacity)
            found[node.pool][NODES_LIMIT] += 1
    return found


def _in_use_after(pool: Pool, added: Counter[str], gone: Counter[str]) -> Resources:
    names = sorted({*pool.in_use, *added})
    amounts = {name: pool.in_use.get(name, 0) + added[name] - gone[name] for name in names}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def types_by_name(catalogs: Catalogs) -> dict[str, dict[str, InstanceType]]:
    """By NodePool; those that share a catalogue share what is found: made after every command, a
    thousand types for each of hundreds of NodePools took longer than the command.
    """
    indexes = {id(index): index for index in catalogs.values()}
    types = {key: {each.name: each for each in index.types} for key, index in indexes.items()}
    return {name: types[id(index)] for name, index in catalogs.items()}


def unknown_node(replaced: Node, pool: Pool, name: str) -> Node:
    """In place of a node, one of the same NodePool that nobody can launch now: as large, but
    without an instance type, and so without a price.
    """
    labels = {**replaced.labels, **pool.labels, HOSTNAME: name}
    labels.pop(INSTANCE_TYPE, None)
    return msgspec.structs.replace(
        replaced,
        name=name,
        labels=labels,
        taints=pool.taints,
        pods=(),
        initialized=False,
        launched=False,
        reservation_id=None,
        claim=NodeClaimState(name=name, conditions=NOT_DRIFTED),
    )


def _labels(claim: PlannedNodeClaim, pool: Pool, instance_type: InstanceType) -> dict[str, str]:
    launch = claim.launch
    sources = (instance_type.requirements, *_offering_labels(claim, instance_type))
    known = {
        key: allowed.any_value()
        for source in sources
        for key in source
        if not (allowed := source.allowed(key) & claim.requirements.allowed(key)).open
        and not allowed.is_empty
    }
    # Of labels that only the NodePool defines a node gets one of the values that are left.
    brought = WELL_KNOWN_LABELS.union(*sources)
    for key, requirement in claim.requirements.items():
        allowed = requirement.allowed
        if allowed.length == 1 or (key not in brought and not allowed.admits_absence):
            known[key] = allowed.any_value()
    chosen = {
        INSTANCE_TYPE: launch.instance_type,
        ZONE: launch.zone,
        CAPACITY_TYPE: launch.capacity_type,
        RESERVATION_ID: launch.reservation_id,
        NODEPOOL: pool.name,
        **pool.node_class_labels,
        HOSTNAME: claim.name,
        REGISTERED: "true",
        INITIALIZED: "true",
    }
    stated = {key: value for key, value in chosen.items() if value is not None}
    return dict(sorted((known | pool.labels | stated).items()))


def _offering_labels(
    claim: PlannedNodeClaim, instance_type: InstanceType
) -> Iterator[Requirements]:
    """The labels of the offering that would be launched, such as the id of its zone."""
    launch = claim.launch
    for offering in instance_type.offerings:
        if (
            (offering.price, offering.reservation_id) == (launch.price, launch.reservation_id)
            and offering.zone in (None, launch.zone)
            and offering.capacity_type in (None, launch.capacity_type)
        ):
            yield offering.requirements
            return


def _with_pods(
    nodes: Iterable[Node], placements: Iterable[NodeAssignment], pods: Mapping[str, Pod]
) -> list[Node]:
    received = {each.node: [pods[key] for key in each.pods] for each in placements}
    return [
        msgspec.structs.replace(node, pods=(*node.pods, *received[node.name]))
        if node.name in received
        else node
        for node in nodes
    ]


def with_returned(catalogs: Catalogs, returned: Mapping[str, int]) -> Catalogs:
    """The catalogs when so many instances of reservations are available again, by id."""
    if not returned:
        return catalogs
    changed: dict[int, InstanceTypeIndex] = {}
    for index in catalogs.values():
        if id(index) not in changed:
            changed[id(index)] = _index_with_returned(index, returned)
    return {name: changed[id(index)] for name, index in catalogs.items()}


def _index_with_returned(
    index: InstanceTypeIndex, returned: Mapping[str, int]
) -> InstanceTypeIndex:
    def with_returned(offering: Offering) -> Offering:
        count = returned.get(offering.reservation_id or "", 0)
        return msgspec.structs.replace(offering, available=offering.available + count)

    types = [
        msgspec.structs.replace(each, offerings=tuple(map(with_returned, each.offerings)))
        if any(offering.reservation_id in returned for offering in each.offerings)
        else each
        for each in index.types
    ]
    return InstanceTypeIndex(types, zones=index.zones, previous=index)
