"""Unschedulable pods: the funnel of each pool, the nearest miss, and a suggestion that works."""

import msgspec
import pytest
from tests.support.model_builders import (
    GIB,
    affinity_term,
    existing_node,
    explain_pods,
    explained_plan,
    instance_type,
    label_requirement,
    labelled_pods,
    offering,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.core.explain.unschedulable import explain_unschedulable
from wainwright.core.plan import plan, solve_plan
from wainwright.messages import unschedulable
from wainwright.messages.suggestions import describe_suggestion
from wainwright.messages.unschedulable_answer import NO_FIX, answer_for
from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE
from wainwright.model.plan import MinValuesPolicy, PlanOptions, UnschedulableGroup
from wainwright.model.pod import Pod, PodConstraints, UnsupportedFeature
from wainwright.model.reasons import InstanceTypesTooSmall, LabelConflict, NoMatchingOffering
from wainwright.model.requirements import (
    Contradiction,
    RequiredValues,
    Requirements,
    RequirementSource,
    none_of,
    one_of,
)
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.model.suggestions import (
    AddToleration,
    AllowPoolValue,
    AnyFix,
    ChangePodRequirement,
    DropPodRequirement,
    HonorTaints,
    LowerMinValues,
    LowerRequest,
    RaiseLimit,
)
from wainwright.model.taints import Taint

SMALL = instance_type(name="m5.large", labels={INSTANCE_TYPE: "m5.large"})
LARGE = instance_type(
    name="m5.xlarge",
    labels={INSTANCE_TYPE: "m5.xlarge"},
    capacity={"cpu": 4000, "memory": 16 * GIB, "pods": 58},
    offerings=(offering(price=2.0),),
)
POOL = Pool(name="web")
GPU = "nvidia.com/gpu"


def failed(pod: Pod, *pools: Pool, options: PlanOptions | None = None) -> UnschedulableGroup:
    index = InstanceTypeIndex((SMALL, LARGE))
    snapshot = Snapshot(pods=(pod,), pools=pools)
    catalogs = {pool.name: index for pool in pools}
    [group] = explained_plan(snapshot, catalogs, options or PlanOptions()).unschedulable
    return group


def pod(*wanted: Requirements, cpu: int = 100, memory: int = GIB) -> Pod:
    alternatives = wanted or (Requirements(),)
    requests = {"cpu": cpu, "memory": memory}
    return Pod(namespace="shop", name="a", requests=requests, alternatives=alternatives)


def fix(found: UnschedulableGroup) -> AnyFix:
    """The only change of its suggestion."""
    assert found.suggestion is not None
    [change] = found.suggestion.changes
    return change


def suggestion_text(found: UnschedulableGroup) -> str:
    if found.suggestion is None:
        return ""
    return describe_suggestion(found.suggestion, with_total=False)


def test_a_pod_that_is_too_large_has_the_largest_type_as_nearest_miss() -> None:
    found = failed(pod(memory=20 * GIB), POOL)
    [verdict] = found.pools
    assert unschedulable.describe_pool_reason(verdict.reason) == (
        "the pod needs 20Gi memory; the largest instance type that the NodePool allows, "
        "m5.xlarge, has 16Gi "
        "allocatable"
    )
    assert verdict.nearest_miss is not None
    assert (verdict.nearest_miss.needed, verdict.nearest_miss.best) == (20 * GIB, 16 * GIB)
    assert verdict.funnel.requirements == 2
    assert verdict.funnel.resources == 0
    assert (
        suggestion_text(found)
        == "request 16Gi memory (now 20Gi): +$2.000/h for 1 m5.xlarge (on-demand)"
    )


def test_the_nearest_type_is_the_one_with_the_smallest_shortage_of_its_scarcest_resource() -> None:
    found = failed(pod(cpu=5000, memory=15 * GIB), POOL)
    reason = found.pools[0].reason
    assert (
        unschedulable.describe_pool_reason(reason)
        == "the pod needs 5 cpu; the largest instance type that the NodePool allows, m5.xlarge, "
        "has 4 cpu allocatable"
    )


def test_an_untolerated_taint_is_named_and_a_toleration_suggested() -> None:
    tainted = msgspec.structs.replace(POOL, taints=(Taint(key="gpu", value="yes"),))
    found = failed(pod(), tainted)
    assert unschedulable.describe_pool_reason(found.pools[0].reason) == (
        "the pod does not tolerate its taint gpu=yes:NoSchedule"
    )
    assert isinstance(fix(found), AddToleration)


def test_a_misspelt_label_key_is_corrected() -> None:
    found = failed(pod(label_requirement("zone", "In", "zone-a")), POOL)
    text = unschedulable.describe_pool_reason(found.pools[0].reason)
    assert text.endswith("did you mean topology.kubernetes.io/zone?")
    assert suggestion_text(found) == (
        "select topology.kubernetes.io/zone instead of zone: +$1.000/h for 1 m5.large (on-demand)"
    )


def test_an_unknown_instance_type_is_named_by_its_label() -> None:
    found = failed(pod(label_requirement(INSTANCE_TYPE, "In", "p5.large")), POOL)
    assert unschedulable.describe_pool_reason(found.pools[0].reason) == (
        "no instance type in the catalogue has node.kubernetes.io/instance-type p5.large"
    )


def test_a_capacity_type_without_offerings_is_named_by_its_label() -> None:
    found = failed(pod(label_requirement(CAPACITY_TYPE, "In", "spot")), POOL)
    assert unschedulable.describe_pool_reason(found.pools[0].reason) == (
        "the pod needs karpenter.sh/capacity-type spot; m5.large is available only as on-demand"
    )
    assert found.pools[0].funnel.resources == 2
    assert suggestion_text(found) == (
        "remove the pod's requirement on karpenter.sh/capacity-type: +$1.000/h for 1 m5.large "
        "(on-demand)"
    )


def test_unsatisfied_min_values_are_reported_with_both_counts() -> None:
    diverse = msgspec.structs.replace(
        POOL, requirements=label_requirement(INSTANCE_TYPE, "Exists", min_values=3)
    )
    found = failed(pod(), diverse)
    assert unschedulable.describe_pool_reason(found.pools[0].reason) == (
        "minValues requires 3 values of node.kubernetes.io/instance-type; the NodePool allows 2 "
        "(m5.large, m5.xlarge)"
    )
    assert isinstance(fix(found), LowerMinValues)


def test_under_best_effort_unsatisfied_min_values_are_no_reason() -> None:
    diverse = msgspec.structs.replace(
        POOL, requirements=label_requirement(INSTANCE_TYPE, "Exists", min_values=3)
    )
    policy = PlanOptions(min_values_policy=MinValuesPolicy.BEST_EFFORT)
    found = failed(pod(memory=20 * GIB), diverse, options=policy)
    assert "needs 20Gi memory" in unschedulable.describe_pool_reason(found.pools[0].reason)


def test_an_exceeded_limit_is_reported_with_usage_and_the_addition() -> None:
    limited = msgspec.structs.replace(POOL, limits={"cpu": 3000}, in_use={"cpu": 2000})
    found = failed(pod(), limited)
    assert unschedulable.describe_pool_reason(found.pools[0].reason) == (
        "its limit of 3 cpu is reached: 2 in use, and one more m5.large adds 2"
    )
    assert fix(found) == RaiseLimit(resource="cpu", now=3000, to=4000, pool="web")


def test_an_unusable_pool_is_reported_with_its_reason() -> None:
    static = msgspec.structs.replace(POOL, unusable="its capacity is static")
    found = failed(pod(), static)
    assert (
        unschedulable.describe_pool_reason(found.pools[0].reason)
        == "it launches no nodes: its capacity is static"
    )


def test_without_node_pools_there_is_one_reason_and_no_pool_verdict() -> None:
    found = failed(pod())
    assert unschedulable.describe_pod_reason(found.reason) == "there is no NodePool"
    assert found.pools == ()


def test_an_unsupported_feature_is_named() -> None:
    claiming = msgspec.structs.replace(pod(), unsupported=(UnsupportedFeature.RESOURCE_CLAIMS,))
    found = failed(claiming, POOL)
    assert unschedulable.describe_pod_reason(found.reason) == (
        "it uses resource claims, which the planner does not support"
    )


def test_both_sides_of_a_contradiction_are_named() -> None:
    sides = (
        RequiredValues(source=RequirementSource.NODE_SELECTOR, allowed=one_of(["b"])),
        RequiredValues(source=RequirementSource.NODE_AFFINITY, allowed=none_of(["b"])),
    )
    zone = Contradiction(key="zone", sides=sides)
    nowhere = msgspec.structs.replace(pod(), alternatives=(), contradictory=(zone,))
    assert unschedulable.describe_pod_reason(failed(nowhere, POOL).reason) == (
        "its requirements on zone (nodeSelector b, node affinity any but b) contradict each other, "
        "so that no node can meet them"
    )


def test_contradictory_requirements_are_reported_with_and_without_keys() -> None:
    zone = Contradiction(key="zone")
    nowhere = msgspec.structs.replace(pod(), alternatives=(), contradictory=(zone,))
    assert (
        unschedulable.describe_pod_reason(failed(nowhere, POOL).reason)
        == "its requirements on zone contradict each other, so that no node can meet them"
    )
    empty = msgspec.structs.replace(nowhere, contradictory=())
    assert (
        unschedulable.describe_pod_reason(failed(empty, POOL).reason)
        == "its requirements contradict each other, so that no node can meet them"
    )


def test_equal_pods_are_one_unschedulable_group() -> None:
    pods = tuple(
        msgspec.structs.replace(pod(memory=20 * GIB), name=name) for name in ("b", "a", "c")
    )
    [group] = explained_plan(
        Snapshot(pods=pods, pools=(POOL,)), {"web": InstanceTypeIndex((SMALL, LARGE))}
    ).unschedulable
    assert group.pods == ("shop/a", "shop/b", "shop/c")


def test_only_the_pods_that_are_asked_for_are_explained() -> None:
    large, placed = pod(memory=20 * GIB), pod(memory=GIB)
    waiting = [
        msgspec.structs.replace(each, name=name)
        for each, name in ((large, "a"), (large, "b"), (placed, "placed"))
    ]
    catalogs = {"web": InstanceTypeIndex((SMALL, LARGE))}
    solved = solve_plan(Snapshot(pods=tuple(waiting), pools=(POOL,)), catalogs)
    assert solved.plan.unplaced == ("shop/a", "shop/b")
    [group] = explain_unschedulable(solved, ["shop/b", "shop/placed", "shop/unknown"])
    assert group.pods == ("shop/b",)
    assert isinstance(group.pools[0].reason, InstanceTypesTooSmall)
    assert group.suggestion is None
    [suggested] = explain_unschedulable(solved, ["shop/b"], with_suggestions=True)
    assert isinstance(fix(suggested), LowerRequest)
    assert explain_unschedulable(solved, ["shop/placed"]) == ()


def test_the_alternative_that_passed_most_checks_is_explained() -> None:
    alternatives = (
        label_requirement(INSTANCE_TYPE, "In", "p5.large"),
        label_requirement(INSTANCE_TYPE, "In", "m5.large"),
    )
    found = failed(pod(*alternatives, memory=9 * GIB), POOL)
    assert (
        "the largest instance type that the NodePool allows, m5.large, has 8Gi allocatable"
        in unschedulable.describe_pool_reason(found.pools[0].reason)
    )


@pytest.mark.parametrize("memory", [20 * GIB, 16 * GIB + 1])
def test_a_pod_changed_as_suggested_is_schedulable(memory: int) -> None:
    change = fix(failed(pod(memory=memory), POOL))
    assert isinstance(change, LowerRequest)
    smaller = pod(memory=change.to)
    found_plan = plan(
        Snapshot(pods=(smaller,), pools=(POOL,)), {"web": InstanceTypeIndex((SMALL, LARGE))}
    )
    assert found_plan.unplaced == ()


def test_every_node_pool_says_why_it_launches_nothing_while_there_are_not_very_many() -> None:
    pools = [Pool(name=f"pool-{number:02}") for number in range(30)]
    (group,) = explain_pods(labelled_pods(1, cpu=99_000), pools=pools)
    assert [verdict.pool for verdict in group.pools] == [pool.name for pool in pools]
    assert group.unexplained_pools == 0


def test_a_spread_that_counts_zones_of_tainted_pools_can_honour_their_taints() -> None:
    zones = label_requirement(ZONE, "In", "zone-a", "zone-b")
    tainted = Pool(
        name="gpu",
        taints=(Taint(key="gpu"),),
        requirements=label_requirement(ZONE, "In", "zone-c"),
    )
    waiting = labelled_pods(4, cpu=9000, constraints=spread_constraint())
    [group] = explain_pods(
        waiting, zonal_instance_type(), pools=(Pool(name="web", requirements=zones), tainted)
    )
    assert len(group.pods) == 2
    assert fix(group) == HonorTaints(key=ZONE)


@pytest.mark.parametrize("is_own", [False, True])
def test_whether_it_is_the_pod_or_its_affinity_that_requires_a_zone(is_own: bool) -> None:
    near = PodConstraints(affinity=(affinity_term(app="db"),))
    own = label_requirement(ZONE, "In", "zone-a") if is_own else Requirements()
    [group] = explain_pods(
        labelled_pods(1, constraints=near, alternatives=(own,)),
        zonal_instance_type(zones=("zone-b",)),
        nodes=[existing_node("full", "zone-a", *labelled_pods(1, "db"), cpu=100)],
    )
    reason = group.pools[0].reason
    assert isinstance(reason, NoMatchingOffering | LabelConflict)
    assert (reason.key, reason.by_topology) == (ZONE, not is_own)


ZONAL = Pool(
    name="zonal",
    labels={"team": "payments"},
    requirements=label_requirement(ZONE, "In", "zone-a"),
)


@pytest.mark.parametrize("other", ["a-pool", "z-pool"])
def test_the_nearest_pool_is_the_one_with_most_of_the_labels_that_the_pod_selects(
    other: str,
) -> None:
    """Not one without them, onto which the pod would have to be moved; whatever their order."""
    selector = Requirements.from_labels({"team": "payments", ZONE: "zone-b"})
    pools = (ZONAL, Pool(name=other))
    [group] = explain_pods(labelled_pods(1, alternatives=(selector,)), pools=pools)
    assert group.nearest_pool == "zonal"
    assert fix(group) == AllowPoolValue(key=ZONE, value="zone-b", pool="zonal")


@pytest.mark.parametrize("other", ["a-pool", "z-pool"])
def test_of_alternatives_the_one_that_a_pool_comes_nearest_to_counts(other: str) -> None:
    """One label of the second term is missing, all three of the first; elsewhere two of each."""
    first = Requirements.from_labels({"team": "a", "tier": "b", "disk": "c"})
    second = Requirements.from_labels({"size": "d", "rack": "e"})
    near = Pool(name="near", labels={"size": "d"})
    pools = (near, Pool(name=other, labels={"team": "a"}))
    [group] = explain_pods(labelled_pods(1, alternatives=(first, second)), pools=pools)
    assert group.nearest_pool == "near"


@pytest.mark.parametrize("other", ["a-pool", "z-pool"])
def test_a_misspelt_value_of_a_label_of_a_pool_is_corrected(other: str) -> None:
    selector = Requirements.from_labels({"team": "paymetns"})
    pools = (ZONAL, Pool(name=other))
    [group] = explain_pods(labelled_pods(1, alternatives=(selector,)), pools=pools)
    assert group.nearest_pool == "zonal"
    assert fix(group) == ChangePodRequirement(
        key="team", now="paymetns", to="payments", pool="zonal"
    )


def test_another_value_of_a_label_of_a_pool_is_no_misspelling() -> None:
    selector = Requirements.from_labels({"team": "search"})
    [group] = explain_pods(labelled_pods(1, alternatives=(selector,)), pools=(ZONAL,))
    assert fix(group) == DropPodRequirement(key="team", pool="zonal")


def test_a_limit_is_raised_no_further_than_the_plan_then_uses() -> None:
    """The two pods alone need a node with four GPUs; it replaces those that the plan has."""
    memory = {"cpu": 8000, "memory": 64 * GIB, "pods": 29}
    types = [
        instance_type(
            name=name, capacity={**memory, GPU: count}, offerings=(offering(price=price),)
        )
        for name, count, price in (("g6.2xlarge", 1, 1.0), ("g6.12xlarge", 4, 4.5))
    ]
    requests = {"cpu": 1000, "memory": GIB, GPU: 1}
    waiting = [Pod(namespace="d", name=f"train-{n}", requests=requests) for n in range(4)]
    [group] = explain_pods(waiting, *types, pools=(Pool(name="gpu", limits={GPU: 2}),))
    assert len(group.pods) == 2
    assert fix(group) == RaiseLimit(resource=GPU, now=2, to=4, pool="gpu")
    assert group.suggestion is not None
    assert group.suggestion.serves == 2


def typed(name: str, price: float, **labels: str) -> InstanceType:
    own = {f"karpenter.k8s.aws/instance-{key.replace('_', '-')}": labels[key] for key in labels}
    return instance_type(name=name, labels=own, offerings=(offering(price=price),))


TWO_CPUS = typed("m4.large", 1.0, cpu="2", generation="4", category="m", family="m4")
FOUR_CPUS = typed("m5.xlarge", 2.0, cpu="4", generation="5", category="m", family="m5")
A10G = typed("g5.xlarge", 3.0, gpu_name="a10g", category="g", family="g5")
H100 = typed("p5.4xlarge", 9.0, gpu_name="h100", category="p", family="p5")


def requirement(label: str, operator: str, *values: str) -> Requirements:
    return label_requirement(f"karpenter.k8s.aws/instance-{label}", operator, *values)


@pytest.mark.parametrize(
    ("operator", "values", "text"),
    [
        (
            "Lt",
            ("4",),
            "change karpenter.k8s.aws/instance-cpu from Lt 4 (Lte 3) to Lt 5 (Lte 4)"
            " in NodePool web",
        ),
        (
            "NotIn",
            ("3", "4"),
            "remove 4 from NotIn of karpenter.k8s.aws/instance-cpu in NodePool web",
        ),
        (
            "NotIn",
            ("4",),
            "remove the requirement on karpenter.k8s.aws/instance-cpu in NodePool web",
        ),
        ("In", ("2",), "allow karpenter.k8s.aws/instance-cpu=4 in NodePool web"),
    ],
)
def test_a_value_is_allowed_in_the_words_of_the_requirement(
    operator: str, values: tuple[str, ...], text: str
) -> None:
    """Nothing can be added to NotIn, Gt and Lt."""
    pool = Pool(name="web", requirements=requirement("cpu", operator, *values))
    selective = labelled_pods(1, alternatives=(requirement("generation", "In", "5"),))
    [group] = explain_pods(selective, TWO_CPUS, FOUR_CPUS, pools=(pool,))
    assert suggestion_text(group).startswith(f"{text}: ")


def test_category_and_family_are_widened_together_before_the_pod_gets_another_gpu() -> None:
    own = requirement("category", "In", "g").narrow(requirement("family", "In", "g5"))
    selective = labelled_pods(1, alternatives=(requirement("gpu-name", "In", "h100"),))
    [group] = explain_pods(selective, A10G, H100, pools=(Pool(name="gpu", requirements=own),))
    assert suggestion_text(group).startswith(
        "allow karpenter.k8s.aws/instance-category=p and karpenter.k8s.aws/instance-family=p5 in "
        "NodePool gpu: "
    )


def test_a_fix_that_leads_to_another_gpu_names_both() -> None:
    selective = labelled_pods(1, alternatives=(requirement("gpu-name", "In", "b200"),))
    [group] = explain_pods(selective, A10G, pools=(Pool(name="gpu"),))
    assert suggestion_text(group).startswith(
        "remove the pod's requirement on karpenter.k8s.aws/instance-gpu-name (a10g instead of "
        "b200): "
    )


@pytest.mark.parametrize(("key", "value"), [(ARCH, "arm64"), (OS, "windows")])
def test_what_container_images_are_built_for_is_never_dropped(key: str, value: str) -> None:
    linux = instance_type(labels={ARCH: "amd64", OS: "linux"})
    selective = labelled_pods(1, alternatives=(label_requirement(key, "In", value),))
    [group] = explain_pods(selective, linux, pools=(POOL,))
    assert group.suggestion is None


def test_an_operating_system_that_the_node_class_has_no_images_of_names_the_class() -> None:
    linux = instance_type(labels={OS: "linux"})
    selective = labelled_pods(1, alternatives=(label_requirement(OS, "In", "windows"),))
    [group] = explain_pods(selective, linux, pools=(Pool(name="web", node_class="al2023"),))
    assert answer_for(group).lines() == [
        "NodePool web: the pod needs kubernetes.io/os windows; the images of EC2NodeClass al2023 "
        "are for linux; an EC2NodeClass with alias windows2022@latest has images for windows",
        NO_FIX,
    ]


def test_a_pool_that_requires_an_operating_system_needs_another_node_class() -> None:
    windows = instance_type(labels={OS: "windows"})
    pool = Pool(name="web", requirements=label_requirement(OS, "In", "linux"), auto_mode=True)
    selective = labelled_pods(1, alternatives=(label_requirement(OS, "In", "linux"),))
    [group] = explain_pods(selective, windows, pools=(pool,))
    assert answer_for(group).lines() == [
        "NodePool web: the NodePool requires kubernetes.io/os linux; the images of NodeClass "
        "default are for windows; an EC2NodeClass with alias al2023@latest has images for linux",
        NO_FIX,
    ]


RESERVED_ONLY = Pool(name="web", requirements=label_requirement(CAPACITY_TYPE, "In", "reserved"))


def reserved_type(**labels: str) -> InstanceType:
    offerings = (
        offering(zone="zone-b"),
        offering(capacity_type="reserved", reservation_id="cr-1"),
    )
    return instance_type(name="c5.large", offerings=offerings, labels=labels)


def cause(group: UnschedulableGroup) -> str:
    return unschedulable.describe_pool_reason(group.pools[0].reason)


def test_a_pod_that_is_too_large_for_the_reserved_types_does_not_hear_of_others() -> None:
    """LARGE is large enough, and has nothing to do with a NodePool for reserved capacity."""
    [group] = explain_pods(
        labelled_pods(1, cpu=3000), reserved_type(), LARGE, pools=(RESERVED_ONLY,)
    )
    assert "that it can launch as reserved, c5.large, has " in cause(group)


def test_a_reservation_in_another_zone_is_named() -> None:
    elsewhere = (label_requirement(ZONE, "In", "zone-b"),)
    other = instance_type(
        name="a1.nano", offerings=(offering(zone="zone-b"), offering(zone="zone-a"))
    )
    [group] = explain_pods(
        labelled_pods(1, alternatives=elsewhere), reserved_type(), other, pools=(RESERVED_ONLY,)
    )
    assert cause(group) == (
        "the pod needs topology.kubernetes.io/zone zone-b; capacity reservation cr-1 of c5.large "
        "is in zone-a"
    )


def test_of_types_with_equal_cpu_the_largest_is_the_one_with_most_memory() -> None:
    room = {"cpu": 2000, "pods": 29}
    types = [
        instance_type(name=name, capacity={**room, "memory": memory * GIB})
        for name, memory in (("t4g.nano", 4), ("r5.large", 16), ("m5.large", 8))
    ]
    [group] = explain_pods(labelled_pods(1, cpu=6000), *types)
    assert "the largest instance type that the NodePool allows, r5.large, has 2 cpu" in cause(group)
