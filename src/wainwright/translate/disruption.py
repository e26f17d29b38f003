"""What disruption depends on, as written: budgets, conditions, annotations, durations."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from wainwright.api.field_error import format_value
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import DisruptionBudget as WireBudget
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import PodDisruptionBudget as WirePodDisruptionBudget
from wainwright.api.kubernetes.workloads import Pod
from wainwright.model.disruption import (
    Condition,
    DisruptionBudget,
    MinimumSaving,
    NodeClaimState,
    NodePoolDisruption,
    Pause,
    PodDisruptionBudget,
)
from wainwright.model.pod import NO_EVICTION_FACTS, NO_PODS, EvictionFacts
from wainwright.model.snapshot import Pool
from wainwright.translate.object_metadata import (
    controller_of,
    has_owner_kind,
    namespace_of,
    parse_timestamp,
)
from wainwright.translate.topology import translate_selector
from wainwright.whole_numbers import parse_whole_number

DO_NOT_DISRUPT_ANNOTATION: Final = "karpenter.sh/do-not-disrupt"
DISRUPTION_COST_ANNOTATION: Final = "karpenter.sh/disruption-cost"
"""Counts before the cost of deletion, which ReplicaSets use to choose a pod."""
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"

MINIMUM_SAVING_ANNOTATION: Final = "wainwright.dev/minimum-saving"
SPOT_TO_SPOT_TYPES_ANNOTATION: Final = "wainwright.dev/spot-to-spot-types"
PAUSE_ANNOTATION: Final = "wainwright.dev/pause"
NO_PAUSE: Final = frozenset({"", "false", "no", "none", "off"})
EXPECTED_PAUSE: Final = f"one of {', '.join(sorted(Pause))}"
PAUSES_EVERYTHING: Final = "everything is paused"

NEVER: Final = "Never"
DECIMAL: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|m|s|us|µs|ns)")
UNIT_SECONDS: Final = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}


@lru_cache(maxsize=1024)  # every claim and node has one, and nearly all the same
def parse_duration(text: str | None) -> float | None:
    """Seconds of a Go duration such as 1h30m; None for Never, and for what is none."""
    if not text or text == NEVER:
        return None
    parts = DURATION_PART.findall(text)
    if "".join(amount + unit for amount, unit in parts) != text:
        return 0.0 if text == "0" else None
    return sum(float(amount) * UNIT_SECONDS[unit] for amount, unit in parts)


def format_duration(seconds: float) -> str:
    """2592000 is 720h, 90 is 1m30s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def parse_minimum_saving(text: str) -> MinimumSaving | None:
    """`5%` of what the candidates cost, or USD per hour such as 0.05; None for anything else."""
    number = text.strip().removesuffix("%").removeprefix("$")
    if not DECIMAL.fullmatch(number):
        return None
    if text.strip().endswith("%"):
        return MinimumSaving(fraction=float(number) / 100)
    return MinimumSaving(amount=float(number))


def parse_type_count(text: str) -> int | None:
    """How many instance types; None for what is no count."""
    return parse_whole_number(text)


def parse_pause(text: str) -> Pause | None:
    """What is paused, whatever its case and the blanks around it; None for nothing.

    A value that cannot be read pauses everything: whoever has written it wants a pause, and nodes
    that are removed meanwhile do not come back.
    """
    word = _pause_word(text)
    if word in NO_PAUSE:
        return None
    return next((each for each in Pause if each == word), Pause.ALL)


def is_readable_pause(text: str) -> bool:
    word = _pause_word(text)
    return word in NO_PAUSE or word in tuple(Pause)


def describe_unreadable_pause(text: str) -> str:
    """Why the value pauses everything without saying so; empty for one that can be read."""
    if is_readable_pause(text):
        return ""
    return f"{format_value(text)} is not {EXPECTED_PAUSE}: {PAUSES_EVERYTHING}"


def _pause_word(text: str) -> str:
    return text.strip().lower()


def is_pausing(annotations: Mapping[str, str], what: Pause) -> bool:
    """Whether the annotations of a NodePool pause it."""
    return parse_pause(annotations.get(PAUSE_ANNOTATION, "")) in (what, Pause.ALL)


def paused_by_annotation(pools: Iterable[Pool], what: Pause) -> frozenset[str]:
    return frozenset(pool.name for pool in pools if is_pausing(pool.annotations, what))


class WireCondition(Protocol):
    """A condition of any kind of object."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def lastTransitionTime(self) -> str | None: ...  # noqa: N802 - the name of the API

    @property
    def reason(self) -> str: ...

    @property
    def message(self) -> str: ...


def translate_conditions(written: Iterable[WireCondition] | None) -> dict[str, Condition]:
    return {
        each.type: Condition(
            status=each.status,
            since=parse_timestamp(each.lastTransitionTime),
            reason=each.reason,
            message=each.message,
        )
        for each in written or ()
    }


def translate_claim_state(claim: NodeClaim) -> NodeClaimState:
    status = claim.status or NodeClaimStatus()
    return NodeClaimState(
        name=claim.metadata.name,
        created=parse_timestamp(claim.metadata.creationTimestamp),
        labels=claim.metadata.labels or {},
        annotations=claim.metadata.annotations or {},
        conditions=translate_conditions(status.conditions),
        expire_after=parse_duration(claim.spec.expireAfter),
        termination_grace_period=parse_duration(claim.spec.terminationGracePeriod),
        last_pod_event=parse_timestamp(status.lastPodEventTime),
        image=status.imageID,
    )


def translate_pool_disruption(node_pool: NodePool) -> NodePoolDisruption:
    template, disruption = node_pool.spec.template.spec, node_pool.spec.disruption
    annotations = node_pool.metadata.annotations or {}
    return NodePoolDisruption(
        policy=disruption.consolidationPolicy,
        consolidate_after=parse_duration(disruption.consolidateAfter),
        budgets=tuple(map(_translate_budget, disruption.budgets)),
        expire_after=parse_duration(template.expireAfter),
        termination_grace_period=parse_duration(template.terminationGracePeriod),
        minimum_saving=parse_minimum_saving(annotations.get(MINIMUM_SAVING_ANNOTATION, "")),
        spot_to_spot_types=parse_type_count(annotations.get(SPOT_TO_SPOT_TYPES_ANNOTATION, "")),
    )


def _translate_budget(budget: WireBudget) -> DisruptionBudget:
    return DisruptionBudget(
        nodes=budget.nodes,
        reasons=None if budget.reasons is None else tuple(budget.reasons),
        schedule=budget.schedule,
        duration=parse_duration(budget.duration),
    )


def translate_pod_disruption_budget(budget: WirePodDisruptionBudget) -> PodDisruptionBudget:
    """A selector that is missing or invalid selects no pod."""
    spec, allowed = budget.spec, budget.status.disruptionsAllowed
    return PodDisruptionBudget(
        namespace=namespace_of(budget.metadata),
        name=budget.metadata.name,
        selector=translate_selector(spec.selector) or NO_PODS,
        min_available=spec.minAvailable,
        max_unavailable=spec.maxUnavailable,
        always_allows_unready=spec.unhealthyPodEvictionPolicy == "AlwaysAllow",
        disruptions_allowed=allowed,
        healthy=None if allowed is None else budget.status.currentHealthy,
        expected=None if allowed is None else budget.status.expectedPods,
    )


class EvictionFactsTranslator:
    """Translates what decides whether a pod may be evicted; equal facts are one object.

    `expanded_sets` are namespace and name of the StatefulSets whose missing pods are in the input
    already: a terminating pod of theirs must not be counted again as recreated.
    """

    def __init__(self, expanded_sets: Iterable[tuple[str, str]] = ()) -> None:
        self._expanded_sets = frozenset(expanded_sets)
        self._shared: dict[EvictionFacts, EvictionFacts] = {NO_EVICTION_FACTS: NO_EVICTION_FACTS}

    def translate(self, pod: Pod) -> EvictionFacts:
        annotations = pod.metadata.annotations or {}
        owner = controller_of(pod.metadata)
        facts = EvictionFacts(
            owner="" if owner is None else f"{owner.kind}/{owner.name}",
            static=has_owner_kind(pod.metadata, "Node"),
            recreated=bool(pod.metadata.deletionTimestamp) and self._is_recreated(pod),
            do_not_disrupt=_do_not_disrupt(annotations),
            deletion_cost=_cost(annotations, DELETION_COST_ANNOTATION) or 0.0,
            disruption_cost=_cost(annotations, DISRUPTION_COST_ANNOTATION),
            ready=not _is_unready(pod),
            started=parse_timestamp(pod.status.startTime),
        )
        return facts if facts.started is not None else self._shared.setdefault(facts, facts)

    @property
    def cached(self) -> int:
        return len(self._shared)

    def _is_recreated(self, pod: Pod) -> bool:
        return any(
            owner.kind == "StatefulSet"
            and (namespace_of(pod.metadata), owner.name) not in self._expanded_sets
            for owner in pod.metadata.ownerReferences or ()
        )


def _do_not_disrupt(annotations: Mapping[str, str]) -> bool | float:
    value = annotations.get(DO_NOT_DISRUPT_ANNOTATION, "")
    return value == "true" or parse_duration(value) or False


def _cost(annotations: Mapping[str, str], key: str) -> float | None:
    """What is no number counts as if it were not there, as in Kubernetes."""
    text = annotations.get(key, "")
    return float(text) if text.removeprefix("-").isdecimal() else None


def _is_unready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "False"
        for condition in pod.status.conditions or ()
    )
