"""What disruption decides on, without a cluster: the snapshot with the drift that a controller
would have noticed, what exists for each NodePool, and whether the time matters.

Selectors of a class other than those of reservations are resolved by an account only: subnets,
security groups and images of manifests never drift.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from wainwright.api.kubernetes.cluster import Node as WireNode
from wainwright.api.kubernetes.workloads import Pod as WirePod
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    standing_by_time,
)
from wainwright.core.disruption.budgets import DisruptionReason, evaluate_budgets
from wainwright.core.disruption.candidates import is_initialized
from wainwright.core.disruption.disruption_input import DisruptionInput
from wainwright.core.disruption.drift import (
    DRIFTED_CONDITION,
    claim_annotations,
    claim_conditions,
    find_drift,
)
from wainwright.messages.formatting import join_with_and
from wainwright.model.disruption import Condition, Pause
from wainwright.model.instance_type import OfferedTypes
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, RESERVED
from wainwright.model.snapshot import Node, Pool, Snapshot
from wainwright.offline import (
    PreparedInput,
    has_timed_protection,
    known_reservations,
    plan_depends_on_time,
)
from wainwright.translate.disruption import (
    DO_NOT_DISRUPT_ANNOTATION,
    parse_duration,
    paused_by_annotation,
)
from wainwright.translate.object_metadata import namespace_of


def disruption_input(prepared: PreparedInput) -> DisruptionInput:
    """The cluster of the manifests, and what can be launched for it."""
    offered = _offered_types(prepared)
    return DisruptionInput(
        snapshot=_with_drift_of_classes(prepared, offered),
        catalogs={name: catalog.index for name, catalog in prepared.catalogs.items()},
        offered=offered,
        paused=paused_by_annotation(prepared.snapshot.pools, Pause.DISRUPTION),
    )


def _offered_types(prepared: PreparedInput) -> dict[str, OfferedTypes]:
    """By NodePool what exists of the types that its nodes have, without a price included."""
    wanted: dict[str, set[str]] = {}
    for node in prepared.snapshot.nodes:
        if node.managed and node.pool in prepared.catalogs:
            wanted.setdefault(node.pool, set()).add(node.labels.get(INSTANCE_TYPE, ""))
    return {
        pool: _offerings_of(prepared.catalogs[pool], names)
        for pool, names in sorted(wanted.items())
    }


def _offerings_of(catalog: NodeClassCatalog, names: Iterable[str]) -> OfferedTypes:
    return {
        name: tuple(
            offering.requirements
            for offering in catalog.offerings.get(name, ())
            if not offering.is_excluded
        )
        for name in sorted(names)
    }


def _with_drift_of_classes(
    prepared: PreparedInput, offered: Mapping[str, OfferedTypes]
) -> Snapshot:
    """Claims say themselves that they have drifted; for those that do not, the class is compared.

    It is the last of the reasons, so that a claim that has drifted otherwise is left as it is.
    """
    snapshot = prepared.snapshot
    drift = ClassDrift(prepared)
    pools = {pool.name: pool for pool in snapshot.pools}

    def judged(node: Node) -> Node:
        pool = pools.get(node.pool or "")
        if pool is None or not node.managed or DRIFTED_CONDITION in claim_conditions(node):
            return node
        reason = drift.reason(node, pool)
        if reason is None or find_drift(node, pool, offered.get(pool.name), snapshot.now):
            return node
        return with_drifted_condition(node, reason)

    return msgspec.structs.replace(snapshot, nodes=tuple(map(judged, snapshot.nodes)))


def with_drifted_condition(node: Node, reason: str | None) -> Node:
    """The node as if its claim said so, or that it has not drifted; whether it has come up is as
    before. A Node alone says so itself.
    """
    status = "False" if reason is None else "True"
    stated = {DRIFTED_CONDITION: Condition(status=status, reason=reason or "")}
    if node.claim is None:
        return msgspec.structs.replace(node, conditions=node.conditions | stated)
    conditions = node.claim.conditions | stated
    claim = msgspec.structs.replace(node.claim, conditions=conditions)
    return msgspec.structs.replace(node, claim=claim, initialized=is_initialized(node))


NODE_CLASS_DRIFT: Final = "NodeClassDrift"
RESERVATION_DRIFT: Final = "CapacityReservationDrift"


class ClassDrift:
    """Whether a claim is still what its EC2NodeClass would launch, as far as manifests tell."""

    def __init__(self, prepared: PreparedInput) -> None:
        self._catalogs = prepared.catalogs
        self._classes = {
            pool.metadata.name: prepared.manifests.class_of(pool)
            for pool in prepared.manifests.pools
        }
        self._hashes: dict[str, str] = {}
        now = prepared.settings.now
        offered = (ReservationStanding.OFFERED, ReservationStanding.ENDING)
        known = known_reservations(prepared.manifests)
        self._active = {each.id for each in known if standing_by_time(each, now) in offered}

    def reason(self, node: Node, pool: Pool) -> str | None:
        """The reason of the condition Drifted, as the provider would state it."""
        if self._hash_differs(node, pool.name):
            return NODE_CLASS_DRIFT
        is_reserved = node.labels.get(CAPACITY_TYPE) == RESERVED
        deselected = self.deselected_reservations(pool.name) if is_reserved else ()
        return RESERVATION_DRIFT if node.labels.get(RESERVATION_ID) in deselected else None

    def class_hash(self, pool: str) -> str:
        """Equal for classes whose nodes are equal."""
        from wainwright.aws.drift import node_class_hash  # needed for few inputs

        if pool not in self._hashes:
            self._hashes[pool] = node_class_hash(self._classes[pool])
        return self._hashes[pool]

    def deselected_reservations(self, pool: str) -> tuple[str, ...]:
        """Active reservations that the class does not select; that one has ended is no drift."""
        selected = {each.reservation.id for each in self._catalogs[pool].reservations}
        return tuple(sorted(self._active - selected))

    def _hash_differs(self, node: Node, pool: str) -> bool:
        """Hashes of other versions, those of Karpenter included, cannot be compared."""
        from wainwright.aws.drift import (
            CURRENT_HASH_VERSION,
            NODE_CLASS_HASH,
            NODE_CLASS_HASH_VERSION,
        )

        annotations = claim_annotations(node)
        if annotations.get(NODE_CLASS_HASH_VERSION) != CURRENT_HASH_VERSION:
            return False
        return annotations.get(NODE_CLASS_HASH) not in (None, self.class_hash(pool))


def depends_on_time(prepared: PreparedInput) -> bool:
    """Whether anything in the input is compared with the time that the decision is made for."""
    snapshot = prepared.snapshot
    return (
        plan_depends_on_time(prepared)
        or any(budget.schedule for pool in snapshot.pools for budget in pool.disruption.budgets)
        or any(_has_times(node) for node in snapshot.nodes if node.managed)
    )


def _has_times(node: Node) -> bool:
    claim = node.claim
    times = [node.created]
    if claim is not None:
        times += [claim.created, claim.last_pod_event]
        times += [condition.since for condition in claim.conditions.values()]
    return has_timed_protection(node) or any(each is not None for each in times)


def disruption_warnings(prepared: PreparedInput) -> list[str]:
    """What in the input keeps disruption from what its author probably wanted."""
    return [
        *_shared_provider_ids(prepared),
        *(warning for pool in prepared.snapshot.pools for warning in _budget_warnings(pool)),
        *_ignored_protections(prepared),
    ]


def _shared_provider_ids(prepared: PreparedInput) -> Iterator[str]:
    """Nodes and claims are told apart by it: one of several counts as the instance's."""
    manifests = prepared.manifests
    stated = {
        "nodes": [(each.spec.providerID, each.metadata.name) for each in manifests.all(WireNode)],
        "NodeClaims": [
            (each.status.providerID, each.metadata.name)
            for each in manifests.claims
            if each.status is not None
        ],
    }
    for kind, pairs in stated.items():
        names: dict[str, list[str]] = {}
        for provider_id, name in pairs:
            names.setdefault(provider_id, []).append(name)
        for provider_id, same in sorted(names.items()):
            if provider_id and len(same) > 1:
                yield (
                    f"{kind} {join_with_and(sorted(same))} have one provider id, {provider_id}: "
                    "an instance is counted more than once, or a NodeClaim not at all"
                )


def _budget_warnings(pool: Pool) -> Iterator[str]:
    for number, budget in enumerate(pool.disruption.budgets):
        alone = msgspec.structs.replace(
            pool, disruption=msgspec.structs.replace(pool.disruption, budgets=(budget,))
        )
        invalid = evaluate_budgets(alone, (), DisruptionReason.EMPTY, 0.0).invalid
        if invalid:
            yield (
                f"NodePool {pool.name}: spec.disruption.budgets[{number}] cannot be read, so that "
                f"none of its nodes may be disrupted: {invalid}"
            )


def _ignored_protections(prepared: PreparedInput) -> Iterator[str]:
    """Pods whose author probably wanted them to be left alone, and that are not."""
    for pod in prepared.manifests.all(WirePod):
        text = (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT_ANNOTATION)
        if text and text not in ("true", "false") and parse_duration(text) is None:
            yield (
                f"pod {namespace_of(pod.metadata)}/{pod.metadata.name}: the annotation "
                f"{DO_NOT_DISRUPT_ANNOTATION} is {text!r}, expected true or a duration such as 2h; "
                "it is ignored"
            )
