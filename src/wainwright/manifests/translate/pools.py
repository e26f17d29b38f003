"""Pools as the planner sees them: what they allow, what they hold already, what they cost."""

from collections.abc import Iterable

from wainwright.api.nodepool import NodePool
from wainwright.manifests.translate.amounts import offers
from wainwright.manifests.translate.machines import Machine
from wainwright.manifests.translate.requirements import contradicted, requirements
from wainwright.manifests.translate.taints import taints
from wainwright.model.pool import NODES, Pool
from wainwright.model.resources import add, ordered


def pool(written: NodePool, machines: Iterable[Machine]) -> Pool:
    """The pool with what it holds; `machines` are its own."""
    template = written.spec.template
    return Pool(
        name=written.metadata.name,
        node_class=template.spec.nodeClassRef.name,
        weight=written.spec.weight or 0,
        requirements=requirements(template.spec.requirements),
        labels=dict((template.metadata.labels if template.metadata is not None else None) or {}),
        taints=taints(template.spec.taints),
        startup_taints=taints(template.spec.startupTaints),
        limits=offers(written.spec.limits),
        in_use=_in_use(written, list(machines)),
        unusable=_unusable(written),
    )


def _in_use(written: NodePool, machines: list[Machine]) -> dict[str, int]:
    if not machines:
        return _reported(written)
    total: dict[str, int] = {}
    for machine in machines:
        total = add(total, machine.capacity)
    return ordered(total | {NODES: len(machines)})


def _reported(written: NodePool) -> dict[str, int]:
    """What the pool itself says, where the input shows none of its machines."""
    if written.status is None:
        return {}
    found = offers(written.status.resources)
    nodes = written.status.nodes or found.get(NODES, 0)
    return ordered(found | ({NODES: nodes} if nodes else {}))


def _unusable(written: NodePool) -> str | None:
    clashing = contradicted(written.spec.template.spec.requirements)
    if clashing:
        return f"its requirements contradict each other on {', '.join(clashing)}"
    return _withheld(written)


def _withheld(written: NodePool) -> str | None:
    """Why it may not launch anything, as a sentence about it."""
    if written.metadata.deletionTimestamp:
        return "it is being deleted"
    if written.spec.replicas is not None:
        return "it is static and keeps its replicas, whatever pods need"
    conditions = (written.status.conditions if written.status is not None else None) or ()
    for condition in conditions:
        if condition.type == "Ready" and condition.status == "False":
            why = condition.message or condition.reason
            return f"it is not ready ({why})" if why else "it is not ready"
    return None
