"""A snapshot holds what offline commands need, and neither secrets nor, redacted, names."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.core_kinds import core_kind_rows

from wainwright.api.api_resources import resource_of, served_resources
from wainwright.api.catalog_documents import Cloud
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node, Service
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS, ObjectReader
from wainwright.api.kubernetes.workloads import Pod
from wainwright.cli.main import wain
from wainwright.clock import EPOCH, VirtualClock
from wainwright.controllers import live_state
from wainwright.errors import (
    KubernetesError,
    ObjectNotFoundError,
    RequestForbiddenError,
    ServerUnavailableError,
    TooManyRequestsError,
)
from wainwright.kube.object_decoding import decode_as
from wainwright.kube.redaction import redact
from wainwright.kube.snapshot import (
    OPTIONAL_KINDS,
    SNAPSHOT_KINDS,
    ClusterSnapshot,
    describe_left_out,
    describe_missing,
    snapshot_manifest,
    take_snapshot,
)
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.manifest_validation import examine_object
from wainwright.manifests.yaml_writer import dump_yaml
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.translate.topology import DEFAULT_SELECTOR_KINDS

EXAMPLES = Path(__file__).parents[3] / "examples"
NOW = ("--now", "2026-01-31T12:00:00Z")


class StoppedClock:
    """Before the time that commands are given, so that nothing is younger than it."""

    def now(self) -> float:
        return EPOCH

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def snapshot_of(server: InMemoryApiServer) -> ClusterSnapshot:
    return asyncio.run(take_snapshot(server, StoppedClock()))


def example_cluster(name: str) -> InMemoryApiServer:
    """The objects of an example in an API server; what only offline commands read stays out."""
    server = InMemoryApiServer(StoppedClock())
    objects = read_manifests([str(EXAMPLES / name)]).objects
    server.load(each for each in objects if type(each) in served_resources())
    return server


def written(folder: Path, snapshot: ClusterSnapshot, example: str) -> list[str]:
    """The snapshot as a file, and the Cloud of the example beside it."""
    file = folder / "cluster.json"
    file.write_bytes(snapshot.to_json())
    cloud = next(iter(read_manifests([str(EXAMPLES / example)]).all(Cloud)), None)
    if cloud is None:
        return [str(file)]
    (folder / "cloud.yaml").write_text(dump_yaml(msgspec.to_builtins(cloud)))
    return [str(file), str(folder / "cloud.yaml")]


def answer(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(wain, [*arguments, *NOW, "-o", "json", "-q"], standalone_mode=False)
    assert result.exception is None, (result.exception, result.output)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def without_names(value: Any) -> Any:
    """The numbers of an answer, in its order."""
    if isinstance(value, dict):
        return [without_names(item) for item in value.values()]
    if isinstance(value, list):
        return [without_names(item) for item in value]
    return value if isinstance(value, int | float) else None


@pytest.mark.parametrize("example", ["reserved-then-spot", "weights-default-architecture"])
def test_a_plan_from_a_snapshot_is_that_of_the_manifests(tmp_path: Path, example: str) -> None:
    snapshot = snapshot_of(example_cluster(example))
    expected = answer("plan", str(EXAMPLES / example))
    assert answer("plan", *written(tmp_path, snapshot, example)) == expected


def test_consolidation_from_a_snapshot_is_that_of_the_manifests(tmp_path: Path) -> None:
    snapshot = snapshot_of(example_cluster("consolidate"))
    expected = answer("consolidate", str(EXAMPLES / "consolidate"))
    assert answer("consolidate", *written(tmp_path, snapshot, "consolidate")) == expected
    redacted = answer("consolidate", *written(tmp_path, redact(snapshot), "consolidate"))
    assert without_names(redacted) == without_names(expected)


# Default constraints of the scheduler

NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [],
            }
        }
    },
}
NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"Name": "shop"}}],
        "securityGroupSelectorTerms": [{"tags": {"Name": "shop"}}],
    },
}
SCHEDULER_CONFIG = """\
podTopologySpread:
  defaultConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
"""
WEB = {"app": "web"}
CONTAINERS = [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "500m"}}}]
SELECTING_KINDS = {
    "Service": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
}


def waiting_pod(number: int, owner: Mapping[str, str]) -> dict[str, Any]:
    reference = {**owner, "uid": "uid-web", "controller": True}
    metadata = {
        "name": f"web-{number}",
        "namespace": "default",
        "uid": f"uid-{number}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": WEB,
        "ownerReferences": [reference],
    }
    status = {"phase": "Pending"}
    spec = {"containers": CONTAINERS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def selected_pods(kind: str) -> list[dict[str, Any]]:
    """Three pods that belong together by an object of the kind alone."""
    head = {
        "apiVersion": SELECTING_KINDS[kind],
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
    }
    if kind == "Service":
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": "web"}
        return [head | {"spec": {"selector": WEB}}, *(waiting_pod(at, job) for at in range(3))]
    template = {"metadata": {"labels": WEB}, "spec": {"containers": CONTAINERS}}
    selector = WEB if kind == "ReplicationController" else {"matchLabels": WEB}
    made = head | {"spec": {"replicas": 3, "selector": selector, "template": template}}
    if kind == "Deployment":
        return [made]
    owner = {"apiVersion": SELECTING_KINDS[kind], "kind": kind, "name": "web"}
    return [made, *(waiting_pod(at, owner) for at in range(3))]


@pytest.mark.parametrize("kind", SELECTING_KINDS)
def test_a_plan_with_the_defaults_of_the_scheduler_is_that_of_the_manifests(
    tmp_path: Path, kind: str
) -> None:
    """What says which pods belong together is in the snapshot, under its words where redacted."""
    manifests = tmp_path / "manifests.yaml"
    written_out = map(dump_yaml, (NODE_POOL, NODE_CLASS, *selected_pods(kind)))
    manifests.write_text("---\n".join(written_out))
    server = InMemoryApiServer(StoppedClock())
    server.load(read_manifests([str(manifests)]).objects)
    (tmp_path / "scheduler.yaml").write_text(SCHEDULER_CONFIG)
    options = ("--region", "us-west-2", "--scheduler-config", str(tmp_path / "scheduler.yaml"))
    expected = answer("plan", str(manifests), *options)
    assert len(expected["nodeClaims"]) == 3, "one in each zone"
    snapshot = snapshot_of(server)
    cluster = tmp_path / "cluster.json"
    cluster.write_bytes(snapshot.to_json())
    assert answer("plan", str(cluster), *options) == expected
    cluster.write_bytes(redact(snapshot).to_json())
    redacted = answer("plan", str(cluster), *options)
    assert without_names(redacted) == without_names(expected)


def test_a_snapshot_has_every_kind_that_decisions_of_the_running_half_read() -> None:
    read = {*live_state.SNAPSHOT_KINDS, *live_state.DEFAULT_CONSTRAINT_KINDS}
    assert read | {*DEFAULT_SELECTOR_KINDS} <= {*SNAPSHOT_KINDS}


def test_the_documented_line_of_kubectl_has_the_kinds_of_a_snapshot() -> None:
    """But those whose CRDs a cluster need not have: kubectl ends where it does not know a kind."""
    page = (Path(__file__).parents[3] / "docs" / "from-a-cluster.md").read_text()
    [line] = [each.strip() for each in page.splitlines() if each.startswith("    kubectl get ")]
    expected = [resource_of(kind).plural for kind in SNAPSHOT_KINDS if kind not in OPTIONAL_KINDS]
    assert sorted(line.split()[2].split(",")) == sorted(expected)


def test_two_snapshots_are_the_same_bytes_in_the_order_of_kind_and_name() -> None:
    server = example_cluster("consolidate")
    first, second = snapshot_of(server), snapshot_of(server)
    assert first.to_json() == second.to_json()
    names = [
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in first.items
    ]
    assert names == sorted(names)


def test_a_heartbeat_changes_nothing() -> None:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    node = {
        "metadata": {"name": "a", "resourceVersion": "5"},
        "status": {"conditions": [condition]},
    }
    manifest = snapshot_manifest(msgspec.convert(node, Node))
    assert "resourceVersion" not in manifest["metadata"]
    assert "lastHeartbeatTime" not in json.dumps(manifest)


def test_pods_have_no_environment_commands_or_manifest_in_an_annotation() -> None:
    pod = {
        "metadata": {
            "name": "a",
            "namespace": "default",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "secret",
                "vault.example.com/token": "secret",
                "karpenter.sh/do-not-disrupt": "true",
            },
        },
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "image": "registry/secret",
                    "command": ["secret"],
                    "args": ["secret"],
                    "env": [{"name": "PASSWORD", "value": "secret"}],
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
            "volumes": [{"name": "data", "configMap": {"name": "secret"}}],
        },
    }
    text = json.dumps(snapshot_manifest(msgspec.convert(pod, Pod)))
    assert "secret" not in text
    assert "karpenter.sh/do-not-disrupt" in text
    assert '"cpu": "1"' in text


class PartialServer(InMemoryApiServer):
    """A server that does not serve or allow some kinds."""

    failures: Mapping[Any, Exception]

    async def list(self, kind: type[Any], namespace: str = "", *, name: str = "") -> Any:
        if kind in self.failures:
            raise self.failures[kind]
        return await super().list(kind, namespace, name=name)


def partial(failures: Mapping[Any, Exception]) -> PartialServer:
    server = PartialServer(StoppedClock())
    server.failures = failures
    return server


def test_a_cluster_without_karpenter_has_a_snapshot_that_says_so() -> None:
    missing = {kind: ObjectNotFoundError("404") for kind in (NodePool, NodeClaim, EC2NodeClass)}
    snapshot = snapshot_of(partial(missing))
    assert describe_missing(snapshot.missing_kinds) == (
        "the cluster serves no nodepools.karpenter.sh, nodeclaims.karpenter.sh, "
        "ec2nodeclasses.karpenter.k8s.aws: the CRDs are not installed"
    )


def test_everything_that_may_not_be_listed_is_named() -> None:
    refused = {
        kind: RequestForbiddenError(f'User "a" cannot list resource "{kind.__name__}"')
        for kind in (Pod, Node)
    }
    with pytest.raises(RequestForbiddenError) as caught:
        snapshot_of(partial(refused))
    assert '"Pod"' in caught.value.message
    assert '"Node"' in caught.value.message
    assert "--rbac" in caught.value.hint


def test_a_role_of_before_services_were_listed_is_still_enough_and_a_note_says_so() -> None:
    refusal = RequestForbiddenError('User "a" cannot list resource "services"')
    snapshot = snapshot_of(partial({Service: refusal}))
    assert {each["kind"] for each in snapshot.items} >= {"Namespace"}
    assert describe_left_out(snapshot.left_out) == (
        'left out: User "a" cannot list resource "services"; the default constraints of a '
        "--scheduler-config depend on them"
    )
    assert describe_left_out(snapshot_of(InMemoryApiServer(StoppedClock())).left_out) == ""


def test_services_are_named_beside_what_a_snapshot_cannot_do_without() -> None:
    refused = {kind: RequestForbiddenError(f"no {kind.__name__}") for kind in (Pod, Service)}
    with pytest.raises(RequestForbiddenError) as caught:
        snapshot_of(partial(refused))
    assert "no Pod" in caught.value.message
    assert "no Service" in caught.value.message


def test_credentials_that_are_not_accepted_are_no_missing_right() -> None:
    with pytest.raises(RequestForbiddenError):
        snapshot_of(partial({Service: RequestForbiddenError("Unauthorized", 401)}))


# A busy API server


class BusyServer(InMemoryApiServer):
    """A server that refuses the first lists of some kinds."""

    refusals: dict[Any, list[KubernetesError]]

    async def list(self, kind: type[Any], namespace: str = "", *, name: str = "") -> Any:
        if self.refusals.get(kind):
            raise self.refusals[kind].pop()
        return await super().list(kind, namespace, name=name)


def busy(**refusals: list[KubernetesError]) -> BusyServer:
    server = BusyServer(StoppedClock())
    server.refusals = {Pod: refusals.get("pods", []), Node: refusals.get("nodes", [])}
    return server


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock()
    yield clock
    clock.close()


def test_a_list_that_is_refused_for_the_moment_is_repeated(clock: VirtualClock) -> None:
    server = busy(
        pods=[TooManyRequestsError("too many requests", retry_after=3.0)],
        nodes=[ServerUnavailableError("storage is (re)initializing", 503)] * 2,
    )
    snapshot = clock.run(take_snapshot(server, clock))
    assert snapshot == snapshot_of(InMemoryApiServer(StoppedClock()))
    assert clock.now() == EPOCH + 3.0, "the longest wait: those of all kinds are at one time"


@pytest.mark.parametrize(
    "error",
    [TooManyRequestsError("too many requests"), ServerUnavailableError("starting", 503)],
    ids=["busy", "starting"],
)
def test_a_server_that_stays_busy_is_asked_a_few_times(
    clock: VirtualClock, error: KubernetesError
) -> None:
    server = busy(pods=[error] * 100)
    with pytest.raises(type(error)):
        clock.run(take_snapshot(server, clock))
    assert 100 - len(server.refusals[Pod]) == 6


# Redaction

SECRETS = (
    *("payments", "acme-pool", "acme-class", "node-of-acme", "gold", "team-blue"),
    *("123456789012", "0123456789abcdef0"),
)


def secret_cluster() -> InMemoryApiServer:
    """Names that say something, in each place where a name may stand."""
    metadata = {"name": "payments-0", "namespace": "payments", "labels": {"tier": "gold"}}
    spec = {
        "nodeName": "node-of-acme",
        "nodeSelector": {"team": "team-blue", "kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "team-blue"}],
        "containers": [{"name": "payments-app"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]
                },
            }
        ],
    }
    pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    node = {
        "metadata": {
            "name": "node-of-acme",
            "labels": {
                "team": "team-blue",
                "karpenter.sh/nodepool": "acme-pool",
                "kubernetes.io/hostname": "node-of-acme",
                "node.kubernetes.io/instance-type": "m5.large",
            },
        },
        "spec": {
            "providerID": "aws:///us-west-2a/i-0123456789abcdef0",
            "taints": [{"key": "team", "value": "team-blue", "effect": "NoSchedule"}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": "of payments"}]},
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "acme-class"}
    requirements = [
        {"key": "team", "operator": "In", "values": ["team-blue"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]},
    ]
    pool = {
        "metadata": {"name": "acme-pool"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}},
    }
    node_class = {
        "metadata": {"name": "acme-class"},
        "spec": {
            "role": "payments-role",
            "userData": "payments",
            "subnetSelectorTerms": [{"tags": {"Name": "payments"}}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "capacityReservationSelectorTerms": [
                {"ownerID": "123456789012", "instanceMatchCriteria": "open"}
            ],
        },
    }
    server = InMemoryApiServer(StoppedClock())
    pairs = ((pod, Pod), (node, Node), (pool, NodePool), (node_class, EC2NodeClass))
    server.load(msgspec.convert(value, kind) for value, kind in pairs)
    return server


def test_no_name_is_left_and_equal_ones_are_equal() -> None:
    items = redact(snapshot_of(secret_cluster())).items
    text = json.dumps(items)
    assert not [secret for secret in SECRETS if secret in text]
    by_kind = {each["kind"]: each for each in items if each["kind"] != "Namespace"}
    pod, node, pool = by_kind["Pod"], by_kind["Node"], by_kind["NodePool"]
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
    assert (
        node["metadata"]["labels"]["karpenter.sh/nodepool"]
        == by_kind["NodePool"]["metadata"]["name"]
    )
    team = pod["spec"]["nodeSelector"]["team"]
    assert team == node["metadata"]["labels"]["team"] == node["spec"]["taints"][0]["value"]
    assert team == pod["spec"]["tolerations"][0]["value"]
    template = pool["spec"]["template"]["spec"]
    assert template["requirements"][0]["values"] == [team]
    assert template["nodeClassRef"]["name"] == by_kind["EC2NodeClass"]["metadata"]["name"]
    expression = pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"][0]
    assert expression["values"] == [pod["metadata"]["labels"]["tier"]]


def test_what_scheduling_knows_by_itself_is_kept() -> None:
    text = json.dumps(redact(snapshot_of(secret_cluster())).items)
    for kept in ("m5.large", "arm64", "aws:///us-west-2a/i-", "al2023@latest", '["4"]', "default"):
        assert kept in text


def test_a_redacted_snapshot_is_the_same_each_time_and_valid(tmp_path: Path) -> None:
    snapshot = snapshot_of(secret_cluster())
    assert redact(snapshot).to_json() == redact(snapshot).to_json()
    file = tmp_path / "cluster.json"
    file.write_bytes(redact(snapshot).to_json())
    read = read_manifests([str(file)])
    assert {type(each).__name__ for each in read.objects} >= {"Pod", "Node", "NodePool"}


def test_a_problem_in_a_snapshot_names_the_object_and_no_line(tmp_path: Path) -> None:
    broken = json.loads(snapshot_of(secret_cluster()).to_json())
    for each in broken["items"]:
        if each["kind"] == "NodePool":
            each["spec"]["weight"] = 1000
    (tmp_path / "cluster.json").write_text(json.dumps(broken))
    result = CliRunner().invoke(
        wain, ["validate", str(tmp_path / "cluster.json")], standalone_mode=False
    )
    assert "NodePool acme-pool" in result.output
    assert "cluster.json:" not in result.output


def test_a_snapshot_is_simulated_and_a_redacted_one_alike(tmp_path: Path) -> None:
    """A real cluster can be the start of a Scenario."""
    snapshot = snapshot_of(example_cluster("consolidate"))
    totals = []
    for name, taken in (("plain", snapshot), ("redacted", redact(snapshot))):
        folder = tmp_path / name
        folder.mkdir()
        files = [Path(file).name for file in written(folder, taken, "consolidate")]
        scenario = {
            "apiVersion": "wainwright.dev/v1alpha1",
            "kind": "Scenario",
            "metadata": {"name": "real"},
            "spec": {"start": "2026-01-15T12:00:00Z", "duration": "5m", "manifests": files},
        }
        (folder / "scenario.yaml").write_text(dump_yaml(scenario))
        result = CliRunner().invoke(
            wain, ["simulate", str(folder / "scenario.yaml"), "-o", "json"], standalone_mode=False
        )
        assert result.exception is None, (result.exception, result.output)
        totals.append(json.loads(result.stdout)["totals"])
    assert totals[0]["cost"] > 0
    assert totals[0]["cost"] == totals[1]["cost"]


def errors_in(value: dict[str, Any]) -> list[str]:
    findings = examine_object(value, ObjectReader())
    return [str(each.message) for each in findings.field_errors if not each.warning]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(row.object, id=row.name)
        for row in core_kind_rows()
        if row.verdict == "accepted" and not errors_in(row.object)
    ],
)
def test_what_an_api_server_has_accepted_is_valid_in_a_snapshot(value: dict[str, Any]) -> None:
    """Also where a field that must be there is of no use to decisions."""
    kind = KUBERNETES_KINDS[value["apiVersion"], value["kind"]]
    decoded = decode_as(resource_of(kind), kind, msgspec.json.encode(value))
    manifest = json.loads(ClusterSnapshot(items=[snapshot_manifest(decoded)]).to_json())["items"][0]
    assert errors_in(manifest) == []
    redacted = redact(ClusterSnapshot(items=[manifest])).items[0]
    assert errors_in(redacted) == []
