"""Changes that would free a node that is kept: a rule of a NodePool, or pods themselves.

Every change is made to the cluster, and the removal of the node is simulated again: what is said to
free it does, and saves what is said.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.core.disruption.balanced import BALANCED
from wainwright.core.disruption.candidates import (
    Blocker,
    BlockerCode,
    BlockerKind,
    Candidate,
)
from wainwright.core.disruption.commands import Command, Outcome
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.core.explain.suggested_changes import (
    apply_to_pod,
    apply_to_pool,
    enlarge_reservations,
)
from wainwright.core.launch.launch_choice import options_of_claim
from wainwright.core.scheduling.constraints.min_values import min_values_of
from wainwright.model.disruption import NO_MINIMUM_SAVING, FreeingChange
from wainwright.model.plan import ClusterLimits, PlannedNodeClaim
from wainwright.model.requirements import Requirements
from wainwright.model.resources import Resources, add_resources, round_up, sort_resources
from wainwright.model.snapshot import NODES_LIMIT, Node, Pool
from wainwright.model.suggestions import AnyFix, LowerMinValues, RaiseLimit

ChangedCluster: TypeAlias = tuple[DisruptionInput, DisruptionOptions]
UNDERUTILIZED_POLICY: Final = "WhenEmptyOrUnderutilized"

RULE_BLOCKERS: Final[Mapping[Outcome, tuple[BlockerCode, BlockerKind]]] = {
    Outcome.SPOT_TO_SPOT: (BlockerCode.SPOT_TO_SPOT, BlockerKind.NODEPOOL),
    Outcome.MIN_VALUES: (BlockerCode.MIN_VALUES, BlockerKind.NODEPOOL),
    Outcome.MIN_SAVING: (BlockerCode.MIN_SAVING, BlockerKind.NODEPOOL),
    Outcome.BALANCED_SCORE: (BlockerCode.BALANCED_SCORE, BlockerKind.POLICY),
    Outcome.LIMITS: (BlockerCode.LIMITS, BlockerKind.NODEPOOL),
}
"""Rules that forbid what would save something, and as which blocker each counts."""


class RulesLifted(NamedTuple):
    """Rules that keep a node, the first one first, and what removes it without all of them."""

    rules: tuple[Outcome, ...]
    command: Command


class RuleTrials:
    """The cluster without some of the rules, looked at once for all nodes that they keep."""

    def __init__(self, given: DisruptionInput, options: DisruptionOptions) -> None:
        self._given, self._options = given, options
        self._trials: dict[tuple[Outcome, ...], RemovalTrial] = {}

    def lift(self, rule: Outcome, name: str) -> RulesLifted | None:
        """Without the rule that keeps the node, and those that would keep it then; None where
        something else would.
        """
        rules: tuple[Outcome, ...] = (rule,)
        while True:
            found = self._trial(rules).of(name)
            if isinstance(found, Command):
                return RulesLifted(rules, found)
            if found not in RULE_BLOCKERS or found in rules:
                return None
            rules = (*rules, found)

    def _trial(self, rules: tuple[Outcome, ...]) -> "RemovalTrial":
        if rules not in self._trials:
            given, options = self._given, self._options
            for rule in rules:
                given, options = without_rule(rule, given, options) or (given, options)
            self._trials[rules] = RemovalTrial(given, options)
        return self._trials[rules]


class RemovalTrial:
    """What removals come to in a cluster that was changed."""

    def __init__(self, given: DisruptionInput, options: DisruptionOptions) -> None:
        self._looked = DisruptionPass(given, options)
        self._candidates = {each.name: each for each in self._looked.candidates}

    def of(self, name: str) -> Command | Outcome:
        """Of a drifted node its replacement, whatever it costs."""
        candidate = self._candidates[name]
        return self._looked.drift_outcome(candidate) or self._looked.outcome(candidate)


def without_rule(
    rule: Outcome, given: DisruptionInput, options: DisruptionOptions
) -> ChangedCluster | None:
    """The same cluster as if no NodePool and no setting asked for the rule; None for an outcome
    that is none.
    """
    replace = msgspec.structs.replace
    match rule:
        case Outcome.NEEDS_SEVERAL_NODES:
            return given, replace(options, allow_split=True)
        case Outcome.SPOT_TO_SPOT:
            return _with_spot_to_spot(given, options, types=1)
        case Outcome.MIN_SAVING:
            unlimited = _with_disruption(given, minimum_saving=NO_MINIMUM_SAVING)
            return unlimited, replace(options, minimum_saving=NO_MINIMUM_SAVING)
        case Outcome.BALANCED_SCORE:
            return _with_disruption(given, _is_balanced, policy=UNDERUTILIZED_POLICY), options
        case Outcome.MIN_VALUES:
            return _with_pools(given, _without_min_values), options
        case Outcome.LIMITS:
            return _without_limits(given), _without_cluster_limits(options)
        case _:
            return None


def _is_balanced(pool: Pool) -> bool:
    return pool.disruption.policy == BALANCED


def _with_spot_to_spot(
    given: DisruptionInput, options: DisruptionOptions, types: int | None
) -> ChangedCluster:
    """With the feature gate; and with another number of cheaper types, if one is given."""
    rules = msgspec.structs.replace(options.rules, spot_to_spot=True)
    if types is not None:
        rules = msgspec.structs.replace(rules, spot_to_spot_types=types)
        given = _with_disruption(given, spot_to_spot_types=types)
    return given, msgspec.structs.replace(options, rules=rules)


def _without_min_values(pool: Pool) -> Pool:
    needed = [msgspec.structs.replace(each, min_values=None) for each in pool.requirements.values()]
    return msgspec.structs.replace(pool, requirements=Requirements(needed))


def _without_limits(given: DisruptionInput) -> DisruptionInput:
    return _with_pools(given, lambda pool: msgspec.structs.replace(pool, limits={}))


def _without_cluster_limits(options: DisruptionOptions) -> DisruptionOptions:
    plan = msgspec.structs.replace(options.plan, cluster_limits=ClusterLimits())
    return msgspec.structs.replace(options, plan=plan)


def _with_disruption(
    given: DisruptionInput, concerns: Callable[[Pool], bool] = lambda _: True, **fields: Any
) -> DisruptionInput:
    def change(pool: Pool) -> Pool:
        changed = msgspec.structs.replace(pool.disruption, **fields)
        return msgspec.structs.replace(pool, disruption=changed) if concerns(pool) else pool

    return _with_pools(given, change)


def _with_pools(given: DisruptionInput, change: Callable[[Pool], Pool]) -> DisruptionInput:
    pools = tuple(change(pool) for pool in given.snapshot.pools)
    snapshot = msgspec.structs.replace(given.snapshot, pools=pools)
    return msgspec.structs.replace(given, snapshot=snapshot)


def rule_blockers(candidate: Candidate, lifted: RulesLifted) -> tuple[Blocker, ...]:
    return tuple(
        Blocker(code=code, kind=kind, name=rule_pool(rule, candidate, lifted.command))
        for rule in lifted.rules
        for code, kind in (RULE_BLOCKERS[rule],)
    )


def rule_pool(rule: Outcome, candidate: Candidate, command: Command) -> str:
    """The NodePool whose rule it is: that of the replacement where it is about launches, else the
    node's own.
    """
    is_of_launches = rule in (Outcome.MIN_VALUES, Outcome.LIMITS) and command.replacements
    return command.replacements[0].pool if is_of_launches else candidate.node.pool or ""


class ChangeFinder:
    """The one change that would free a node, of those that were tried."""

    def __init__(self, given: DisruptionInput, options: DisruptionOptions) -> None:
        self._given, self._options = given, options

    def rule_change(self, candidate: Candidate, rule: Outcome) -> FreeingChange | None:
        """Of the rule that keeps the node, as small as possible; None where that does not help."""
        name, changed = candidate.name, without_rule(rule, self._given, self._options)
        found = None if changed is None else self._try(name, *changed)
        if found is None:
            return None
        pool = rule_pool(rule, candidate, found)
        smaller = self._smaller_changes(rule, candidate, found)
        known = FreeingChange(code=rule.value, pool=pool, saving=found.saving)
        return next(smaller, known)

    def _smaller_changes(
        self, rule: Outcome, candidate: Candidate, found: Command
    ) -> Iterator[FreeingChange]:
        match rule:
            case Outcome.SPOT_TO_SPOT:
                yield from self._spot_to_spot(candidate)
            case Outcome.MIN_VALUES:
                yield from self._with_fixes(rule, candidate.name, [*self._fewer_values(found)])
            case Outcome.LIMITS:
                raised = [*self._raised_limits(candidate, found)]
                yield from self._with_fixes(rule, candidate.name, raised)
                yield from self._without_cluster_limits(candidate)
            case _:
                return

    def _spot_to_spot(self, candidate: Candidate) -> Iterator[FreeingChange]:
        """The gate alone where it is off; else the most types with which the node can go."""
        gate_is_off = not self._options.rules.spot_to_spot
        alone = self._with_spot_types(candidate, None)
        types = None if alone is not None else self._most_spot_types(candidate)
        found = alone or self._with_spot_types(candidate, types)
        if found is not None:
            yield FreeingChange(
                code=Outcome.SPOT_TO_SPOT.value,
                pool=candidate.node.pool or "",
                gate=gate_is_off,
                types=types,
                saving=found.saving,
            )

    def _most_spot_types(self, candidate: Candidate) -> int:
        """How many may be asked for; the node can go with one."""
        more = range(2, self._spot_types(candidate))
        is_too_many = partial(self._is_too_many, candidate)
        return 1 + bisect_left(more, True, key=is_too_many)

    def _is_too_many(self, candidate: Candidate, types: int) -> bool:
        return self._with_spot_types(candidate, types) is None

    def _with_spot_types(self, candidate: Candidate, types: int | None) -> Command | None:
        return self._try(candidate.name, *_with_spot_to_spot(self._given, self._options, types))

    def _spot_types(self, candidate: Candidate) -> int:
        own = None if candidate.pool is None else candidate.pool.disruption.spot_to_spot_types
        return self._options.rules.spot_to_spot_types if own is None else own

    def _fewer_values(self, found: Command) -> Iterator[LowerMinValues]:
        """minValues as many as what is cheaper has."""
        pools = {pool.name: pool for pool in self._given.snapshot.pools}
        for claim in found.replacements:
            for key, count in min_values_of(pools[claim.pool].requirements):
                left = self._count_values(claim, key)
                if left < count:
                    yield LowerMinValues(key=key, now=count, to=left, pool=claim.pool)

    def _count_values(self, claim: PlannedNodeClaim, key: str) -> int:
        index = self._given.catalogs[claim.pool]
        options = options_of_claim(claim, index)
        groups, wanted = options.offering_groups | options.held, options.requirements.allowed(key)
        return len(index.remaining_values(key, options.types, groups, wanted))

    def _raised_limits(self, candidate: Candidate, found: Command) -> Iterator[RaiseLimit]:
        """Limits as large as what the NodePools would have then."""
        for pool in self._given.snapshot.pools:
            used = self._used_with(pool, candidate, found) if pool.limits else {}
            for name, limit in sort_resources(pool.limits).items():
                if used.get(name, 0) > limit:
                    to = round_up(name, used[name])
                    yield RaiseLimit(resource=name, now=limit, to=to, pool=pool.name)

    def _used_with(self, pool: Pool, candidate: Candidate, found: Command) -> Resources:
        index = self._given.catalogs[pool.name]
        used = dict(pool.in_use)
        if candidate.node.pool == pool.name:
            own: Resources = {**candidate.node.capacity, NODES_LIMIT: 1}
            used = {name: amount - own.get(name, 0) for name, amount in used.items()}
        for claim in found.replacements:
            kind = index.find(claim.launch.instance_type) if claim.pool == pool.name else None
            if kind is not None:
                used = add_resources(used, {**kind.capacity, NODES_LIMIT: 1})
        return used

    def _without_cluster_limits(self, candidate: Candidate) -> Iterator[FreeingChange]:
        found = self._try(candidate.name, self._given, _without_cluster_limits(self._options))
        if found is not None:
            yield FreeingChange(
                code=Outcome.LIMITS.value, pool="", cluster_limits=True, saving=found.saving
            )

    def _with_fixes(
        self, rule: Outcome, name: str, fixes: Iterable[AnyFix]
    ) -> Iterator[FreeingChange]:
        fixes = tuple(fixes)
        found = self.try_fixes(name, fixes) if fixes else None
        if isinstance(found, Command):
            pool = getattr(fixes[0], "pool", "")
            yield FreeingChange(code=rule.value, pool=pool, fixes=fixes, saving=found.saving)

    def try_fixes(
        self, name: str, fixes: Iterable[AnyFix], pods: Iterable[str] = ()
    ) -> Command | Outcome:
        """What removing the node comes to after changes of NodePools, reservations, and these pods
        of it.
        """
        fixes, keys = tuple(fixes), frozenset(pods)
        given = _with_pools(self._given, lambda pool: _fixed_pool(pool, fixes))
        given = _with_node(given, name, lambda node: _with_fixed_pods(node, fixes, keys))
        catalogs = enlarge_reservations(given.catalogs, fixes)
        changed = msgspec.structs.replace(given, catalogs=catalogs)
        return RemovalTrial(changed, self._options).of(name)

    def settled_change(self, candidate: Candidate) -> FreeingChange | None:
        """Waiting until pods may be moved to nodes on which others came or went lately."""
        looked = DisruptionPass(self._given, self._options)
        until = looked.unsettled_until()
        if not until:
            return None
        settled = _with_disruption(self._given, _consolidates, consolidate_after=0.0)
        found = self._try(candidate.name, settled, self._options)
        targets = () if found is None else (each.node for each in found.simulation.placements)
        nodes = tuple(sorted(name for name in targets if name in until))
        if found is None or not nodes:
            return None
        return FreeingChange(
            code=BlockerCode.CONSOLIDATE_AFTER.text,
            pool=candidate.node.pool or "",
            nodes=nodes,
            until=max(until[name] for name in nodes),
            saving=found.saving,
        )

    def _try(self, name: str, given: DisruptionInput, options: DisruptionOptions) -> Command | None:
        found = RemovalTrial(given, options).of(name)
        return found if isinstance(found, Command) else None


def _consolidates(pool: Pool) -> bool:
    return pool.disruption.consolidate_after is not None


def _fixed_pool(pool: Pool, fixes: Iterable[AnyFix]) -> Pool:
    for fix in fixes:
        pool = apply_to_pool(fix, pool)
    return pool


def _with_node(
    given: DisruptionInput, name: str, change: Callable[[Node], Node]
) -> DisruptionInput:
    nodes = tuple(change(node) if node.name == name else node for node in given.snapshot.nodes)
    snapshot = msgspec.structs.replace(given.snapshot, nodes=nodes)
    return msgspec.structs.replace(given, snapshot=snapshot)


def _with_fixed_pods(node: Node, fixes: Iterable[AnyFix], keys: frozenset[str]) -> Node:
    pods = list(node.pods)
    for fix in fixes:
        pods = [apply_to_pod(fix, pod) if pod.key in keys else pod for pod in pods]
    return msgspec.structs.replace(node, pods=tuple(pods))
