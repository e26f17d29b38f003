"""Default spreads: which pods get them, and their deduced selectors."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.translate.objects import ReadInput, Value, manifests, node, pod, read_input, thing

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.model.pod import (
    NO_CONSTRAINTS,
    PodSelector,
    SelectorRequirement,
    TopologySpread,
    pod_selector,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
HARD = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule")
SOFT = TopologySpreadConstraint(maxSkew=2, topologyKey=HOST, whenUnsatisfiable="ScheduleAnyway")
SHOP = {"namespace": "shop"}
OWN = {
    "maxSkew": 5,
    "topologyKey": "rack",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
WEB = {"app": "web", "hash": "7f"}


def translated(*values: Value, defaults: tuple[TopologySpreadConstraint, ...]) -> ReadInput:
    made = manifests(*values)
    made.default_constraints = defaults
    return read_input(made)


def spreads(*values: Value, defaults: tuple[Any, ...] = (HARD,)) -> tuple[TopologySpread, ...]:
    """The spreads of the one pod to be scheduled."""
    [only] = translated(*values, defaults=defaults).snapshot.pods
    return only.constraints.spreads


def service(name: str, labels: dict[str, str] | None, namespace: str = "shop") -> Value:
    spec = {} if labels is None else {"selector": labels}
    return thing("v1", "Service", name, metadata={"namespace": namespace}, spec=spec)


def owner(version: str, kind: str, name: str = "web", **spec: Any) -> Value:
    """A workload that lacks no pods of its own."""
    template = {"metadata": {"labels": WEB}, "spec": {"containers": [{"name": "c"}]}}
    return thing(
        version, kind, name, metadata=SHOP, spec={"replicas": 0, **spec, "template": template}
    )


def replica_set(name: str = "web", **labels: str) -> Value:
    return owner("apps/v1", "ReplicaSet", name, selector={"matchLabels": labels})


def web(*, by: Value | None = None, controller: bool = True, **fields: Any) -> Value:
    """A pod of app web with this controller."""
    metadata: Value = {"labels": WEB, **fields.pop("metadata", {})}
    if by is not None:
        reference = {key: by[key] for key in ("apiVersion", "kind")}
        reference |= {"name": by["metadata"]["name"], "uid": "1", "controller": controller}
        metadata["ownerReferences"] = [reference]
    return pod("web-1", metadata=metadata, **fields)


def default(selected: PodSelector) -> TopologySpread:
    return TopologySpread(key=ZONE, selector=selected, by_default=True)


NO_OWNER: Value = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "gone"}}
STATEFUL = owner("apps/v1", "StatefulSet", selector={"matchLabels": {"app": "web"}})
OLD = owner("v1", "ReplicationController", selector={"app": "web"})
UNSAID = owner("v1", "ReplicationController")
EXPRESSIONS = owner(
    "apps/v1",
    "ReplicaSet",
    selector={
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "hash", "operator": "NotIn", "values": ["6e"]}],
    },
)
JOB = thing("batch/v1", "Job", "web", metadata=SHOP, spec={"suspend": True, "template": {}})
DAEMONS = owner("apps/v1", "DaemonSet", selector={"matchLabels": {"app": "web"}})
FOREIGN: Value = {**replica_set(app="web"), "apiVersion": "example.com/v1"}

ROWS: dict[str, tuple[list[Value], PodSelector | None]] = {
    "nothing tells": ([web()], None),
    "a ReplicaSet": (
        [web(by=replica_set(app="web")), replica_set(app="web")],
        pod_selector({"app": "web"}),
    ),
    "a ReplicaSet of one revision": (
        [web(by=replica_set(**WEB)), replica_set(**WEB)],
        pod_selector(WEB),
    ),
    "expressions": (
        [web(by=EXPRESSIONS), EXPRESSIONS],
        PodSelector(
            match_expressions=(
                SelectorRequirement(key="app", values=frozenset({"web"})),
                SelectorRequirement(key="hash", operator="NotIn", values=frozenset({"6e"})),
            )
        ),
    ),
    "a StatefulSet": ([web(by=STATEFUL), STATEFUL], pod_selector({"app": "web"})),
    "a ReplicationController": ([web(by=OLD), OLD], pod_selector({"app": "web"})),
    "a ReplicationController without a selector": ([web(by=UNSAID), UNSAID], pod_selector(WEB)),
    "a Job": ([web(by=JOB), JOB], None),
    "a Job behind a service": (
        [web(by=JOB), JOB, service("a", {"app": "web"})],
        pod_selector({"app": "web"}),
    ),
    "an owner that is no controller": (
        [web(by=replica_set(app="web"), controller=False), replica_set(app="web")],
        None,
    ),
    "a ReplicaSet of somebody else's group": (
        [web(by=FOREIGN), replica_set(app="web")],
        None,
    ),
    "an owner of another namespace": (
        [
            web(by=replica_set(app="web"), metadata={"namespace": "bank"}),
            replica_set(app="web"),
        ],
        None,
    ),
    "an owner that is not there": ([web(by=NO_OWNER)], None),
    "a service": ([web(), service("a", {"app": "web"})], pod_selector({"app": "web"})),
    "two services": (
        [web(), service("a", {"app": "web"}), service("b", {"hash": "7f"})],
        pod_selector(WEB),
    ),
    "a service for others": ([web(), service("a", {"app": "web", "tier": "front"})], None),
    "a service of another namespace": ([web(), service("a", {"app": "web"}, "bank")], None),
    "a service without a selector": ([web(), service("a", None)], None),
    "a service with an empty selector": ([web(), service("a", {})], None),
    "a service and a ReplicaSet": (
        [
            web(by=replica_set(hash="7f")),
            replica_set(hash="7f"),
            service("a", {"app": "web"}),
        ],
        pod_selector(WEB),
    ),
    "a service and a ReplicaSet that contradicts it": (
        [
            web(by=replica_set(app="other")),
            replica_set(app="other"),
            service("a", {"app": "web"}),
        ],
        PodSelector(
            match_expressions=(
                SelectorRequirement(key="app", values=frozenset({"other"})),
                SelectorRequirement(key="app", values=frozenset({"web"})),
            )
        ),
    ),
    "a service and a ReplicationController that overrules it": (
        [
            web(by=owner("v1", "ReplicationController", selector={"app": "other"})),
            owner("v1", "ReplicationController", selector={"app": "other"}),
            service("a", {"app": "web"}),
        ],
        pod_selector({"app": "other"}),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_selector_of_a_default_spread_is_deduced(name: str) -> None:
    values, expected = ROWS[name]
    assert spreads(*values) == (() if expected is None else (default(expected),))


def test_a_contradictory_selector_selects_no_pods() -> None:
    [found] = spreads(*ROWS["a service and a ReplicaSet that contradicts it"][0])
    assert not any(found.selector.selects({"app": app}) for app in ("web", "other"))


def test_a_pod_with_a_constraint_of_its_own_gets_no_default() -> None:
    own = web(by=STATEFUL, spec={"topologySpreadConstraints": [OWN]})
    found = spreads(own, STATEFUL, service("a", {"app": "web"}), defaults=(HARD, SOFT))
    assert [(each.key, each.by_default) for each in found] == [("rack", False)]


def test_an_empty_list_of_constraints_is_none() -> None:
    own = web(by=STATEFUL, spec={"topologySpreadConstraints": []})
    assert spreads(own, STATEFUL) == (default(pod_selector({"app": "web"})),)


def test_without_defaults_nothing_is_added() -> None:
    [only] = translated(web(by=STATEFUL), STATEFUL, defaults=()).snapshot.pods
    assert only.constraints is NO_CONSTRAINTS


def test_every_field_of_a_constraint_is_kept() -> None:
    given = TopologySpreadConstraint(
        maxSkew=3,
        topologyKey=ZONE,
        whenUnsatisfiable="DoNotSchedule",
        minDomains=2,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
    )
    selected = pod_selector({"app": "web"})
    assert spreads(web(by=STATEFUL), STATEFUL, defaults=(given, SOFT)) == (
        TopologySpread(
            key=ZONE,
            selector=selected,
            max_skew=3,
            min_domains=2,
            honor_affinity=False,
            honor_taints=True,
            by_default=True,
        ),
        TopologySpread(key=HOST, selector=selected, max_skew=2, required=False, by_default=True),
    )


def test_other_constraints_stay_with_the_defaults() -> None:
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}
    values = (web(by=STATEFUL, spec={"containers": [container]}), STATEFUL)
    [only] = translated(*values, defaults=(HARD,)).snapshot.pods
    assert (len(only.constraints.spreads), len(only.constraints.ports)) == (1, 1)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_missing_pods_of_a_workload_share_its_defaults(kind: str) -> None:
    lacking = owner("apps/v1", kind, replicas=3, selector={"matchLabels": {"app": "web"}})
    found = translated(lacking, defaults=(HARD,)).snapshot.pods
    assert [each.constraints.spreads for each in found] == [
        (default(pod_selector({"app": "web"})),)
    ] * 3
    assert len({id(each.constraints) for each in found}) == 1


def test_missing_pods_of_a_replication_controller_are_expanded_and_spread() -> None:
    found = translated({**OLD, "spec": {**OLD["spec"], "replicas": 2}}, defaults=(HARD,))
    assert [each.name for each in found.snapshot.pods] == ["web-0", "web-1"]
    assert found.snapshot.pods[0].constraints.spreads == (default(pod_selector({"app": "web"})),)


def test_revisions_are_spread_each_for_itself() -> None:
    old, new = (replica_set(f"web-{each}", app="web", hash=each) for each in ("6e", "7f"))
    pods = [
        pod(name, metadata={**web(by=by)["metadata"], "name": name, "labels": labels})
        for name, by, labels in (
            ("a", old, {"app": "web", "hash": "6e"}),
            ("b", new, {"app": "web", "hash": "7f"}),
        )
    ]
    found = translated(old, new, *pods, defaults=(HARD,)).snapshot.pods
    assert [str(each.constraints.spreads[0].selector) for each in found] == [
        "app=web,hash=6e",
        "app=web,hash=7f",
    ]


def test_pods_of_one_owner_with_other_labels_may_have_other_services() -> None:
    canary = pod(
        "b",
        metadata={
            **web(by=STATEFUL)["metadata"],
            "name": "b",
            "labels": {"app": "web", "canary": "yes"},
        },
    )
    values = (STATEFUL, web(by=STATEFUL), canary, service("c", {"canary": "yes"}))
    found = translated(*values, defaults=(HARD,)).snapshot.pods
    assert {each.name: str(each.constraints.spreads[0].selector) for each in found} == {
        "web-1": "app=web",
        "b": "app=web,canary=yes",
    }


def test_equal_pods_in_other_namespaces_have_other_services() -> None:
    elsewhere = web(metadata={"namespace": "bank"})
    values = (web(), elsewhere, service("a", {"app": "web"}))
    found = translated(*values, defaults=(HARD,)).snapshot.pods
    assert [(each.namespace, len(each.constraints.spreads)) for each in found] == [
        ("bank", 0),
        ("shop", 1),
    ]


def test_running_pods_have_the_same_constraints_as_pending_ones() -> None:
    running = pod(
        "r", metadata=web(by=STATEFUL)["metadata"] | {"name": "r"}, spec={"nodeName": "n"}
    )
    found = translated(STATEFUL, node("n"), running, web(by=STATEFUL), defaults=(HARD,)).snapshot
    assert found.nodes[0].pods[0].constraints is found.pods[0].constraints


def test_the_selector_of_a_daemon_set_is_ignored() -> None:
    daemon = web(by=DAEMONS, spec={"nodeName": "n"})
    [found] = translated(DAEMONS, node("n"), daemon, defaults=(HARD,)).snapshot.nodes
    assert found.pods[0].constraints is NO_CONSTRAINTS


def test_an_owner_that_is_not_there_is_named() -> None:
    [warning] = translated(web(by=NO_OWNER), defaults=(HARD,)).warnings
    assert warning == (
        "ReplicaSet gone is not in the input, so its selector has no part in the default spread: "
        "shop/web-1"
    )


@pytest.mark.parametrize(
    "values",
    [
        [web()],
        [web(by=JOB), JOB],
        [web(by=STATEFUL), STATEFUL],
        [web(by=NO_OWNER, spec={"topologySpreadConstraints": [OWN]})],
    ],
)
def test_no_owner_is_named_without_need(values: list[Value]) -> None:
    assert translated(*values, defaults=(HARD,)).warnings == ()
    assert translated(web(by=NO_OWNER), defaults=()).warnings == ()


def test_the_order_of_the_input_does_not_matter() -> None:
    values = (*ROWS["a service and a ReplicaSet"][0], service("b", {"hash": "7f"}))
    first = translated(*values, defaults=(HARD, SOFT))
    assert all(translated(*each, defaults=(HARD, SOFT)) == first for each in permutations(values))


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@given(LABELS, LABELS, st.lists(LABELS, max_size=3), LABELS)
def test_pods_with_the_same_services_and_controller_selector_are_counted(
    own: dict[str, str], other: dict[str, str], served: list[dict[str, str]], owned: dict[str, str]
) -> None:
    by = replica_set(**owned)
    services = [service(f"s{number}", each) for number, each in enumerate(served)]
    found = spreads(by, *services, web(by=by, metadata={"labels": own}))
    mine = [each for each in served if each.items() <= own.items()]
    if not any(mine) and not owned:
        assert found == ()
    else:
        wanted = all(each.items() <= other.items() for each in [*mine, owned])
        assert found[0].selector.selects(other) == wanted
