"""Laws that no simulation breaks, whatever its scenario does. Each has a code.

Some are looked at whenever something changes, some only once the world is quiet: while a launch is
under way a claim may well have no instance.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimStatus
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget
from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.workloads import Pod
from wainwright.controllers.conditions import INITIALIZED
from wainwright.controllers.disruption.disruption_queue import REPLACES_ANNOTATION
from wainwright.emulator.ec2.instance.lifecycle import Instance
from wainwright.model.labels import NODEPOOL
from wainwright.model.plan import ClusterLimits
from wainwright.model.resources import CPU, MEMORY, format_quantity
from wainwright.model.simulation import LawResult
from wainwright.sim.aws_calls import AwsCalls
from wainwright.sim.billed_instances import BilledInstance
from wainwright.sim.disruption_laws import DISRUPTION_LAWS, DisruptionLaws
from wainwright.sim.evictions import is_exempt
from wainwright.sim.initial_nodes import NODECLAIM_TAG
from wainwright.sim.observed_state import ObservedState
from wainwright.sim.pod_counts import is_daemon
from wainwright.sim.recorder import Recorder
from wainwright.sim.world import World
from wainwright.translate.resources import translate_capacity

INSTANCE_HAS_CLAIM: Final = "instance-has-claim"
CLAIM_HAS_INSTANCE: Final = "claim-has-instance"
ONE_INSTANCE_PER_CLAIM: Final = "one-instance-per-claim"
RESERVATION_NOT_EXCEEDED: Final = "reservation-not-exceeded"
LIMITS_NOT_EXCEEDED: Final = "limits-not-exceeded"
BUDGETS_RESPECTED: Final = "disruption-budgets-respected"
PLACEABLE_PODS_RUN: Final = "placeable-pods-run"
QUIET_STAYS_QUIET: Final = "quiet-stays-quiet"
NO_LIMITS: Final = ClusterLimits()
LAWS: Final = (
    INSTANCE_HAS_CLAIM,
    CLAIM_HAS_INSTANCE,
    ONE_INSTANCE_PER_CLAIM,
    RESERVATION_NOT_EXCEEDED,
    LIMITS_NOT_EXCEEDED,
    BUDGETS_RESPECTED,
    PLACEABLE_PODS_RUN,
    QUIET_STAYS_QUIET,
    *DISRUPTION_LAWS,
)
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
DISRUPTION_REASON: Final = "DisruptionReason"
FORCED_REASONS: Final = ("unhealthy", "interrupted")
DEFAULT_GRACE_PERIOD: Final = 30
MEMORY_OVERHEAD: Final = 0.08
"""The share that firmware and kernel use at most: until a claim says what its machine has."""


class Laws:
    """Judges the laws of one simulation; of each the first violation is kept."""

    def __init__(
        self,
        world: World,
        recorder: Recorder,
        limits: ClusterLimits = NO_LIMITS,
        clock_error: float = 0.0,
    ) -> None:
        """`clock_error`: by how many seconds the clock of the controllers may be off."""
        self._world = world
        self._recorder = recorder
        self._limits = limits
        self._clock_error = clock_error
        self._broken: dict[str, LawResult] = {}
        self._resources: dict[str, tuple[str, Mapping[str, int]]] = {}
        """By instance: its node by then, empty before it has joined, and what both offer."""
        self._reservation_counts: object = None
        self._launched: dict[str, str] = {}
        """Pools with a launch at this moment, and one of the instances."""
        world.account.services.instances.add_listener(self._on_instance)
        self._disruption = DisruptionLaws(world, recorder, self.break_law)

    def heard_by_process(self, aws: AwsCalls) -> AwsCalls:
        """The calls of a process that starts now: which prices it is told."""
        return self._disruption.prices.heard_by_process(aws)

    @property
    def results(self) -> list[LawResult]:
        return [self._broken.get(law) or LawResult(law=law, held=True) for law in LAWS]

    def break_law(self, law: str, message: str) -> None:
        at = round(self._world.now(), 3)
        self._broken.setdefault(law, LawResult(law=law, held=False, at=at, message=message))

    # Whenever something changes

    def observe(self, state: ObservedState) -> None:
        if state.reservations is not self._reservation_counts:
            self._reservation_counts = state.reservations
            self._check_reservations()
        launched, self._launched = self._launched, {}
        for pool, instance_id in launched.items():
            self._check_pool_limits(pool, instance_id)
        if launched:
            self._check_cluster_limits()
        self._disruption.observe()

    def _check_reservations(self) -> None:
        reservations = self._world.account.services.reservations.state.reservations
        for each in reservations.values():
            taken = each.used + each.used_by_others
            if each.active and taken > each.total:
                self.break_law(
                    RESERVATION_NOT_EXCEEDED,
                    f"{each.id} has {each.total} instances and {taken} run in it",
                )

    def _on_instance(self, instance: Instance, previous: str) -> None:
        """Limits are checked once for all launches of a moment."""
        if not previous:
            self._launched[instance.tags.get(NODEPOOL, "")] = instance.id
        elif not instance.alive:
            self._resources.pop(instance.id, None)

    def _check_pool_limits(self, name: str, instance_id: str) -> None:
        """A launch must not take a pool beyond its limits."""
        pool = self._world.api.peek(NodePool, name)
        limits = pool.spec.limits if pool is not None else None
        if not limits:
            return
        counted = [
            each
            for each in self._recorder.instances.all()
            if each.pool == name and not self._is_candidate(each) and not self._is_left_over(each)
        ]
        usage = self._usage(counted)
        for resource, limit in translate_capacity(limits).items():
            if usage.get(resource, 0) > limit:
                self.break_law(
                    LIMITS_NOT_EXCEEDED,
                    f"NodePool {name}: {instance_id} takes {resource} to "
                    f"{format_quantity(resource, usage[resource])}, and the limit is "
                    f"{format_quantity(resource, limit)}",
                )

    def _check_cluster_limits(self) -> None:
        limits, instances = self._limits, self._recorder.instances
        stated = {CPU: limits.cpu, MEMORY: limits.memory, "nodes": limits.nodes}
        bounds = {name: limit for name, limit in stated.items() if limit is not None}
        usage = self._usage(instances.all()) if bounds else {}
        for name, limit in bounds.items():
            if usage[name] > limit:
                self.break_law(
                    LIMITS_NOT_EXCEEDED,
                    f"the cluster has {name} {format_quantity(name, usage[name])}, and its limit "
                    f"is {format_quantity(name, limit)}",
                )
        price = instances.price_per_hour + instances.fees_per_hour
        if limits.price_per_hour is not None and price > limits.price_per_hour + 1e-6:
            self.break_law(
                LIMITS_NOT_EXCEEDED,
                f"the cluster costs {price:.6g} an hour, and its limit is "
                f"{limits.price_per_hour:g}",
            )

    def _usage(self, instances: Iterable[BilledInstance]) -> dict[str, int]:
        usage: dict[str, int] = {"nodes": 0, CPU: 0, MEMORY: 0}
        for each in instances:
            usage["nodes"] += 1
            for name, amount in self._resources_of(each).items():
                usage[name] = usage.get(name, 0) + amount
        return usage

    def _resources_of(self, billed: BilledInstance) -> Mapping[str, int]:
        """What its node offers, else what the claim says once it is launched; until then what EC2
        says of the type.
        """
        known = self._resources.get(billed.instance.id)
        if known is not None and known[0] == billed.node:
            return known[1]
        claim = self._world.api.peek(NodeClaim, billed.claim) if billed.claim else None
        stated = claim.status.capacity if claim is not None and claim.status is not None else None
        if stated:
            found = {**translate_capacity(stated), **self._offered(billed.node)}
            self._resources[billed.instance.id] = billed.node, found
            return found
        info = self._world.account.region_offerings.instance_types[billed.instance.type]
        memory = int((info.memory_mib << 20) * (1 - MEMORY_OVERHEAD))
        return {CPU: info.vcpus * 1000, MEMORY: memory}

    def _offered(self, name: str) -> dict[str, int]:
        """What has been detected on the node: less than its type says where `machines` say so."""
        node = self._world.api.peek(Node, name) if name else None
        offered = translate_capacity(node.status.capacity) if node is not None else {}
        return {resource: amount for resource, amount in offered.items() if amount}

    def _is_candidate(self, billed: BilledInstance) -> bool:
        """Whether it is going: a replacement may stand beside it.

        By its tag where the NodeClaim does not have the provider id yet: it may be deleted already.
        """
        name = billed.claim or billed.instance.tags.get(NODECLAIM_TAG, "")
        claim = self._world.api.peek(NodeClaim, name) if name else None
        if claim is None:
            return not billed.instance.alive
        return (
            claim.metadata.deletionTimestamp is not None
            or _condition(claim, DISRUPTION_REASON) == "True"
        )

    def _is_left_over(self, billed: BilledInstance) -> bool:
        """Whether it has come up for a command that was given up, beside the nodes that it was for:
        nobody launches beyond limits because of it.
        """
        claim = self._world.api.peek(NodeClaim, billed.claim) if billed.claim else None
        annotations = (claim.metadata.annotations if claim is not None else None) or {}
        replaced = filter(None, annotations.get(REPLACES_ANNOTATION, "").split(","))
        known = (self._world.api.peek(NodeClaim, name) for name in replaced)
        stays = any(
            each is not None
            and each.metadata.deletionTimestamp is None
            and _condition(each, DISRUPTION_REASON) != "True"
            for each in known
        )
        return stays and claim is not None and _condition(claim, INITIALIZED) == "True"

    # Pods that the controllers end

    def evicting(self, pod: Pod) -> None:
        """The API server has judged whether its budget allows the eviction."""
        self._disruption.ending(pod)

    def deleting(self, pod: Pod) -> None:
        """Only a deadline or an unhealthy node lets a pod be deleted whatever budgets say."""
        self._recorder.timeline.delete_forcibly(pod.metadata.uid)
        self._disruption.ending(pod)
        if is_daemon(pod) or is_exempt(pod) or self._is_forced(pod):
            return
        budget = self._exhausted_budget(pod)
        if budget is not None:
            self.break_law(
                BUDGETS_RESPECTED,
                f"{pod.metadata.namespace}/{pod.metadata.name} was deleted, and the budget "
                f"{budget.metadata.name} allows no disruption",
            )

    def _is_forced(self, pod: Pod) -> bool:
        """Whether its node is past the deadline that leaves the pod its own grace period."""
        node = self._world.api.peek(Node, pod.spec.nodeName)
        billed = None
        if node is not None:
            billed = self._recorder.instances.get(node.spec.providerID.rpartition("/")[2])
        claim = self._world.api.peek(NodeClaim, billed.claim) if billed is not None else None
        if claim is None or (billed is not None and (billed.was_noticed or billed.was_killed)):
            return True
        deadline = (claim.metadata.annotations or {}).get(TERMINATION_TIMESTAMP)
        if deadline is None:
            return self._recorder.endings.reason_of(claim.metadata.name) in FORCED_REASONS
        grace = pod.spec.terminationGracePeriodSeconds
        left = datetime.fromisoformat(deadline).timestamp() - self._world.clock.now()
        least = DEFAULT_GRACE_PERIOD if grace is None else grace
        return left <= least + 1 + self._clock_error

    def _exhausted_budget(self, pod: Pod) -> PodDisruptionBudget | None:
        for budget in self._world.api.peek_all(PodDisruptionBudget, pod.metadata.namespace):
            selector = budget.spec.selector
            if selector is None or not selector_matches(selector, pod.metadata.labels or {}):
                continue
            if not budget.status.disruptionsAllowed:
                return budget
        return None

    # Once the world is quiet

    def judge_quiet(self, placeable: Iterable[str]) -> None:
        """`placeable` are pods that wait although a plan could place them."""
        self._judge_claims()
        self._disruption.judge_quiet()
        for pod in placeable:
            self.break_law(PLACEABLE_PODS_RUN, f"{pod} still waits, and a plan places it")

    def _judge_claims(self) -> None:
        claims = list(self._world.api.peek_all(NodeClaim))
        by_instance: dict[str, str] = {}
        for claim in claims:
            identity = (claim.status or NodeClaimStatus()).providerID.rpartition("/")[2]
            instance = self._world.account.services.instances.get(identity) if identity else None
            if instance is None or not instance.alive:
                self.break_law(
                    CLAIM_HAS_INSTANCE, f"NodeClaim {claim.metadata.name} has no instance"
                )
            by_instance[identity] = claim.metadata.name
        self._judge_instances(by_instance, {each.metadata.name for each in claims})

    def _judge_instances(self, by_instance: Mapping[str, str], claims: Iterable[str]) -> None:
        known = set(claims)
        for instance in self._world.account.services.instances.list_alive():
            if instance.id in by_instance:
                continue
            claim = instance.tags.get(NODECLAIM_TAG, "")
            if claim in known:
                self.break_law(
                    ONE_INSTANCE_PER_CLAIM, f"{instance.id} is a second instance of {claim}"
                )
            else:
                self.break_law(INSTANCE_HAS_CLAIM, f"no NodeClaim has the instance {instance.id}")

    def judge_stillness(self, changes: Iterable[str]) -> None:
        """`changes` are objects that changed by themselves after the world was quiet."""
        for each in changes:
            self.break_law(QUIET_STAYS_QUIET, f"{each} changed after nothing had for ten minutes")


def _condition(claim: NodeClaim, kind: str) -> str:
    conditions = (claim.status or NodeClaimStatus()).conditions or ()
    return next((each.status for each in conditions if each.type == kind), "False")
