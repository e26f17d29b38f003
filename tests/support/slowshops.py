"""What nodes of a pool could be, as far as pods that mind each other care: labels and ports."""

from collections.abc import Collection, Iterable
from copy import copy
from typing import Final

from tests.support.obvious import Draft, Offer, launch
from tests.support.shop import Shop, sold, stated
from tests.support.slowwants import Want, both

from wainwright.model.attachments import HostPort
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE
from wainwright.model.node import Node
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.taints import (
    PREFER_NO_SCHEDULE,
    Toleration,
    TolerationOperator,
    untolerated,
)
from wainwright.model.topology import Spread

ANYBODY: Final = Pod(
    namespace="any", name="body", tolerations=(Toleration(operator=TolerationOperator.EXISTS),)
)
"""A pod that no taint keeps off."""


def looked_at(shop: Shop, want: Want, spread: Spread) -> Iterable[Requirements]:
    """What new nodes of the pool would be that the spread takes account of.

    New nodes where the pod may not go would never be made for it, whatever the policy says.
    """
    binding = [taint for taint in shop.pool.taints if taint.effect != PREFER_NO_SCHEDULE]
    if spread.honor_taints and untolerated(binding, want.pod.tolerations) is not None:
        return ()
    found = (shop.joined(shop.node, ANYBODY, alternative) for alternative in want.reach)
    return [asked for asked in found if asked is not None]


def values(
    shop: Shop,
    key: str,
    asked: Requirements,
    among: Iterable[InstanceType],
    slots: Collection[str],
) -> set[str]:
    """The values of the label that such nodes could have if they were launched now."""
    allowed, found = asked.allowed(key), set()
    for kind in among:
        if shop.admits(kind, asked) and _has_any_room(shop, kind):
            for offering in sold(kind, asked, slots):
                said = stated(kind, offering, key)
                if said is None and key in kind.requirements:
                    said = kind.requirements[key].allowed
                unsaid = shop.zones if key == ZONE else () if allowed.open else allowed.values
                unsaid = () if key != ZONE and _is_named(shop, key) else unsaid
                found |= set(unsaid if said is None else () if said.open else said.values)
    return set(filter(allowed.admits, found))


def possible_values(draft: Draft, key: str) -> set[str]:
    """Those that the draft could have by what is asked of it, whatever is left by now."""
    shop = draft.shop
    slots = {each.reservation_id or "" for kind in shop.types for each in kind.offerings}
    return values(shop, key, draft.asked, shop.types, slots if shop.reservations else set())


def _has_any_room(shop: Shop, kind: InstanceType) -> bool:
    return all(amount >= 0 for amount in shop.room[kind.name].values())


def _is_named(shop: Shop, key: str) -> bool:
    """Whether it is a label that machines bring with them."""
    return any(
        key in kind.requirements or any(key in each.requirements for each in kind.offerings)
        for kind in shop.types
    )


def bought(draft: Draft, offer: Offer, key: str) -> str | None:
    """The value of the label on the machine that would be bought; None if it will have none."""
    trial = copy(draft)
    trial.launch = offer
    if key in (ZONE, CAPACITY_TYPE):
        return launch(trial).zone if key == ZONE else launch(trial).capacity_type
    kind, offering = offer
    named = offering.requirements.only(key)
    allowed = kind.requirements.allowed(key) & draft.asked.allowed(key)
    return named or (None if allowed.open else allowed.any() or None)


def restricted(draft: Draft, key: str, value: str) -> Draft | None:
    """What becomes of the draft when it settles on the value; None if it cannot."""
    asked = both(draft.asked, Requirements.from_entries([(key, "In", (value,), None)]))
    if asked is None:
        return None
    kept = [k for k in draft.types if draft.shop.admits(k, asked) and sold(k, asked, draft.held)]
    found = Draft(draft.shop, asked, kept)
    found.minimums = draft.minimums
    found.keep_slots(draft.held)
    lost = draft.held and not found.held
    gone = draft.launch is not None and draft.launch not in found.offers
    return None if not kept or lost or gone or not found.is_diverse() else found


def clashes(pods: Iterable[Pod | DaemonSet], pod: Pod) -> bool:
    """Whether any of them has a port that the pod needs."""
    taken = [port for each in pods for port in ports_of(each)]
    return any(port.clashes_with(other) for port in ports_of(pod) for other in taken)


def ports_of(pod: Pod | DaemonSet) -> tuple[HostPort, ...]:
    return pod.bonds.ports if isinstance(pod, Pod) else pod.ports


def without_clashes(shop: Shop, types: Iterable[InstanceType], pod: Pod) -> list[InstanceType]:
    """The types on which no daemonset needs a port of the pod."""
    if not pod.bonds.ports:
        return list(types)
    return [kind for kind in types if not clashes(_agents(shop, kind), pod)]


def runs_on(node: Node, daemonset: DaemonSet) -> bool:
    """Whether the daemonset has a pod on the node, or will have."""
    binding = [taint for taint in node.lasting_taints if taint.effect != PREFER_NO_SCHEDULE]
    labels = Requirements.from_labels(node.labels)
    wanted = [alternative.without({HOSTNAME}) for alternative in daemonset.alternatives]
    return untolerated(binding, daemonset.tolerations) is None and any(
        labels.compatible(each) for each in wanted
    )


def has_ports_and_volumes(
    node: Node, there: list[Pod], pod: Pod, daemonsets: Iterable[DaemonSet]
) -> bool:
    """Whether one more pod beside those clashes with nobody, and its volumes can be attached."""
    agents = [each for each in daemonsets if runs_on(node, each)]
    if clashes(there, pod) or clashes(agents, pod):
        return False
    for driver, most in node.attach_limits.items():
        own = {each for each in pod.bonds.attachments if each.driver == driver}
        others = {o for each in there for o in each.bonds.attachments if o.driver == driver}
        if own and len(own | others) > most:
            return False
    return True


def _agents(shop: Shop, kind: InstanceType) -> list[DaemonSet]:
    """The daemonsets that would run on the type, however the pool may buy it."""
    ids = {each.reservation_id or "" for each in kind.offerings if shop.reservations}
    return [
        daemonset
        for daemonset in shop.daemonsets
        if any(shop.runs(daemonset, kind, o, shop.node) for o in sold(kind, shop.node, ids))
    ]
