"""Which object of the input tells the region, where nobody states one."""

import pytest
from tests.unit.translate.objects import CLASS, Value, claim, manifests, node, pod, pool, thing
from tests.unit.translate.volume_objects import storage_class, term, topology, volume

from wainwright.catalogue.regions import region_of
from wainwright.messages.input_remarks import region_note
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.translate.region_inference import infer_region

ZONE = "topology.kubernetes.io/zone"


def choice(*values: Value) -> RegionChoice | None:
    return infer_region(manifests(*values).objects, region_of)


def node_class(*zones: str) -> Value:
    subnets = [{"id": f"subnet-{zone}", "zone": zone} for zone in zones]
    return thing("karpenter.k8s.aws/v1", "EC2NodeClass", "default", status={"subnets": subnets})


def zonal_pool(*zones: str, operator: str = "In", key: str = ZONE) -> Value:
    requirement = {"key": key, "operator": operator, "values": list(zones)}
    spec = {"template": {"spec": {"nodeClassRef": CLASS, "requirements": [requirement]}}}
    return thing("karpenter.sh/v1", "NodePool", "web", spec=spec)


def affine(kind: str, zone: str) -> Value:
    expressions = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    terms = {
        "required": {"nodeSelectorTerms": [expressions]},
        "preferred": [{"weight": 1, "preference": expressions}],
    }[kind]
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": terms}}}


def workload(spec: Value) -> Value:
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    return thing("apps/v1", "Deployment", "web", spec={"template": template})


CASES: dict[str, tuple[Value, str]] = {
    "a label of a node": (
        node("n", metadata={"labels": {ZONE: "us-west-2b"}}, spec={"providerID": ""}),
        "region us-west-2, as Node n is in us-west-2b",
    ),
    "the region of a node": (
        node(
            "n",
            metadata={"labels": {"topology.kubernetes.io/region": "us-west-2"}},
            spec={"providerID": ""},
        ),
        "region us-west-2, as Node n is in us-west-2",
    ),
    "a label of a claim": (
        claim("c", metadata={"labels": {"failure-domain.beta.kubernetes.io/zone": "eu-west-1a"}}),
        "region eu-west-1, as NodeClaim c is in eu-west-1a",
    ),
    "a provider id": (
        node("n", metadata={"labels": {}}, spec={"providerID": "aws:///eu-west-3c/i-1"}),
        "region eu-west-3, as the provider id of Node n names eu-west-3c",
    ),
    "the status of a class": (
        node_class("ap-south-1a"),
        "region ap-south-1, as the status of EC2NodeClass default names ap-south-1a",
    ),
    "a zone that a pool requires": (
        zonal_pool("sa-east-1a"),
        "region sa-east-1, as NodePool web requires sa-east-1a",
    ),
    "a zone that a pool excludes": (
        zonal_pool("us-west-1a", operator="NotIn"),
        "region us-west-1, as NodePool web requires us-west-1a",
    ),
    "a zone id": (
        zonal_pool("usw2-az1", key="topology.k8s.aws/zone-id"),
        "region us-west-2, as NodePool web requires usw2-az1",
    ),
    "a Local Zone": (
        zonal_pool("us-west-2-lax-1a"),
        "region us-west-2, as NodePool web requires us-west-2-lax-1a",
    ),
    "a zone that only some accounts have": (
        zonal_pool("us-west-2e"),
        "region us-west-2, as NodePool web requires us-west-2e",
    ),
    "a selector of a pod": (
        pod("a", spec={"nodeSelector": {ZONE: "eu-north-1b"}}),
        "region eu-north-1, as Pod a selects eu-north-1b",
    ),
    "a required affinity of a workload": (
        workload(affine("required", "eu-north-1b")),
        "region eu-north-1, as Deployment web selects eu-north-1b",
    ),
    "a preferred affinity of a workload": (
        workload(affine("preferred", "eu-north-1b")),
        "region eu-north-1, as Deployment web selects eu-north-1b",
    ),
    "a volume": (
        volume("pv", term("topology.ebs.csi.aws.com/zone", "ca-central-1a")),
        "region ca-central-1, as PersistentVolume pv names ca-central-1a",
    ),
    "a storage class": (
        storage_class(allowedTopologies=[topology(ZONE, "ca-central-1a")]),
        "region ca-central-1, as StorageClass gp3 names ca-central-1a",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_object_tells_the_region_and_is_named(case: str) -> None:
    value, sentence = CASES[case]
    found = choice(value)
    assert found is not None
    assert region_note(found) == f"{sentence} (--region or a Cloud states another)"


IN_ORDER = [
    node("n", metadata={"labels": {ZONE: "us-west-2a"}}, spec={"providerID": ""}),
    node("m", metadata={"labels": {}}, spec={"providerID": "aws:///eu-west-1a/i-1"}),
    node_class("eu-west-2a"),
    zonal_pool("eu-west-3a"),
    pod("a", spec={"nodeSelector": {ZONE: "eu-north-1a"}}),
    volume("pv", term(ZONE, "eu-central-1a")),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_what_is_there_tells_before_what_is_wanted(first: int) -> None:
    present = IN_ORDER[first:]
    found = choice(*reversed(present))
    assert found == choice(present[0])
    assert found is not None


@pytest.mark.parametrize(
    "value",
    [
        zonal_pool("test-zone-a"),
        zonal_pool("us-central1-a"),
        zonal_pool("eastus-1"),
        zonal_pool("cn-north-1a"),
        zonal_pool("us-west-2a", key="example.com/zone"),
        node("n", metadata={"labels": {}}, spec={"providerID": "kwok://us-west-2a"}),
        pool("web"),
        pod("a"),
    ],
)
def test_a_region_without_data_does_not_count(value: Value) -> None:
    assert choice(value) is None


def test_of_several_regions_most_objects_tell() -> None:
    labels = {"n": "eu-west-1a", "m": "us-west-2a", "k": "us-west-2b"}
    nodes = [node(name, metadata={"labels": {ZONE: zone}}) for name, zone in labels.items()]
    found = choice(*nodes)
    assert found == RegionChoice(
        region="us-west-2", source=RegionSource.NODE, subject="Node m", value="us-west-2a"
    )
