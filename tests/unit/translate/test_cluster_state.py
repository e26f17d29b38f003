"""The whole input as one snapshot."""

from itertools import permutations

from tests.unit.translate.objects import (
    Value,
    claim,
    condition,
    container,
    manifests,
    node,
    owned,
    pod,
    pool,
    thing,
    translated,
)

from wainwright.model.snapshot import ReservationState
from wainwright.translate.cluster_state import translate_snapshot

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
POOLED = {"labels": {"karpenter.sh/nodepool": "web"}}
FEES = {"region": "us-west-2", "fees": {"perNode": 0.5, "perGiBDisk": 0.25}}


def cloud(**spec: object) -> Value:
    return thing("wainwright.dev/v1alpha1", "Cloud", "c", spec={"region": "us-west-2", **spec})


def deployment(replicas: int) -> Value:
    template = {"spec": {"containers": [container(cpu="1")]}}
    spec = {"replicas": replicas, "template": template}
    return thing("apps/v1", "Deployment", "web", metadata={"namespace": "shop"}, spec=spec)


def test_workloads_are_expanded_and_their_pods_scheduled() -> None:
    found = translated(deployment(2)).snapshot
    assert [each.key for each in found.pods] == ["shop/web-0", "shop/web-1"]
    assert found.pods[0].requests is found.pods[1].requests


def test_running_pods_are_on_their_nodes() -> None:
    found = translated(node("n"), pod("b", spec={"nodeName": "n"}), pod("a")).snapshot
    assert [each.key for each in found.nodes[0].pods] == ["shop/b"]
    assert [each.key for each in found.pods] == ["shop/a"]


def test_pods_of_a_node_being_deleted_are_placed_and_not_counted_there_too() -> None:
    daemon = pod("d", metadata=owned("DaemonSet"), spec={"nodeName": "n"})
    web = pod("w", metadata=owned("ReplicaSet"), spec={"nodeName": "n"})
    found = translated(node("n", metadata=GONE), daemon, web).snapshot
    assert [each.key for each in found.pods] == ["shop/w"]
    assert [each.key for each in found.nodes[0].pods] == ["shop/d"]


def test_a_terminating_pod_is_marked_where_it_stays_and_not_where_it_is_recreated() -> None:
    web = pod("w", metadata={**owned("ReplicaSet"), **GONE}, spec={"nodeName": "n"})
    database = pod("db", metadata={**owned("StatefulSet"), **GONE}, spec={"nodeName": "m"})
    found = translated(node("n"), node("m", metadata=GONE), web, database).snapshot
    assert {each.name: each.pods for each in found.nodes}["m"] == ()
    assert [each.terminating for node in found.nodes for each in node.pods] == [True]
    assert [(each.name, each.terminating) for each in found.pods] == [("db", False)]


def test_running_pods_have_the_same_constraints_as_pending_ones() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
    spec = {"topologySpreadConstraints": [spread], "containers": [container]}
    found = translated(node("n"), pod("a", spec={**spec, "nodeName": "n"}), pod("b", spec=spec))
    assert found.snapshot.pods[0].constraints.ports
    assert found.snapshot.nodes[0].pods[0].constraints is found.snapshot.pods[0].constraints


def test_pods_of_a_deleted_claim_are_rescheduled_even_without_its_node() -> None:
    leaving = claim(metadata=GONE, status={"nodeName": "n"})
    found = translated(leaving, pod("w", spec={"nodeName": "n"})).snapshot
    assert [each.key for each in found.pods] == ["shop/w"]


def test_nodes_count_for_their_pool() -> None:
    found = translated(pool("web"), pool("db"), node("n", metadata=POOLED), node("m")).snapshot
    assert [(each.name, each.in_use.get("nodes")) for each in found.pools] == [
        ("db", None),
        ("web", 1),
    ]


def test_a_launching_node_will_have_the_labels_of_its_pool() -> None:
    found = translated(pool("web", labels={"team": "web"}), pool("db"), claim()).snapshot
    assert found.nodes[0].labels["team"] == "web"


def test_a_pod_selects_a_node_by_its_hostname() -> None:
    labels = {"kubernetes.io/hostname": "ip-1"}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pinned = pod(spec={"affinity": required})
    found = translated(node("n", metadata={"labels": labels}), pinned).snapshot
    assert [str(each) for each in found.pods[0].alternatives] == [
        "kubernetes.io/hostname In [ip-1]"
    ]


def test_reservations_are_passed_on_in_order() -> None:
    given = [ReservationState(id=each, total=1, available=1) for each in ("cr-b", "cr-a")]
    found = translate_snapshot(manifests(), reservations=given).snapshot.reservations
    assert [each.id for each in found] == ["cr-a", "cr-b"]


def test_gated_pods_are_named() -> None:
    gates = {"schedulingGates": [{"name": "later"}]}
    found = translated(pod("b", spec=gates), pod("a", spec=gates), pod("c"))
    assert found.warnings == ("not planned while scheduling gates hold them back: shop/a, shop/b",)
    assert [each.key for each in found.snapshot.pods] == ["shop/c"]


def test_of_many_pods_only_some_are_named() -> None:
    gates = {"schedulingGates": [{"name": "later"}]}
    [warning] = translated(*(pod(f"p{n:02}", spec=gates) for n in range(12))).warnings
    assert warning.endswith("shop/p09 and 2 more")


def test_pods_that_a_budget_blocks_are_named() -> None:
    budget = {"maxUnavailable": 0, "selector": {}}
    kept = thing(
        "policy/v1", "PodDisruptionBudget", "p", metadata={"namespace": "shop"}, spec=budget
    )
    found = translated(kept, node("n", metadata=GONE), pod("w", spec={"nodeName": "n"}))
    assert found.snapshot.pods == ()
    assert found.warnings[0].endswith("being deleted: shop/w")


def test_pods_of_another_scheduler_are_placed_with_a_remark() -> None:
    other = pod("a", spec={"schedulerName": "volcano"})
    found = translated(other, pod("b", spec={"schedulerName": "default-scheduler"}))
    assert len(found.snapshot.pods) == 2
    assert [each for each in found.warnings if "volcano" in each and "shop/a" in each]
    assert "shop/b" not in found.warnings[0]


def test_an_unknown_runtime_class_is_named() -> None:
    [warning] = translated(pod("a", spec={"runtimeClassName": "gvisor"})).warnings
    assert "gvisor" in warning
    known = {"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}}
    assert translated(pod("a", spec=known)).warnings == ()


def test_a_node_without_identity_is_not_counted_beside_its_claim() -> None:
    joining = node("n", metadata=POOLED)
    found = translated(pool("web"), joining, claim(status={"providerID": "i-1"}))
    assert [each.name for each in found.snapshot.nodes] == ["web-1"]
    assert found.snapshot.pools[0].in_use["nodes"] == 1
    assert "node n is left out" in found.warnings[0]


def test_a_node_with_an_identity_counts_in_addition_to_launching_claims() -> None:
    labels = {"karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "m5.large"}
    known = node("n", metadata={"labels": labels}, spec={"providerID": "i-2"})
    unlabelled = node("n", metadata=POOLED, spec={"providerID": "i-2"})
    unnumbered = node("n", metadata={"labels": labels})
    under_way = claim(status={"providerID": "i-1"})
    counted = [len(translated(each, under_way).snapshot.nodes) for each in (known, unlabelled)]
    assert (counted, len(translated(unnumbered, under_way).snapshot.nodes)) == ([2, 1], 1)


def test_a_node_without_identity_counts_where_no_claim_can_stand_for_it() -> None:
    other = claim("db-1", pool="db", status={"providerID": "i-1"})
    done = claim("web-1", status={"providerID": "i-2", "conditions": [condition("Registered")]})
    joined = node("m", metadata=POOLED, spec={"providerID": "i-2"})
    found = translated(node("n", metadata=POOLED), joined, other, done)
    assert [each.name for each in found.snapshot.nodes] == ["db-1", "m", "n"]
    assert found.warnings == ()


def test_the_order_of_the_input_does_not_matter() -> None:
    values = (
        pool("web"),
        node("n", metadata=POOLED, spec={"providerID": "i-1"}),
        claim(status={"providerID": "i-1"}),
        pod("a", spec={"nodeName": "n"}),
        deployment(2),
    )
    first = translated(*values)
    assert all(translated(*order) == first for order in permutations(values))
