"""Nodes as the planner sees them: those that stand, and claims that no node has joined yet."""

from collections.abc import Iterable, Mapping
from typing import Final

from wainwright.api.builtin.node import NodeSpec
from wainwright.api.nodeclaim import NodeClaim
from wainwright.api.nodepool import NodePool
from wainwright.manifests.translate.machines import TRUE, Machine
from wainwright.manifests.translate.requirements import requirements
from wainwright.manifests.translate.taints import CORDONED, taints
from wainwright.model.labels import (
    EC2NODECLASS,
    HOSTNAME,
    NODEPOOL,
    ON_EVERY_NODE,
    RESERVATION_ID,
    normalised,
)
from wainwright.model.node import Node
from wainwright.model.pod import Pod
from wainwright.model.taints import Taint

NO_LIMITS: Final[Mapping[str, int]] = {}


def node(
    machine: Machine,
    pool: NodePool | None,
    pods: Iterable[Pod],
    attach_limits: Mapping[str, int] = NO_LIMITS,
) -> Node:
    """The machine with the pods that stay on it; `pool` is its NodePool, if the input has it."""
    labels = _labels(machine, pool)
    return Node(
        name=machine.name,
        labels=labels,
        taints=_taints(machine),
        startup_taints=_startup_taints(machine, pool),
        allocatable=machine.allocatable,
        pods=tuple(pods),
        managed=machine.is_managed,
        initialized=machine.is_initialized,
        deleting=machine.is_deleting,
        pool=machine.pool,
        launched=machine.is_launched,
        reservation_id=labels.get(RESERVATION_ID),
        attach_limits=dict(attach_limits),
    )


def hostnames(machines: Iterable[Machine]) -> dict[str, str]:
    """The hostname of each node by its name; the kubelet sets it, to the name unless told so."""
    standing = [machine.node for machine in machines if machine.node is not None]
    return {
        each.metadata.name: (each.metadata.labels or {}).get(HOSTNAME, each.metadata.name)
        for each in standing
    }


def _labels(machine: Machine, pool: NodePool | None) -> dict[str, str]:
    """The node's own; as long as they are not all there, those of the claim beside them."""
    found: dict[str, str] = {}
    if machine.claim is not None and (machine.node is None or not machine.is_registered):
        found = _claimed(machine.claim, pool)
        if machine.pool is not None:
            found[NODEPOOL] = machine.pool
    if not machine.is_initialized:
        # It ends up with these, and until then counts as if it had them, like a node to be made.
        found |= dict.fromkeys(ON_EVERY_NODE, TRUE)
    if machine.node is not None:
        own = _stable(machine.node.metadata.labels or {})
        found = found | {HOSTNAME: machine.node.metadata.name} | own
    return dict(sorted(found.items()))


def _claimed(claim: NodeClaim, pool: NodePool | None) -> dict[str, str]:
    """What the node will be labelled with, as far as that is decided."""
    template = pool.spec.template.metadata if pool is not None else None
    promised = _stable((template.labels if template is not None else None) or {})
    wanted = requirements(claim.spec.requirements)
    decided = {key: value for key in wanted if (value := wanted.only(key)) is not None}
    reference = {EC2NODECLASS: claim.spec.nodeClassRef.name}
    return promised | reference | decided | _stable(claim.metadata.labels or {})


def _stable(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels under their stable names, which count where both are there."""
    renamed = {normalised(key): value for key, value in labels.items()}
    return renamed | {key: value for key, value in labels.items() if normalised(key) == key}


def _taints(machine: Machine) -> tuple[Taint, ...]:
    """The node's own; until it is registered, those that its claim will give it."""
    own = machine.node.spec if machine.node is not None else NodeSpec()
    if machine.claim is not None and (machine.node is None or not machine.is_registered):
        found = taints(machine.claim.spec.taints)
    else:
        found = taints(own.taints)
    return (*found, CORDONED) if own.unschedulable and CORDONED not in found else found


def _startup_taints(machine: Machine, pool: NodePool | None) -> tuple[Taint, ...]:
    if machine.claim is not None:
        return taints(machine.claim.spec.startupTaints)
    return taints(pool.spec.template.spec.startupTaints if pool is not None else None)
