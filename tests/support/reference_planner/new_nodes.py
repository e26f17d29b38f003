"""Labels and ports that new nodes of a pool could have, for constrained pods."""

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from math import inf
from typing import Final

from tests.support.reference_planner.first_fit import ReferenceDraft, TypeOffering, draft_launch
from tests.support.reference_planner.offerings import (
    PoolCatalog,
    available_offerings,
    offering_label,
)
from tests.support.reference_planner.relaxation import RelaxedPod, intersect

from wainwright.core.scheduling.constraints.host_ports import ports_conflict
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from wainwright.model.pod import DaemonSet, HostPort, Pod, TopologySpread
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Node
from wainwright.model.taints import (
    PREFER_NO_SCHEDULE,
    Toleration,
    TolerationOperator,
    find_untolerated_taint,
)

TOLERANT_POD: Final = Pod(
    namespace="any", name="body", tolerations=(Toleration(operator=TolerationOperator.EXISTS),)
)
"""A pod that tolerates every taint."""


def eligible_new_nodes(
    catalog: PoolCatalog, want: RelaxedPod, spread: TopologySpread
) -> Iterable[Requirements]:
    """The requirements of new nodes of the pool that the spread counts.
    Nodes that the pod may not use would never be launched for it, whatever the policy is.
    """
    binding = [taint for taint in catalog.pool.taints if taint.effect != PREFER_NO_SCHEDULE]
    if spread.honor_taints and find_untolerated_taint(binding, want.pod.tolerations) is not None:
        return ()
    found = (catalog.joined(catalog.node, TOLERANT_POD, alternative) for alternative in want.reach)
    return [asked for asked in found if asked is not None]


def launchable_values(
    catalog: PoolCatalog,
    key: str,
    asked: Requirements,
    among: Iterable[InstanceType],
    reservation_ids: Collection[str],
) -> set[str]:
    """The values of the label that such nodes could have if they were launched now."""
    allowed, found = asked.allowed(key), set()
    for kind in among:
        if catalog.admits(kind, asked) and _has_any_room(catalog, kind):
            for offering in available_offerings(kind, asked, reservation_ids):
                said = offering_label(kind, offering, key)
                if said is None and key in kind.requirements:
                    said = kind.requirements[key].allowed
                unsaid = catalog.zones if key == ZONE else () if allowed.open else allowed.values
                unsaid = () if key != ZONE and _is_type_label(catalog, key) else unsaid
                found |= set(unsaid if said is None else () if said.open else said.values)
    return set(filter(allowed.admits, found))


def possible_values(draft: ReferenceDraft, key: str) -> set[str]:
    """The values that the draft's requirements allow, whatever types are left."""
    catalog = draft.catalog
    reservation_ids = {
        each.reservation_id or "" for kind in catalog.types for each in kind.offerings
    }
    return launchable_values(
        catalog, key, draft.asked, catalog.types, reservation_ids if catalog.reservations else set()
    )


def _has_any_room(catalog: PoolCatalog, kind: InstanceType) -> bool:
    return all(amount >= 0 for amount in catalog.room[kind.name].values())


def _is_type_label(catalog: PoolCatalog, key: str) -> bool:
    """Whether it is a label of instance types or offerings."""
    return any(
        key in kind.requirements or any(key in each.requirements for each in kind.offerings)
        for kind in catalog.types
    )


def launched_label(draft: ReferenceDraft, offer: TypeOffering, key: str) -> str | None:
    """The value of the label on the launched node; None if it will have none."""
    trial = copy(draft)
    trial.launch = offer
    if key in (ZONE, CAPACITY_TYPE):
        return draft_launch(trial).zone if key == ZONE else draft_launch(trial).capacity_type
    kind, offering = offer
    named = offering.requirements.single_value(key)
    allowed = kind.requirements.allowed(key) & draft.asked.allowed(key)
    return named or (None if allowed.open else allowed.any_value() or None)


def restrict_draft(draft: ReferenceDraft, key: str, value: str) -> ReferenceDraft | None:
    """The draft restricted to the value; None if that is impossible."""
    asked = intersect(draft.asked, Requirements.from_entries([(key, "In", (value,), None)]))
    if asked is None:
        return None
    kept = [
        k
        for k in draft.types
        if draft.catalog.admits(k, asked) and available_offerings(k, asked, draft.held)
    ]
    found = ReferenceDraft(draft.catalog, asked, kept)
    found.minimums = draft.minimums
    found.hold_reservations(draft.held)
    lost = draft.held and not found.held
    gone = draft.launch is not None and draft.launch not in found.offers
    return None if not kept or lost or gone or not found.is_diverse() else found


def has_port_conflict(pods: Iterable[Pod | DaemonSet], pod: Pod) -> bool:
    """Whether any of them has a port that the pod needs."""
    taken = [port for each in pods for port in host_ports(each)]
    return any(ports_conflict(port, other) for port in host_ports(pod) for other in taken)


def host_ports(pod: Pod | DaemonSet) -> tuple[HostPort, ...]:
    return pod.constraints.ports if isinstance(pod, Pod) else pod.ports


def types_without_port_conflict(
    catalog: PoolCatalog, types: Iterable[InstanceType], pod: Pod
) -> list[InstanceType]:
    """The types on which no daemonset needs a port of the pod."""
    if not pod.constraints.ports:
        return list(types)
    return [kind for kind in types if not has_port_conflict(_daemonsets_on(catalog, kind), pod)]


def daemonset_runs_on(node: Node, daemonset: DaemonSet) -> bool:
    """Whether the daemonset has a pod on the node, or will have."""
    binding = [taint for taint in node.effective_taints if taint.effect != PREFER_NO_SCHEDULE]
    labels = Requirements.from_labels(node.labels)
    wanted = [alternative.without({HOSTNAME}) for alternative in daemonset.alternatives]
    return find_untolerated_taint(binding, daemonset.tolerations) is None and any(
        labels.is_compatible(each) for each in wanted
    )


def expected_limits(node: Node, types: Iterable[InstanceType]) -> dict[str, int]:
    """What the node reports; of one that has not started far enough, what its type attaches."""
    if node.initialized or node.attach_limits:
        return node.attach_limits
    name = node.labels.get(INSTANCE_TYPE)
    return next((kind.attach_limits for kind in types if kind.name == name), {})


def ports_and_volumes_fit(
    node: Node,
    there: list[Pod],
    pod: Pod,
    daemonsets: Iterable[DaemonSet],
    limits: Mapping[str, int],
) -> bool:
    """Whether one more pod has no port conflict, and its volumes can be attached."""
    agents = [each for each in daemonsets if daemonset_runs_on(node, each)]
    if has_port_conflict(there, pod) or has_port_conflict(agents, pod):
        return False
    for driver, most in limits.items():
        own = {each for each in pod.constraints.attachments if each.driver == driver}
        others = {o for each in there for o in each.constraints.attachments if o.driver == driver}
        if own and len(own | others) > most:
            return False
    return True


def types_that_attach(
    types: Iterable[InstanceType], pods: Iterable[Pod], pod: Pod
) -> list[InstanceType]:
    """The types that attach the volumes of all of the pods, as far as one of them has such."""
    counts = _volumes(pods)
    own = _volumes([pod])
    return [
        kind
        for kind in types
        if all(len(counts[driver]) <= kind.attach_limits.get(driver, inf) for driver in own)
    ]


def has_too_many_volumes(draft: ReferenceDraft, pod: Pod) -> bool:
    """Whether the draft would have more than the cheapest type that it was opened with attaches."""
    cheapest = min(draft.opened, key=_cost_order)
    counts = _volumes([*draft.pods, pod])
    return any(
        len(counts[driver]) > cheapest.attach_limits.get(driver, inf) for driver in _volumes([pod])
    )


def _volumes(pods: Iterable[Pod]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pod in pods:
        for each in pod.constraints.attachments:
            found.setdefault(each.driver, set()).add(each.volume)
    return found


def _cost_order(kind: InstanceType) -> tuple[float, str]:
    prices = [o.price for o in kind.offerings if o.available and o.reservation_id is None]
    return min(prices, default=inf) + kind.fee, kind.name


def _daemonsets_on(catalog: PoolCatalog, kind: InstanceType) -> list[DaemonSet]:
    """The daemonsets that would run on the type with any of its offerings."""
    ids = {each.reservation_id or "" for each in kind.offerings if catalog.reservations}
    return [
        daemonset
        for daemonset in catalog.daemonsets
        if any(
            catalog.runs(daemonset, kind, o, catalog.node)
            for o in available_offerings(kind, catalog.node, ids)
        )
    ]
