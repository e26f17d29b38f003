"""The managed nodes among the manifests of a scenario: each is a running instance from the start.

A Node, its NodeClaim, or both are completed to what a kubelet and the controllers would have
written, so that the controllers find a cluster that they could have made themselves.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from random import Random
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import ClaimRequirement
from wainwright.api.kubernetes.cluster import Node, NodeCondition
from wainwright.api.wire import Condition, ObjectMeta, OwnerReference
from wainwright.catalogue.class_catalog import CatalogBuilder, NodeClassCatalog
from wainwright.clock import format_timestamp
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.selected_resources import SelectedResources
from wainwright.errors import AwsError
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.model.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_TYPE,
    REGISTERED,
    ZONE,
)
from wainwright.model.resources import Resources, format_quantity
from wainwright.offline import PlanSettings, catalog_inputs, catalog_scope, choose_region
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.object_store import metadata_of
from wainwright.sim.running_instances import RunningInstances, label_of
from wainwright.translate.node_claim_pairing import NodeWithClaim, pair_nodes_with_claims

TERMINATION_FINALIZER: Final = "karpenter.sh/termination"
UNREGISTERED_TAINT: Final = "karpenter.sh/unregistered"
NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"
EC2_CLASS_GROUP: Final = "karpenter.k8s.aws"


class InitialNodes:
    """Loads nodes and claims into the API server, and their instances into the account."""

    def __init__(
        self,
        manifests: ClusterManifests,
        classes: Iterable[EC2NodeClass],
        api: InMemoryApiServer,
        account: EmulatedAwsAccount,
        resources: SelectedResources,
        random: Random,
    ) -> None:
        self._manifests = manifests
        self._classes = {each.metadata.name: each for each in classes}
        self._pools = {each.metadata.name: each for each in manifests.pools}
        self._api = api
        self._account = account
        self._random = random
        self._start = account.clock.now()
        self._instances = RunningInstances(account, resources)
        self._catalogs: dict[str, NodeClassCatalog] = {}
        self.warnings: list[str] = []

    def load(self) -> None:
        nodes = self._manifests.all(Node)
        for paired in pair_nodes_with_claims(nodes, self._manifests.claims):
            self._load_node(paired)
        self._give_the_rest_to_others()

    def _load_node(self, paired: NodeWithClaim) -> None:
        if not self._is_ours(paired):
            self._api.load([each for each in (paired.node, paired.claim) if each is not None])
            return
        identity = paired.provider_id.rpartition("/")[2] or self._new_instance_id(paired)
        zone = label_of(paired, ZONE) or next(iter(self._account.zones))
        provider_id = paired.provider_id or f"aws:///{zone}/{identity}"
        node = paired.node and self._completed_node(paired, paired.node, provider_id)
        claim = self._completed_claim(paired, node, provider_id)
        self._api.load([each for each in (claim, node) if each is not None])
        if paired.is_launched:
            self._add_instance(paired, claim, identity, zone)

    def _is_ours(self, paired: NodeWithClaim) -> bool:
        claim = paired.claim
        return paired.is_managed and (
            claim is None or claim.spec.nodeClassRef.group == EC2_CLASS_GROUP
        )

    def _new_instance_id(self, paired: NodeWithClaim) -> str:
        return f"i-0{self._random.getrandbits(64):016x}" if paired.is_launched else ""

    def _created(self, paired: NodeWithClaim) -> str:
        """When the claim, or else the node, was created."""
        for each in (paired.claim, paired.node):
            if each is not None and each.metadata.creationTimestamp:
                return each.metadata.creationTimestamp
        return format_timestamp(self._start)

    def _completed_node(self, paired: NodeWithClaim, node: Node, provider_id: str) -> Node:
        """The node as a kubelet and our controllers would have it."""
        created, metadata = self._created(paired), node.metadata
        labels = dict(metadata.labels or {})
        if self._is_initialized(paired):
            labels = {REGISTERED: "true", INITIALIZED: "true", **labels}
        finalizers = list(dict.fromkeys([*(metadata.finalizers or ()), TERMINATION_FINALIZER]))
        status = node.status
        if not status.conditions:
            ready = NodeCondition(type="Ready", status="True", lastTransitionTime=created)
            status = msgspec.structs.replace(status, conditions=[ready])
        if not status.capacity and not status.allocatable:
            status = msgspec.structs.replace(status, **self._catalogue_resources(paired))
        return msgspec.structs.replace(
            node,
            metadata=msgspec.structs.replace(
                metadata, labels=labels, finalizers=finalizers, creationTimestamp=created
            ),
            spec=msgspec.structs.replace(node.spec, providerID=provider_id),
            status=status,
        )

    def _catalogue_resources(self, paired: NodeWithClaim) -> dict[str, Any]:
        """Capacity and allocatable of its type, for a node that states none."""
        catalog = self._catalog_of(paired.pool or "")
        name = label_of(paired, INSTANCE_TYPE)
        if catalog is None or name not in catalog.by_name:
            return {}
        found = catalog.by_name[name]
        return {
            "capacity": _quantities(found.capacity),
            "allocatable": _quantities(found.allocatable),
        }

    def _catalog_of(self, name: str) -> NodeClassCatalog | None:
        pool = self._pools.get(name)
        if pool is not None and name not in self._catalogs:
            scope = catalog_scope(self._manifests, pool)
            self._catalogs[name] = self._builder.build(scope)
        return self._catalogs.get(name)

    @cached_property
    def _builder(self) -> CatalogBuilder:
        settings = PlanSettings(now=datetime.fromtimestamp(self._start, UTC))
        region = choose_region(self._manifests, None)
        return CatalogBuilder(catalog_inputs(self._manifests, settings, region))

    def _is_initialized(self, paired: NodeWithClaim) -> bool:
        """A claim without any conditions, or none: unless its node is unregistered or not Ready."""
        status = paired.claim.status if paired.claim is not None else None
        if status is not None and status.conditions:
            return paired.is_initialized
        node = paired.node
        if node is None or any(each.key == UNREGISTERED_TAINT for each in node.spec.taints or ()):
            return False
        conditions = node.status.conditions or ()
        return all(each.status == "True" for each in conditions if each.type == "Ready")

    def _completed_claim(
        self, paired: NodeWithClaim, node: Node | None, provider_id: str
    ) -> NodeClaim:
        """The claim with what is missing; a Node alone gets one."""
        claim = paired.claim or self._new_claim(paired)
        metadata, status = claim.metadata, claim.status or NodeClaimStatus()
        finalizers = list(dict.fromkeys([*(metadata.finalizers or ()), TERMINATION_FINALIZER]))
        changes: dict[str, Any] = {}
        if paired.is_launched:
            changes["providerID"] = provider_id
        if node is not None:
            changes["nodeName"] = status.nodeName or node.metadata.name
            changes["capacity"] = status.capacity or node.status.capacity
            changes["allocatable"] = status.allocatable or node.status.allocatable
        if not status.conditions and paired.is_launched:
            changes["conditions"] = self._conditions(paired)
        return msgspec.structs.replace(
            claim,
            metadata=msgspec.structs.replace(
                metadata, finalizers=finalizers, creationTimestamp=self._created(paired)
            ),
            status=msgspec.structs.replace(status, **changes),
        )

    def _conditions(self, paired: NodeWithClaim) -> list[Condition]:
        since, is_initialized = self._created(paired), self._is_initialized(paired)
        states = {
            "Launched": True,
            "Registered": is_initialized,
            "Initialized": is_initialized,
            "Ready": is_initialized,
        }
        return [
            Condition(
                type=kind,
                status="True" if value else "Unknown",
                lastTransitionTime=since,
                reason=kind if value else "AwaitingReconciliation",
            )
            for kind, value in states.items()
        ]

    def _new_claim(self, paired: NodeWithClaim) -> NodeClaim:
        """The claim of a Node alone: it has the node's name and labels."""
        name, labels = paired.node_name, dict(paired.metadata.labels or {})
        # The stored pool: the claim's owner reference needs its uid.
        pool = self._api.peek(NodePool, paired.pool or "")
        template = pool.spec.template.spec if pool is not None else None
        wanted = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels}
        named = template.nodeClassRef.name if template is not None else "default"
        reference = {"group": EC2_CLASS_GROUP, "kind": "EC2NodeClass", "name": named}
        spec: dict[str, Any] = {
            "nodeClassRef": reference,
            "requirements": [
                msgspec.to_builtins(ClaimRequirement(key=key, operator="In", values=[value]))
                for key, value in wanted.items()
            ],
        }
        if template is not None:
            spec["expireAfter"] = template.expireAfter
            if template.terminationGracePeriod is not None:
                spec["terminationGracePeriod"] = template.terminationGracePeriod
            if template.taints:
                spec["taints"] = msgspec.to_builtins(template.taints)
        return NodeClaim(
            metadata=ObjectMeta(
                name=name,
                labels=labels,
                annotations=paired.metadata.annotations,
                ownerReferences=None if pool is None else [_owner(pool)],
            ),
            spec=msgspec.convert(spec, NodeClaimSpec),
        )

    def _add_instance(
        self, paired: NodeWithClaim, claim: NodeClaim, identity: str, zone: str
    ) -> None:
        name = claim.spec.nodeClassRef.name
        node_class = self._classes.get(name) or next(iter(self._classes.values()))
        try:
            self._instances.add(
                paired,
                claim,
                node_class,
                identity=identity,
                zone=zone,
                created=self._created(paired),
            )
        except AwsError as error:
            self.warnings.append(
                f"{paired.name} has no instance in the simulation: EC2 does not have "
                f"{label_of(paired, INSTANCE_TYPE)} in {zone} ({error})"
            )

    def _give_the_rest_to_others(self) -> None:
        """What `available` leaves out and no node of the input uses belongs to others."""
        stated = {each.id: each for each in self._account.stated_reservations}
        for reservation in self._account.services.reservations.state.reservations.values():
            entry = stated.get(reservation.id)
            available = None if entry is None else entry.available
            taken = 0 if available is None else reservation.total - available
            reservation.used_by_others = max(taken - reservation.used, 0)


def _owner(pool: NodePool) -> OwnerReference:
    metadata = metadata_of(pool)
    return OwnerReference(
        apiVersion=pool.apiVersion, kind=pool.kind, name=metadata.name, uid=metadata.uid
    )


def _quantities(resources: Resources) -> dict[str, int | str]:
    return {name: format_quantity(name, amount) for name, amount in resources.items()}
