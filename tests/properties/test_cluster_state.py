"""A snapshot that was kept up to date object by object equals one that is made from nothing."""

from collections.abc import Iterable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.translate.objects import claim, node, pod, pool, thing, typed

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.api.wire import WireStruct
from wainwright.translate.cluster_state import ClusterState, TranslatedSnapshot

Value = dict[str, Any]
Defaults = tuple[TopologySpreadConstraint, ...]

GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
SHOP = {"namespace": "shop"}
DEFAULTS = (
    TopologySpreadConstraint(
        maxSkew=1, topologyKey="topology.kubernetes.io/zone", whenUnsatisfiable="DoNotSchedule"
    ),
)
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
GVISOR_TEMPLATE = {"spec": {"containers": [{"name": "c"}], "runtimeClassName": "gvisor"}}


def _pods() -> list[Value]:
    """Variants of three pods: pending, bound, gated, finished, with all that they can need."""
    owner = {"apiVersion": "apps/v1", "uid": "1", "controller": True}
    by_set = {"ownerReferences": [{**owner, "kind": "StatefulSet", "name": "db"}]}
    by_daemon = {"ownerReferences": [{**owner, "kind": "DaemonSet", "name": "logs"}]}
    web = {
        "labels": {"app": "web"},
        "ownerReferences": [{**owner, "kind": "ReplicaSet", "name": "web"}],
    }
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "namespaceSelector": {"matchLabels": {"team": "a"}},
                }
            ]
        }
    }
    by_name = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1"]}]}
                ]
            }
        }
    }
    data = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}
    specs: list[tuple[Value, Value]] = [
        ({}, {}),
        (web, {"nodeName": "n-1"}),
        (web, {"nodeName": "n-2", "schedulerName": "volcano"}),
        (web, {"runtimeClassName": "gvisor", "priorityClassName": "high"}),
        (by_set, data),
        ({**by_set, **GONE}, {**data, "nodeName": "n-2"}),
        (
            by_daemon,
            {
                "nodeName": "n-1",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            },
        ),
        ({}, {"affinity": affinity}),
        ({}, {"affinity": by_name}),
        ({}, {"schedulingGates": [{"name": "later"}]}),
        ({"namespace": "other", **web}, {"affinity": affinity}),
    ]
    made = [
        pod(name, metadata=metadata, spec=spec)
        for name in ("a", "b", "db-0")
        for metadata, spec in specs
    ]
    return [*made, pod("a", status={"phase": "Succeeded"})]


def _volumes() -> list[Value]:
    def volume_claim(**spec: Any) -> Value:
        status = {"phase": "Bound" if "volumeName" in spec else "Pending"}
        return thing(
            "v1", "PersistentVolumeClaim", "data-db-0", metadata=SHOP, spec=spec, status=status
        )

    def volume(zone: str) -> Value:
        term = {
            "matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
            ]
        }
        spec = {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        return thing("v1", "PersistentVolume", "pv", spec=spec)

    def storage_class(mode: str) -> Value:
        return thing(
            "storage.k8s.io/v1",
            "StorageClass",
            "gp3",
            provisioner="ebs.csi.aws.com",
            volumeBindingMode=mode,
        )

    drivers = [{"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 3}}]
    return [
        volume_claim(storageClassName="gp3"),
        volume_claim(storageClassName="gp3", volumeName="pv"),
        volume("us-west-2a"),
        volume("us-west-2b"),
        storage_class("WaitForFirstConsumer"),
        storage_class("Immediate"),
        thing("storage.k8s.io/v1", "CSINode", "n-1", spec={"drivers": drivers}),
        thing("storage.k8s.io/v1", "CSINode", "n-1", spec={"drivers": []}),
    ]


def _nodes() -> list[Value]:
    labels = {"karpenter.sh/nodepool": "web"}
    return [
        node("n-1", metadata={"labels": labels}, spec={"providerID": "aws:///a/i-1"}),
        node("n-1", metadata={"labels": {**labels, "kubernetes.io/hostname": "ip-1"}}),
        node("n-1", metadata={"labels": labels, **GONE}),
        node("n-2"),
        node("n-2", metadata={"labels": labels}),
        claim("web-1", status={"providerID": "aws:///a/i-1", "nodeName": "n-1"}),
        claim("web-1", status={"providerID": "aws:///a/i-1", "capacity": {"cpu": "4"}}),
        claim("web-2", metadata=GONE),
        pool("web", spec={"limits": {"cpu": "10"}}),
        pool("web", labels={"team": "a"}),
        pool("batch"),
    ]


def _others() -> list[Value]:
    def namespace(name: str, **labels: str) -> Value:
        return thing("v1", "Namespace", name, metadata={"labels": labels})

    def budget(**spec: Any) -> Value:
        return thing(
            "policy/v1", "PodDisruptionBudget", "web", metadata=SHOP, spec={"selector": {}, **spec}
        )

    def workload(kind: str, name: str, **spec: Any) -> Value:
        selector = {"matchLabels": {"app": name}}
        return thing(
            "apps/v1",
            kind,
            name,
            metadata=SHOP,
            spec={"selector": selector, "template": TEMPLATE, **spec},
        )

    claim_template = {"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}
    return [
        namespace("shop", team="a"),
        namespace("shop"),
        namespace("other", team="a"),
        namespace("other", team="b"),
        budget(maxUnavailable=0),
        budget(minAvailable="100%"),
        workload("ReplicaSet", "web"),
        workload("DaemonSet", "logs", template=GVISOR_TEMPLATE),
        workload("StatefulSet", "db", serviceName="db"),
        workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=[claim_template]),
        thing("v1", "Service", "web", metadata=SHOP, spec={"selector": {"app": "web"}}),
        thing("v1", "Service", "web", metadata=SHOP, spec={"selector": {"app": "other"}}),
        thing("scheduling.k8s.io/v1", "PriorityClass", "high", value=10),
        thing("scheduling.k8s.io/v1", "PriorityClass", "high", value=20),
        thing("node.k8s.io/v1", "RuntimeClass", "gvisor", handler="runsc"),
        thing(
            "node.k8s.io/v1",
            "RuntimeClass",
            "gvisor",
            handler="runsc",
            overhead={"podFixed": {"cpu": "1"}},
        ),
    ]


OBJECTS = [typed(value) for value in (*_pods(), *_volumes(), *_nodes(), *_others())]


def _identity(item: WireStruct) -> tuple[str, str, str]:
    metadata = item.metadata  # type: ignore[attr-defined]
    return type(item).__name__, metadata.namespace, metadata.name


VARIANTS: dict[tuple[str, str, str], list[WireStruct]] = {}
for each in OBJECTS:
    VARIANTS.setdefault(_identity(each), []).append(each)


def _fresh(
    defaults: Defaults, objects: Iterable[WireStruct], *, assume: bool
) -> TranslatedSnapshot:
    state = ClusterState(defaults, assume_missing_classes=assume)
    for item in objects:
        state.apply(item)
    return state.snapshot()


@settings(max_examples=150, deadline=None)
@given(
    draw=st.randoms(use_true_random=False),
    defaults=st.sampled_from([(), DEFAULTS]),
    assume=st.booleans(),
)
def test_a_snapshot_does_not_depend_on_how_the_objects_came(
    draw: Random, defaults: Defaults, assume: bool
) -> None:
    """Nearly everything is there at first; then a few objects change, one after the other."""
    present = {
        key: draw.choice(variants) for key, variants in VARIANTS.items() if draw.random() < 0.75
    }
    state = ClusterState(defaults, assume_missing_classes=assume)
    for item in present.values():
        state.apply(item)
    state.snapshot()
    for key in draw.choices(list(VARIANTS), k=15):
        if key in present and draw.random() < 0.3:
            state.remove(present.pop(key))
        else:
            present[key] = draw.choice(VARIANTS[key])
            state.apply(present[key])
        found = state.snapshot()
        expected = _fresh(defaults, present.values(), assume=assume)
        assert found.snapshot == expected.snapshot
        assert sorted(map(str, found.remarks)) == sorted(map(str, expected.remarks))


@settings(max_examples=150, deadline=None)
@given(draw=st.randoms(use_true_random=False), defaults=st.sampled_from([(), DEFAULTS]))
def test_pods_may_be_translated_ahead_in_slices(draw: Random, defaults: Defaults) -> None:
    """Whatever changes between two slices, the snapshot is that of the objects as they are."""
    state, present = ClusterState(defaults), dict[tuple[str, str, str], WireStruct]()
    for key in (*VARIANTS, *draw.choices(list(VARIANTS), k=30)):
        if key in present and draw.random() < 0.3:
            state.remove(present.pop(key))
        else:
            present[key] = draw.choice(VARIANTS[key])
            state.apply(present[key])
        if draw.random() < 0.5:
            state.translate_pods(draw.randrange(3))
        if draw.random() < 0.1:
            expected = _fresh(defaults, present.values(), assume=False)
            assert state.snapshot().snapshot == expected.snapshot
    expected = _fresh(defaults, present.values(), assume=False)
    assert state.snapshot().snapshot == expected.snapshot


def test_a_slice_leaves_the_other_pods_for_the_next() -> None:
    state = ClusterState()
    for name in "abcde":
        state.apply(typed(pod(name)))
    assert [state.translate_pods(2) for _ in range(3)] == [True, True, False]
    assert [each.name for each in state.snapshot().snapshot.pods] == [*"abcde"]


def test_a_change_that_decides_nothing_translates_no_pod_again() -> None:
    state = ClusterState(DEFAULTS)
    for variants in VARIANTS.values():
        state.apply(variants[0])
    before = state.snapshot().snapshot
    for item in (typed(node("n-3")), typed(pod("z"))):
        state.apply(item)
    after = state.snapshot().snapshot
    assert [any(old is new for old in before.pods) for new in after.pods].count(False) == 1


def _variant(kind: str, number: int) -> WireStruct:
    [variants] = [found for (name, _, _), found in VARIANTS.items() if name == kind]
    return variants[number]


def test_a_service_changes_the_default_spread_of_pods_in_its_namespace() -> None:
    state = ClusterState(DEFAULTS)
    state.apply(typed(pod("a", metadata={"labels": {"app": "web"}})))
    state.apply(_variant("Service", 1))
    [before] = state.snapshot().snapshot.pods
    state.apply(_variant("Service", 0))
    [after] = state.snapshot().snapshot.pods
    assert (len(before.constraints.spreads), len(after.constraints.spreads)) == (0, 1)


def test_a_claim_template_of_a_statefulset_provides_the_volume_of_its_pods() -> None:
    state = ClusterState()
    by_set = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1"}
        ]
    }
    data = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}
    for item in (typed(pod("db-0", metadata=by_set, spec=data)), _variant("StorageClass", 0)):
        state.apply(item)
    state.apply(_variant("StatefulSet", 0))
    [before] = state.snapshot().snapshot.pods
    state.apply(_variant("StatefulSet", 1))
    [after] = state.snapshot().snapshot.pods
    assert (before.volume_problem is None, after.volume_problem is None) == (False, True)
