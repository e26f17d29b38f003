"""What the processes of a cluster do, case by case: `test_components.py` runs all of them on the
simulated ones, `tests/integration/test_components.py` on a real kube-scheduler and
kube-controller-manager.
"""

from collections import Counter
from typing import Any

from tests.support.simulated_cluster import Manifest, pod, workload
from tests.support.tested_components import ComponentCase, TestedComponents

from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget, PodDisruptionBudgetStatus
from wainwright.api.kubernetes.workloads import Deployment, Job, Pod, ReplicaSet

CASES: dict[str, ComponentCase] = {}
"""By name, which is a sentence."""
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}
SELECTS_WEB = {"matchLabels": WEB}
SMALL = {"cpu": "100m"}


def on_each_cluster(case: ComponentCase) -> ComponentCase:
    CASES[case.__name__] = case
    return case


def spread(key: str = ZONE, **changes: Any) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTS_WEB,
        **changes,
    }
    return {"topologySpreadConstraints": [constraint]}


def pod_affinity(kind: str, key: str = ZONE, **term: Any) -> dict[str, Any]:
    required = [{"topologyKey": key, "labelSelector": SELECTS_WEB, **term}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in expressions]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def container(cpu: str, **changes: Any) -> dict[str, Any]:
    return {"image": "app", "resources": {"requests": {"cpu": cpu}}, **changes}


# Resources


@on_each_cluster
async def a_node_takes_pods_until_its_cpu_is_requested(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "2"})
    assert await tested.place("first", requests={"cpu": "1500m"}) == "a"
    assert await tested.place("second", requests={"cpu": "600m"}) == ""
    assert "1 Insufficient cpu" in await tested.why_pending("second")
    assert await tested.place("third", requests={"cpu": "500m"}) == "a"


@on_each_cluster
async def a_pod_that_did_not_fit_is_bound_when_another_is_gone(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "1"})
    assert await tested.place("first") == "a"
    assert await tested.place("second") == ""
    await tested.cluster.delete(Pod, "first", tested.namespace, grace_period=0)

    async def is_bound() -> bool:
        return bool((await tested.pod("second")).spec.nodeName)

    await tested.until(is_bound)


@on_each_cluster
async def init_containers_count_where_they_need_more(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "2"})
    init = [container("2500m", name="setup")]
    assert await tested.place("large", requests=SMALL, initContainers=init) == ""
    fitting = [container("2", name="setup")]
    assert await tested.place("fits", requests={"cpu": "1"}, initContainers=fitting) == "a"


@on_each_cluster
async def a_sidecar_counts_beside_the_containers(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "2"})
    sidecar = [container("1", name="proxy", restartPolicy="Always")]
    assert await tested.place("large", requests={"cpu": "1100m"}, initContainers=sidecar) == ""
    assert await tested.place("fits", requests={"cpu": "1"}, initContainers=sidecar) == "a"


@on_each_cluster
async def extended_resources_are_counted(tested: TestedComponents) -> None:
    await tested.node("plain")
    await tested.node("gpus", resources={"example.com/gpu": "1"})
    wanted = {
        "containers": [
            {
                "name": "app",
                "image": "app",
                "resources": {"limits": {"example.com/gpu": "1"}},
            }
        ]
    }
    assert await tested.place("first", **wanted) == "gpus"
    assert await tested.place("second", **wanted) == ""
    assert "2 Insufficient example.com/gpu" in await tested.why_pending("second")


@on_each_cluster
async def a_node_takes_no_more_pods_than_it_allows(tested: TestedComponents) -> None:
    await tested.node("a", resources={"pods": "1"})
    assert await tested.place("first", requests={}) == "a"
    assert await tested.place("second", requests={}) == ""
    assert "1 Too many pods" in await tested.why_pending("second")


@on_each_cluster
async def a_host_port_is_taken_once(tested: TestedComponents) -> None:
    await tested.node("a")

    def listening(name: str, port: int) -> dict[str, Any]:
        ports = [{"containerPort": port, "hostPort": port}]
        return {"containers": [{"name": name, "image": "app", "ports": ports}]}

    assert await tested.place("first", **listening("app", 80)) == "a"
    assert await tested.place("second", **listening("app", 80)) == ""
    assert "free ports" in await tested.why_pending("second")
    assert await tested.place("third", **listening("app", 81)) == "a"


# Nodes


@on_each_cluster
async def the_node_with_most_room_is_taken(tested: TestedComponents) -> None:
    await tested.node("small", resources={"cpu": "2", "memory": "8Gi"})
    await tested.node("large", resources={"cpu": "8", "memory": "32Gi"})
    assert await tested.place("first") == "large"


@on_each_cluster
async def a_cordoned_node_takes_nobody(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.cluster.patch(Node, tested.name("a"), {"spec": {"unschedulable": True}})
    await tested.settle()
    assert await tested.place("first") == ""
    assert "1 node(s) were unschedulable" in await tested.why_pending("first")


@on_each_cluster
async def a_taint_keeps_pods_away_that_do_not_tolerate_it(tested: TestedComponents) -> None:
    await tested.node("a", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}])
    assert await tested.place("plain") == ""
    assert "untolerated taint(s)" in (why := await tested.why_pending("plain")) or (
        "untolerated taint {team: red}" in why
    )
    toleration = {"key": "team", "operator": "Equal", "effect": "NoSchedule"}
    assert await tested.place("blue", tolerations=[{**toleration, "value": "blue"}]) == ""
    assert await tested.place("red", tolerations=[{**toleration, "value": "red"}]) == "a"


@on_each_cluster
async def a_selector_names_the_labels_of_the_node(tested: TestedComponents) -> None:
    await tested.node("a", labels={"disk": "hdd"})
    await tested.node("b", labels={"disk": "ssd"})
    assert await tested.place("fast", nodeSelector={"disk": "ssd"}) == "b"
    assert await tested.place("none", nodeSelector={"disk": "tape"}) == ""
    assert "2 node(s) didn't match Pod's node affinity/selector" in await tested.why_pending("none")


@on_each_cluster
async def one_term_of_a_node_affinity_is_enough(tested: TestedComponents) -> None:
    await tested.node("a", labels={"generation": "4"})
    await tested.node("b", labels={"generation": "6"})
    newer = {"key": "generation", "operator": "Gt", "values": ["5"]}
    absent = {"key": "generation", "operator": "DoesNotExist"}
    excluded = {"key": "generation", "operator": "NotIn", "values": ["6"]}
    assert await tested.place("newer", **node_affinity(newer)) == "b"
    assert await tested.place("either", **node_affinity(absent, newer)) == "b"
    assert await tested.place("other", **node_affinity(excluded)) == "a"
    assert await tested.place("none", **node_affinity(absent)) == ""


@on_each_cluster
async def preferred_node_affinity_goes_before_room(tested: TestedComponents) -> None:
    await tested.node("small", resources={"cpu": "2", "memory": "8Gi"}, labels={"disk": "ssd"})
    await tested.node("large", resources={"cpu": "4"})
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert await tested.place("first", affinity=affinity, requests=SMALL) == "small"


@on_each_cluster
async def a_gated_pod_is_not_scheduled_until_its_gates_are_gone(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
    await tested.settle()
    assert (await tested.pod("gated")).spec.nodeName == ""
    patch = {"spec": {"schedulingGates": None}}
    await tested.cluster.patch(Pod, "gated", patch, tested.namespace)

    async def is_bound() -> bool:
        return bool((await tested.pod("gated")).spec.nodeName)

    await tested.until(is_bound)


# Other pods


async def two_zones(tested: TestedComponents) -> None:
    await tested.node("a", zone="z1")
    await tested.node("b", zone="z2")


@on_each_cluster
async def anti_affinity_keeps_pods_in_different_zones(tested: TestedComponents) -> None:
    await two_zones(tested)
    apart = {"labels": WEB, **pod_affinity("podAntiAffinity")}
    found = {await tested.place(name, **apart) for name in ("first", "second")}
    assert found == {"a", "b"}
    assert await tested.place("third", **apart) == ""
    assert "anti-affinity" in await tested.why_pending("third")


@on_each_cluster
async def anti_affinity_of_a_pod_that_runs_keeps_others_away(tested: TestedComponents) -> None:
    await tested.node("a")
    assert await tested.place("first", **pod_affinity("podAntiAffinity", HOSTNAME)) == "a"
    assert await tested.place("other", labels={"app": "db"}) == "a"
    assert await tested.place("web", labels=WEB) == ""
    assert "existing pods anti-affinity" in await tested.why_pending("web")


@on_each_cluster
async def affinity_brings_pods_together(tested: TestedComponents) -> None:
    await two_zones(tested)
    beside = {"labels": WEB, **pod_affinity("podAffinity")}
    first = await tested.place("first", **beside)
    assert first in ("a", "b"), "the first of a group that wants to be together begins anywhere"
    assert await tested.place("second", **beside) == first
    assert await tested.place("third", **beside) == first


@on_each_cluster
async def affinity_to_others_waits_for_them(tested: TestedComponents) -> None:
    await two_zones(tested)
    assert await tested.place("follower", **pod_affinity("podAffinity")) == ""
    assert "didn't match pod affinity rules" in await tested.why_pending("follower")
    where = await tested.place("web", labels=WEB)

    async def follows() -> bool:
        follower = await tested.pod("follower")
        return follower.spec.nodeName == tested.name(where)

    await tested.until(follows)


@on_each_cluster
async def affinity_looks_at_its_own_namespace(tested: TestedComponents) -> None:
    await tested.node("a")
    assert await tested.place("web", labels=WEB) == "a"
    elsewhere = pod_affinity("podAntiAffinity", HOSTNAME, namespaces=["kube-system"])
    assert await tested.place("first", **elsewhere) == "a"
    everywhere = pod_affinity("podAntiAffinity", HOSTNAME, namespaceSelector={})
    assert await tested.place("second", **everywhere) == ""


@on_each_cluster
async def spread_keeps_the_skew(tested: TestedComponents) -> None:
    await two_zones(tested)
    even = {"labels": WEB, "requests": SMALL, **spread()}
    found = Counter([await tested.place(f"web-{number}", **even) for number in range(4)])
    assert found == {"a": 2, "b": 2}


@on_each_cluster
async def spread_waits_where_one_domain_is_full(tested: TestedComponents) -> None:
    await tested.node("a", zone="z1", resources={"cpu": "4"})
    await tested.node("b", zone="z2", resources={"cpu": "1"})
    even = {"labels": WEB, "requests": {"cpu": "1"}, **spread()}
    for number in range(3):
        assert await tested.place(f"web-{number}", **even)
    assert await tested.place("web-3", **even) == ""
    assert "topology spread constraints" in await tested.why_pending("web-3")


@on_each_cluster
async def spread_over_fewer_domains_than_wanted_counts_from_zero(tested: TestedComponents) -> None:
    await two_zones(tested)
    wide = {"labels": WEB, "requests": SMALL, **spread(minDomains=3)}
    assert {await tested.place("web-0", **wide), await tested.place("web-1", **wide)} == {"a", "b"}
    assert await tested.place("web-2", **wide) == ""


@on_each_cluster
async def spread_counts_only_nodes_that_the_selector_admits(tested: TestedComponents) -> None:
    await tested.node("a", zone="z1", labels={"disk": "ssd"})
    await tested.node("b", zone="z2")
    fast = {"labels": WEB, "requests": SMALL, "nodeSelector": {"disk": "ssd"}}
    assert await tested.place("web-0", **fast, **spread()) == "a"
    assert await tested.place("web-1", **fast, **spread()) == "a"
    assert await tested.place("web-2", **fast, **spread(nodeAffinityPolicy="Ignore")) == ""


@on_each_cluster
async def spread_counts_tainted_nodes_unless_its_policy_is_to_honor_taints(
    tested: TestedComponents,
) -> None:
    await tested.node("a", zone="z1")
    await tested.node("b", zone="z2", taints=[{"key": "team", "effect": "NoSchedule"}])
    even = {"labels": WEB, "requests": SMALL}
    assert await tested.place("web-0", **even, **spread()) == "a"
    assert await tested.place("web-1", **even, **spread()) == ""
    assert await tested.place("web-2", **even, **spread(nodeTaintsPolicy="Honor")) == "a"


@on_each_cluster
async def spread_needs_the_label_on_the_node(tested: TestedComponents) -> None:
    await tested.node("a")
    assert await tested.place("web", labels=WEB, **spread("rack")) == ""
    assert "missing required label" in await tested.why_pending("web")


@on_each_cluster
async def spread_counts_each_revision_apart_by_match_label_keys(tested: TestedComponents) -> None:
    await tested.node("a", zone="z1")
    await tested.node("b", zone="z2", resources={"cpu": "100m"})

    def revision(number: str) -> dict[str, Any]:
        constraint = spread(matchLabelKeys=["revision"])
        return {"labels": {**WEB, "revision": number}, "requests": SMALL, **constraint}

    assert {await tested.place(f"one-{n}", **revision("1")) for n in range(2)} == {"a", "b"}
    assert await tested.place("two-0", **revision("2")) == "a"
    assert await tested.place("two-1", **revision("2")) == ""


@on_each_cluster
async def preferred_anti_affinity_goes_before_room(tested: TestedComponents) -> None:
    await tested.node("small", resources={"cpu": "4", "memory": "16Gi"})
    await tested.node("large", resources={"cpu": "8", "memory": "32Gi"})
    even = {"cpu": "1", "memory": "4Gi"}
    assert await tested.place("web", labels=WEB, requests=even) == "large"
    term = {"topologyKey": HOSTNAME, "labelSelector": SELECTS_WEB}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert await tested.place("apart", affinity=affinity, requests=even) == "small"


@on_each_cluster
async def spread_does_not_count_pods_that_are_being_deleted(tested: TestedComponents) -> None:
    await two_zones(tested)
    even = {"labels": WEB, "requests": SMALL, **spread()}
    first = await tested.place("web-0", **even)
    await tested.cluster.delete(Pod, "web-0", tested.namespace, grace_period=30)
    await tested.settle()
    second = await tested.place("web-1", **even)
    third = await tested.place("web-2", **even)
    assert {second, third} == {"a", "b"}, f"the one being deleted is on {first}"


@on_each_cluster
async def nodes_without_all_keys_do_not_take_part_in_a_spread(tested: TestedComponents) -> None:
    await tested.node("a", zone="z1", labels={"rack": "r1"})
    await tested.node("b", zone="z2")
    constraints = [*spread()["topologySpreadConstraints"]]
    constraints += spread("rack", maxSkew=5)["topologySpreadConstraints"]
    both = {"labels": WEB, "requests": SMALL, "topologySpreadConstraints": constraints}
    assert await tested.place("web-0", **both) == "a"
    assert await tested.place("web-1", **both) == "a", "the other zone has no rack"


@on_each_cluster
async def anti_affinity_can_be_limited_to_other_values_of_a_label(
    tested: TestedComponents,
) -> None:
    await tested.node("a")

    def of_team(name: str) -> dict[str, Any]:
        others = pod_affinity("podAntiAffinity", HOSTNAME, mismatchLabelKeys=["team"])
        return {"labels": {**WEB, "team": name}, "requests": SMALL, **others}

    assert await tested.place("red-0", **of_team("red")) == "a"
    assert await tested.place("red-1", **of_team("red")) == "a"
    assert await tested.place("blue-0", **of_team("blue")) == ""


@on_each_cluster
async def two_terms_of_an_affinity_want_the_same_pod(tested: TestedComponents) -> None:
    await two_zones(tested)
    labels = {"app": "web", "tier": "front"}
    assert await tested.place("web", labels={"app": "web"}, nodeSelector={ZONE: "z1"}) == "a"
    assert await tested.place("front", labels={"tier": "front"}, nodeSelector={ZONE: "z1"}) == "a"
    terms = [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {key: value}}}
        for key, value in labels.items()
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    assert await tested.place("both", affinity={"podAffinity": required}) == ""
    assert await tested.place("whole", labels=labels, nodeSelector={ZONE: "z2"}) == "b"
    await bound(tested, "both", "b")


async def bound(tested: TestedComponents, name: str, base: str) -> None:
    async def is_so() -> bool:
        return (await tested.pod(name)).spec.nodeName == tested.name(base)

    await tested.until(is_so)


# Taints


@on_each_cluster
async def a_cordoned_node_is_tainted(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.cluster.patch(Node, tested.name("a"), {"spec": {"unschedulable": True}})

    async def is_tainted() -> bool:
        found = await tested.cluster.get(Node, tested.name("a"))
        keys = [(each.key, each.effect) for each in found.spec.taints or ()]
        return keys == [("node.kubernetes.io/unschedulable", "NoSchedule")]

    await tested.until(is_tainted)


@on_each_cluster
async def a_node_that_is_not_ready_is_tainted_twice(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.node("b")  # where no node is left at all, a real controller evicts nobody
    condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    status = {"status": {"conditions": [condition]}}
    await tested.cluster.patch_status(Node, tested.name("a"), status)

    async def is_tainted() -> bool:
        found = await tested.cluster.get(Node, tested.name("a"))
        keys = sorted((each.key, each.effect) for each in found.spec.taints or ())
        key = "node.kubernetes.io/not-ready"
        return keys == [(key, "NoExecute"), (key, "NoSchedule")]

    await tested.until(is_tainted)


@on_each_cluster
async def a_no_execute_taint_drives_pods_away(tested: TestedComponents) -> None:
    await tested.node("a")
    lasting = [{"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}]
    assert await tested.place("plain", requests=SMALL) == "a"
    assert await tested.place("lasting", requests=SMALL, tolerations=lasting) == "a"
    taint = {"key": "maintenance", "effect": "NoExecute"}
    await tested.cluster.patch(Node, tested.name("a"), {"spec": {"taints": [taint]}})

    async def is_leaving() -> bool:
        return (await tested.pod("plain")).metadata.deletionTimestamp is not None

    await tested.until(is_leaving)
    reasons = [each.reason for each in (await tested.pod("plain")).status.conditions or ()]
    assert "DeletionByTaintManager" in reasons
    assert (await tested.pod("lasting")).metadata.deletionTimestamp is None


# Workloads


async def count_pods(tested: TestedComponents, number: int) -> None:
    """Waits until there are so many pods that are not being deleted."""

    async def is_so() -> bool:
        pods = await tested.pods()
        return sum(each.metadata.deletionTimestamp is None for each in pods) == number

    await tested.until(is_so)


@on_each_cluster
async def a_replica_set_keeps_its_number(tested: TestedComponents) -> None:
    await tested.apply(workload("ReplicaSet", "web", 3))
    await count_pods(tested, 3)
    pods = await tested.pods()
    owners = {each.kind for pod in pods for each in pod.metadata.ownerReferences or ()}
    assert owners == {"ReplicaSet"}
    await tested.cluster.delete(Pod, pods[0].metadata.name, tested.namespace, grace_period=0)
    await tested.settle()
    await count_pods(tested, 3)
    patch = {"spec": {"replicas": 1}}
    await tested.cluster.patch(ReplicaSet, "web", patch, tested.namespace)
    await count_pods(tested, 1)


@on_each_cluster
async def a_terminating_pod_is_replaced_at_once(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(workload("Deployment", "web", 1))
    await count_pods(tested, 1)

    async def is_bound() -> bool:
        return all(each.spec.nodeName for each in await tested.pods())

    await tested.until(is_bound)
    first = (await tested.pods())[0].metadata.name
    await tested.cluster.delete(Pod, first, tested.namespace, grace_period=30)
    await count_pods(tested, 1)
    assert len(await tested.pods()) == 2


@on_each_cluster
async def a_scale_down_takes_pods_first_that_are_nowhere(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "2"})
    await tested.apply(workload("Deployment", "web", 3))
    await count_pods(tested, 3)

    async def are_two_bound() -> bool:
        return sum(bool(each.spec.nodeName) for each in await tested.pods()) == 2

    await tested.until(are_two_bound)
    patch = {"spec": {"replicas": 2}}
    await tested.cluster.patch(Deployment, "web", patch, tested.namespace)
    await count_pods(tested, 2)
    assert await are_two_bound()


@on_each_cluster
async def a_scale_down_takes_the_cheapest_deletion_first(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(workload("ReplicaSet", "web", 3))
    await count_pods(tested, 3)

    async def are_bound() -> bool:
        return all(each.spec.nodeName for each in await tested.pods())

    await tested.until(are_bound)
    await tested.run_pods()
    cheapest = (await tested.pods())[1].metadata.name
    cost = {"controller.kubernetes.io/pod-deletion-cost": "-10"}
    patch = {"metadata": {"annotations": cost}}
    await tested.cluster.patch(Pod, cheapest, patch, tested.namespace)
    await tested.settle()
    scale = {"spec": {"replicas": 2}}
    await tested.cluster.patch(ReplicaSet, "web", scale, tested.namespace)
    await count_pods(tested, 2)
    left = [each for each in await tested.pods() if each.metadata.deletionTimestamp is None]
    assert cheapest not in {each.metadata.name for each in left}


@on_each_cluster
async def a_rolling_update_stays_within_its_surge(tested: TestedComponents) -> None:
    await tested.node("a", resources={"cpu": "8"})
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    await tested.apply(workload("Deployment", "web", 2, strategy=strategy))
    await count_pods(tested, 2)
    await ready(tested, 2)
    template = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await tested.cluster.patch(Deployment, "web", template, tested.namespace)
    await count_pods(tested, 3)
    await tested.settle()
    assert len(await tested.pods()) == 3, "nobody goes before the new pod is ready"


async def ready(tested: TestedComponents, number: int) -> None:
    async def are_ready() -> bool:
        await tested.run_pods()
        pods = await tested.pods()
        return sum(each.status.phase == "Running" for each in pods) == number

    await tested.until(are_ready)


@on_each_cluster
async def recreate_waits_until_the_old_pods_are_gone(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(workload("Deployment", "web", 1, strategy={"type": "Recreate"}, template={}))
    await count_pods(tested, 1)
    await ready(tested, 1)
    old = (await tested.pods())[0].metadata
    template = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await tested.cluster.patch(Deployment, "web", template, tested.namespace)
    await tested.settle()
    assert [each.metadata.uid for each in await tested.pods()] == [old.uid]
    assert (await tested.pods())[0].metadata.deletionTimestamp is not None
    await tested.cluster.delete(Pod, old.name, tested.namespace, grace_period=0)
    await count_pods(tested, 1)
    assert "pod-template-hash" in ((await tested.pods())[0].metadata.labels or {})


@on_each_cluster
async def ordinals_of_a_stateful_set_come_in_order(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(workload("StatefulSet", "db", 2, template={"requests": SMALL}))
    await count_pods(tested, 1)
    await tested.settle()
    (first,) = await tested.pods()
    assert first.metadata.name == "db-0"
    await ready(tested, 1)
    await count_pods(tested, 2)
    names = [each.metadata.name for each in await tested.pods()]
    assert names == ["db-0", "db-1"]
    labels = first.metadata.labels or {}
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"


@on_each_cluster
async def a_job_runs_its_completions_so_many_at_a_time(tested: TestedComponents) -> None:
    await tested.node("a")
    template = {"requests": SMALL, "restartPolicy": "Never"}
    await tested.apply(workload("Job", "sum", template=template, parallelism=2, completions=3))
    await count_pods(tested, 2)
    for done in (1, 2, 3):
        await ready(tested, min(2, 4 - done))
        running = next(each for each in await tested.pods() if each.status.phase == "Running")
        status = {"status": {"phase": "Succeeded"}}
        await tested.cluster.patch_status(Pod, running.metadata.name, status, tested.namespace)
        await job_has(tested, succeeded=done, active=min(2, 3 - done))
    assert len(await tested.pods()) == 3
    found = await tested.cluster.get(Job, "sum", tested.namespace)
    assert "Complete" in [each.type for each in found.status.conditions or ()]


async def job_has(tested: TestedComponents, *, succeeded: int, active: int) -> None:
    async def is_so() -> bool:
        found = await tested.cluster.get(Job, "sum", tested.namespace)
        return (found.status.succeeded, found.status.active) == (succeeded, active)

    await tested.until(is_so)


@on_each_cluster
async def a_daemon_names_its_node_and_tolerates_what_ails_it(tested: TestedComponents) -> None:
    await tested.node("a")
    await tested.apply(workload("DaemonSet", "agent", template={"requests": SMALL}))
    await count_pods(tested, 1)
    (found,) = await tested.pods()
    tolerated = {
        each.key.removeprefix("node.kubernetes.io/") for each in found.spec.tolerations or ()
    }
    assert tolerated == {
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    }
    affinity = found.spec.affinity
    assert affinity is not None
    assert affinity.nodeAffinity is not None
    required = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert required is not None
    (term,) = required.nodeSelectorTerms or []
    (field,) = term.matchFields or []
    assert (field.key, field.values) == ("metadata.name", [tested.name("a")])


@on_each_cluster
async def a_daemon_runs_on_each_node_that_fits(tested: TestedComponents) -> None:
    await tested.node("a", labels={"disk": "ssd"})
    await tested.node("b", labels={"disk": "ssd"})
    await tested.node("c")
    tainted = [{"key": "team", "effect": "NoSchedule"}]
    await tested.node("d", labels={"disk": "ssd"}, taints=tainted)
    template = {"nodeSelector": {"disk": "ssd"}, "requests": SMALL}
    await tested.apply(workload("DaemonSet", "agent", template=template))

    async def are_bound() -> bool:
        nodes = sorted(each.spec.nodeName for each in await tested.pods())
        return nodes == [tested.name("a"), tested.name("b")]

    await tested.until(are_bound)
    await tested.settle()
    assert await are_bound()


# Budgets


def budget(**spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": SELECTS_WEB, **spec},
    }


async def status_is(tested: TestedComponents, **expected: int) -> None:
    async def is_so() -> bool:
        found: PodDisruptionBudgetStatus = (
            await tested.cluster.get(PodDisruptionBudget, "web", tested.namespace)
        ).status
        return {key: getattr(found, key) for key in expected} == expected

    await tested.until(is_so)


async def running_web(tested: TestedComponents, replicas: int) -> None:
    await tested.node("a", resources={"cpu": "8"})
    await tested.apply(workload("Deployment", "web", replicas, template={"requests": SMALL}))
    await count_pods(tested, replicas)
    await ready(tested, replicas)


@on_each_cluster
async def a_budget_counts_what_may_be_unavailable(tested: TestedComponents) -> None:
    await running_web(tested, 4)
    await tested.apply(budget(maxUnavailable=1))
    await status_is(
        tested, disruptionsAllowed=1, currentHealthy=4, desiredHealthy=3, expectedPods=4
    )


@on_each_cluster
async def a_budget_in_percent_is_rounded_up(tested: TestedComponents) -> None:
    await running_web(tested, 3)
    await tested.apply(budget(minAvailable="50%"))
    await status_is(
        tested, disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2, expectedPods=3
    )


@on_each_cluster
async def a_budget_follows_the_replicas_of_its_workload(tested: TestedComponents) -> None:
    await running_web(tested, 2)
    await tested.apply(budget(maxUnavailable="50%"))
    await status_is(tested, disruptionsAllowed=1, desiredHealthy=1, expectedPods=2)
    patch = {"spec": {"replicas": 4}}
    await tested.cluster.patch(Deployment, "web", patch, tested.namespace)
    await status_is(tested, desiredHealthy=2, expectedPods=4)


@on_each_cluster
async def a_share_of_pods_that_nobody_scales_allows_nothing(tested: TestedComponents) -> None:
    await tested.node("a")
    assert await tested.place("lone", labels=WEB) == "a"
    await ready(tested, 1)
    await tested.apply(budget(maxUnavailable=1))
    await status_is(tested, observedGeneration=1, disruptionsAllowed=0, expectedPods=0)


@on_each_cluster
async def a_number_of_pods_that_nobody_scales_is_counted(tested: TestedComponents) -> None:
    await tested.node("a")
    for name in ("lone", "other"):
        assert await tested.place(name, labels=WEB, requests=SMALL) == "a"
    await ready(tested, 2)
    await tested.apply(budget(minAvailable=1))
    await status_is(tested, disruptionsAllowed=1, expectedPods=2, currentHealthy=2)


@on_each_cluster
async def an_eviction_is_counted_until_another_pod_is_ready(tested: TestedComponents) -> None:
    await running_web(tested, 2)
    await tested.apply(budget(minAvailable=1))
    await status_is(tested, disruptionsAllowed=1)
    first = (await tested.pods())[0].metadata.name
    await tested.cluster.evict(first, tested.namespace, grace_period=0)
    await status_is(tested, disruptionsAllowed=0, currentHealthy=1)
    await count_pods(tested, 2)
    await ready(tested, 2)
    await status_is(tested, disruptionsAllowed=1, currentHealthy=2)
    found = await tested.cluster.get(PodDisruptionBudget, "web", tested.namespace)
    assert not found.status.disruptedPods
