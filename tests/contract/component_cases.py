"""What the processes of a cluster do, case by case: `test_components.py` runs all of them on the
simulated ones, `tests/integration/test_components.py` on a real kube-scheduler and
kube-controller-manager.
"""

from collections import Counter
from typing import Any

from tests.support.simulated_cluster import Manifest, pod, workload
from tests.support.tested_components import ComponentCase, TestedComponents

from wainwright.api.kubernetes.cluster import Node, PodDisruptionBudget, PodDisruptionBudgetStatus
from wainwright.api.kubernetes.workloads import Deployment, Pod, ReplicaSet

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
