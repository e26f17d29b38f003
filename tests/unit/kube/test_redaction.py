"""What is left of names in a redacted snapshot: of every text of every kind, by place."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from tests.support.marked_objects import MARKER, marked, marked_places

from wainwright.api.catalog_documents import InstanceType
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, Service
from wainwright.api.kubernetes.storage import CSINode, PersistentVolume, StorageClass
from wainwright.api.kubernetes.workloads import Deployment, Pod
from wainwright.api.wire import WireStruct
from wainwright.aws.drift import node_class_hash
from wainwright.kube.redaction import KEPT_LABELS, NAMING_LABELS, redact
from wainwright.kube.snapshot import SNAPSHOT_KINDS, ClusterSnapshot, snapshot_manifest
from wainwright.kube.snapshot_annotations import CORE_ANNOTATIONS, NAMING_ANNOTATIONS
from wainwright.model.labels import (
    AUTO_MODE_LABELS,
    EC2NODECLASS,
    LABEL_ALIASES,
    NODEPOOL,
    WELL_KNOWN_LABELS,
)
from wainwright.redacted_cluster import redact_cluster
from wainwright.translate.pools import pool_hash

Manifest = dict[str, Any]

ANNOTATIONS: Final = (
    *sorted(CORE_ANNOTATIONS | NAMING_ANNOTATIONS),
    *("karpenter.sh/do-not-disrupt", "wainwright.dev/launch-record", "wainwright.dev/pause"),
    *("kubernetes.io/change-cause", "csi.volume.kubernetes.io/nodeid", "acme.example/owner"),
)
CHOICES: Final = frozenset(
    {
        *("accessModes", "amiFamily", "completionMode", "consolidationPolicy", "effect"),
        *("httpEndpoint", "httpProtocolIPv6", "httpTokens", "instanceMatchCriteria"),
        *("instanceStorePolicy", "interfaceType", "medium", "nestedVirtualization"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "operator", "phase", "podManagementPolicy"),
        *("preemptionPolicy", "protocol", "reasons", "reclaimPolicy", "reservationType"),
        *("restartPolicy", "state", "status", "unhealthyPodEvictionPolicy", "volumeBindingMode"),
        *("volumeMode", "volumeType", "whenUnsatisfiable"),
    }
)
"""One of few words; an API server accepts no others."""
AMOUNTS: Final = frozenset(
    {
        *("allocatable{}=", "allocatedResources{}=", "capacity{}=", "evictionHard{}="),
        *("evictionSoft{}=", "evictionSoftGracePeriod{}=", "kubeReserved{}=", "limits{}="),
        *("overhead{}=", "podFixed{}=", "requests{}=", "resources{}=", "systemReserved{}="),
        *("maxPods", "maxSurge", "maxUnavailable", "minAvailable", "nodes", "price"),
        *("priceAdjustment", "size", "sizeLimit", "volumeSize"),
    }
)
TIMES: Final = frozenset(
    {
        *("consolidateAfter", "creationTimestamp", "deletionTimestamp", "duration", "endTime"),
        *("expireAfter", "lastPodEventTime", "lastTransitionTime", "schedule", "startTime"),
        *("terminationGracePeriod", "timeAdded"),
    }
)
KEYS: Final = frozenset(
    {
        *("key", "matchLabelKeys", "mismatchLabelKeys", "topologyKey", "topologyKeys"),
        *("labels{}", "matchLabels{}", "nodeSelector{}", "offerings{}", "selector{}", "tags{}"),
        *("allocatable{}", "allocatedResources{}", "capacity{}", "evictionHard{}"),
        *("evictionSoft{}", "evictionSoftGracePeriod{}", "kubeReserved{}", "limits{}"),
        *("overhead{}", "podFixed{}", "requests{}", "resources{}", "systemReserved{}"),
        *("apiVersion", "group", "kind", "driver", "provisioner"),
    }
)
"""Of labels and resources; kinds; and drivers of volumes, which go by a domain as keys do."""
OF_THE_CLOUD: Final = frozenset(
    {
        *("alias", "architecture", "availabilityZone", "deviceName", "instanceType"),
        *("kubeletVersion", "operatingSystem", "zone", "zoneID"),
    }
)
PLACES: Final = frozenset({"CSINode.spec.drivers.name", "InstanceType.metadata.name"})
"""Where a name has a meaning of its own."""
KEPT_FIELDS: Final = CHOICES | AMOUNTS | TIMES | KEYS | OF_THE_CLOUD | {"uid"}


def snapshot_with(*objects: WireStruct) -> ClusterSnapshot:
    return ClusterSnapshot(items=[snapshot_manifest(each) for each in objects])


def redacted(kind: type[WireStruct], value: Manifest) -> Manifest:
    [item] = redact(snapshot_with(msgspec.convert(value, kind))).items
    return item


def kept_places(kind: type[WireStruct]) -> Iterator[str]:
    item = redacted(kind, marked(kind, ANNOTATIONS))
    yield from (f"{kind.__name__}{place}" for place in marked_places(item))


@pytest.mark.parametrize("kind", SNAPSHOT_KINDS, ids=lambda kind: kind.__name__)
def test_no_text_of_any_kind_is_left_but_where_this_list_says_so(kind: type[WireStruct]) -> None:
    """A new field is in no list: decide whether its text is a name, and say so here or there."""
    places = {
        place for place in kept_places(kind) if place.rpartition(".")[2] not in KEPT_FIELDS
    } - PLACES
    # The time at which a pod was evicted, under a word for the pod.
    assert not {place for place in places if ".disruptedPods." not in place}


def test_each_entry_of_that_list_is_needed() -> None:
    places = {place for kind in SNAPSHOT_KINDS for place in kept_places(kind)}
    assert {place.rpartition(".")[2] for place in places} >= KEPT_FIELDS
    assert places >= PLACES


def test_annotations_of_others_are_left_out_of_templates_too() -> None:
    """Also where nothing is redacted."""
    foreign = {"vault.hashicorp.com/role": MARKER, "kubernetes.io/change-cause": MARKER}
    kept = {"karpenter.sh/do-not-disrupt": "true"}
    pod = {"metadata": {"annotations": foreign | kept}}
    value = {"metadata": {"name": "web", "annotations": foreign}, "spec": {"template": pod}}
    [item] = snapshot_with(msgspec.convert(value, Deployment)).items
    assert MARKER not in json.dumps(item)
    assert item["spec"]["template"]["metadata"]["annotations"] == kept


@pytest.mark.parametrize(
    "annotation",
    [
        ("karpenter.sh/do-not-disrupt", "30m"),
        ("karpenter.sh/disruption-cost", "-12.5"),
        ("karpenter.sh/nodeclaim-termination-timestamp", "2026-01-31T12:00:00Z"),
        ("wainwright.dev/minimum-saving", "5%"),
        ("wainwright.dev/minimum-saving", "$0.05"),
        ("wainwright.dev/pause", "disruption"),
        ("wainwright.dev/pause", " Disruption"),
        ("wainwright.dev/pause", "off"),
        ("wainwright.dev/storage-per-pod", "2Gi"),
        ("wainwright.dev/kube-reserved-memory-strategy", "GKE"),
        ("wainwright.dev/runs-for", "1h30m"),
        ("storageclass.kubernetes.io/is-default-class", "true"),
    ],
)
def test_what_an_annotation_decides_is_kept(annotation: tuple[str, str]) -> None:
    key, text = annotation
    item = redacted(Pod, {"metadata": {"name": "web", "annotations": {key: text}}})
    assert item["metadata"]["annotations"] == {key: text}


def test_names_in_annotations_are_those_of_the_objects() -> None:
    annotations = {
        "volume.kubernetes.io/selected-node": "true",
        "wainwright.dev/replaces": "claim-a,claim-b",
    }
    item = redacted(Node, {"metadata": {"name": "true", "annotations": annotations}})
    kept = item["metadata"]["annotations"]
    assert kept["volume.kubernetes.io/selected-node"] == item["metadata"]["name"] != "true"
    assert len(set(kept["wainwright.dev/replaces"].split(","))) == 2
    assert "claim" not in json.dumps(kept)


def test_labels_keep_their_values_by_whole_key() -> None:
    labels = {
        "topology.kubernetes.io/zone": "us-west-2a",
        "topology.ebs.csi.aws.com/zone": "us-west-2a",
        "karpenter.sh/capacity-type": "spot",
        "topology.acme.example/rack": MARKER,
        "node.kubernetes.io/owner": MARKER,
        "kubernetes.io/arch-of-team": MARKER,
        "karpenter.sh/discovery": MARKER,
    }
    item = redacted(Node, {"metadata": {"name": "node", "labels": labels}})
    kept = item["metadata"]["labels"]
    assert [key for key, value in kept.items() if value == labels[key]] == list(labels)[:3]


def test_labels_that_decisions_know_keep_their_values() -> None:
    known = WELL_KNOWN_LABELS | LABEL_ALIASES.keys() | set(AUTO_MODE_LABELS.values())
    assert frozenset({NODEPOOL, EC2NODECLASS}) == NAMING_LABELS
    assert known - NAMING_LABELS <= KEPT_LABELS


def test_identifiers_keep_their_form() -> None:
    item = redacted(
        EC2NodeClass,
        {
            "metadata": {"name": "class"},
            "spec": {
                "amiSelectorTerms": [
                    {"id": "ami-0abc", "owner": "self"},
                    {"ssmParameter": "/acme"},
                ],
                "subnetSelectorTerms": [{"id": "subnet-0abc"}],
                "securityGroupSelectorTerms": [{"id": "sg-0abc"}],
                "capacityReservationSelectorTerms": [{"id": "cr-0abc"}],
                "kubelet": {"clusterDNS": ["172.20.0.10"]},
            },
        },
    )
    spec = item["spec"]
    image, parameter = spec["amiSelectorTerms"]
    assert image["id"].startswith("ami-0000")
    assert image["owner"] == "self"
    assert "acme" not in parameter["ssmParameter"]
    assert spec["subnetSelectorTerms"][0]["id"].startswith("subnet-0000")
    assert spec["securityGroupSelectorTerms"][0]["id"].startswith("sg-0000")
    assert spec["capacityReservationSelectorTerms"] == [{"id": "cr-0abc"}], "as EC2's answer has it"
    assert spec["kubelet"]["clusterDNS"][0].startswith("10.0.0.")


def test_a_driver_has_the_limits_of_its_volumes() -> None:
    """A CSINode names the driver of PersistentVolumes and StorageClasses."""
    driver = "ebs.csi.aws.com"
    drivers = [{"name": driver, "nodeID": "i-0abc", "allocatable": {"count": 25}}]
    node = redacted(CSINode, {"metadata": {"name": "node"}, "spec": {"drivers": drivers}})
    assert node["spec"]["drivers"][0]["name"] == driver
    assert node["spec"]["drivers"][0]["nodeID"].startswith("i-0000")
    volume = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": driver, "volumeHandle": "v"}}}
    assert redacted(PersistentVolume, volume)["spec"]["csi"]["driver"] == driver


def test_of_the_parameters_of_a_storage_class_its_zones_are_kept() -> None:
    parameters = {"zones": "us-west-2a", "kmsKeyId": MARKER, "tagSpecification_1": MARKER}
    item = redacted(StorageClass, {"metadata": {"name": "fast"}, "parameters": parameters})
    assert item["parameters"] == {"zones": "us-west-2a"}


def test_of_a_service_there_is_its_selector_under_the_words_of_the_pods() -> None:
    """Addresses, ports and what clouds are told in annotations are in no snapshot at all."""
    metadata = {
        "name": MARKER,
        "namespace": "default",
        "labels": {"team": MARKER},
        "annotations": {
            "service.beta.kubernetes.io/aws-load-balancer-name": MARKER,
            "external-dns.alpha.kubernetes.io/hostname": f"{MARKER}.example.com",
        },
        "finalizers": ["service.k8s.aws/resources"],
    }
    address = "203.0.113.7"
    spec = {
        "type": "LoadBalancer",
        "selector": {"app": MARKER, "tier": "gold"},
        "clusterIP": address,
        "clusterIPs": [address],
        "externalIPs": [address],
        "externalName": f"{MARKER}.example.com",
        "loadBalancerIP": address,
        "loadBalancerSourceRanges": [f"{address}/32"],
        "ports": [{"name": "payroll", "port": 8443, "nodePort": 31234, "targetPort": "payroll"}],
        "sessionAffinity": "ClientIP",
    }
    balancer = {"ingress": [{"hostname": f"{MARKER}.elb.example.com", "ip": address}]}
    value = {"metadata": metadata, "spec": spec, "status": {"loadBalancer": balancer}}
    service = msgspec.convert(value, Service)
    [plain] = snapshot_with(service).items
    assert plain["spec"] == {"selector": spec["selector"]}
    assert set(plain) == {"apiVersion", "kind", "metadata", "spec"}
    assert "annotations" not in plain["metadata"]
    pod = {"metadata": {"name": "a", "namespace": "default", "labels": spec["selector"]}}
    shown, labelled = redact(snapshot_with(service, msgspec.convert(pod, Pod))).items
    assert shown["spec"]["selector"] == labelled["metadata"]["labels"] != spec["selector"]
    text = json.dumps(shown)
    assert not [each for each in (MARKER, "gold", address, "payroll", "8443") if each in text]
    assert set(shown["metadata"]) == {"name", "namespace", "labels"}


def test_an_instance_type_keeps_the_name_of_the_type_that_it_overrides() -> None:
    offering = {"topology.kubernetes.io/zone": "us-west-2a", "team": MARKER}
    value = {"metadata": {"name": "m5.large"}, "spec": {"offerings": [offering]}}
    item = redacted(InstanceType, value)
    assert item["metadata"]["name"] == "m5.large"
    assert item["spec"]["offerings"][0]["topology.kubernetes.io/zone"] == "us-west-2a"
    assert MARKER not in json.dumps(item)


# Drift


def launched_cluster(hash_of_pool: str = "", hash_of_class: str = "") -> ClusterSnapshot:
    """A node that was launched from a pool and a class whose text says something."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": MARKER}
    template = {
        "metadata": {"annotations": {"acme.example/owner": MARKER}},
        "spec": {"nodeClassRef": reference, "requirements": []},
    }
    pool = msgspec.convert({"metadata": {"name": MARKER}, "spec": {"template": template}}, NodePool)
    spec = {
        "role": MARKER,
        "userData": MARKER,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"Name": MARKER}}],
        "securityGroupSelectorTerms": [{"tags": {"Name": MARKER}}],
    }
    node_class = msgspec.convert({"metadata": {"name": MARKER}, "spec": spec}, EC2NodeClass)
    annotations = {
        "karpenter.sh/nodepool-hash": hash_of_pool or pool_hash(pool),
        "karpenter.k8s.aws/ec2nodeclass-hash": hash_of_class or node_class_hash(node_class),
    }
    node = {"metadata": {"name": "node", "annotations": annotations}}
    return snapshot_with(node_class, msgspec.convert(node, Node), pool)


def current_and_stated(snapshot: ClusterSnapshot) -> tuple[list[str], list[str]]:
    node_class, node, pool = snapshot.items
    current = [
        pool_hash(msgspec.convert(pool, NodePool)),
        node_class_hash(msgspec.convert(node_class, EC2NodeClass)),
    ]
    return current, list(node["metadata"]["annotations"].values())


def test_nodes_of_a_redacted_cluster_have_not_drifted() -> None:
    """Their hashes are those of the pool and the class as they are called now."""
    before, after = launched_cluster(), redact_cluster(launched_cluster())
    current, stated = current_and_stated(after)
    assert current == stated
    assert not set(current) & set(current_and_stated(before)[0])
    assert MARKER not in json.dumps(after.items)


def test_nodes_that_have_drifted_still_have() -> None:
    after = redact_cluster(launched_cluster("0123456789abcdef", "fedcba9876543210"))
    current, stated = current_and_stated(after)
    assert stated == ["0123456789abcdef", "fedcba9876543210"]
    assert not set(current) & set(stated)


def test_a_snapshot_with_names_has_the_annotations_that_nodes_drift_by() -> None:
    """As it has user data: without them every node of the pool would have drifted."""
    current, stated = current_and_stated(launched_cluster())
    assert current == stated
