"""`wain snapshot` and --from-cluster on a real API server, with no more rights than they print."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession
from click.testing import CliRunner, Result
from tests.support.control_plane import ControlPlane
from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool, skip_or_fail

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition
from wainwright.cli.cluster_input import cluster_text
from wainwright.cli.consolidate import DisruptionArguments
from wainwright.cli.main import wain
from wainwright.cli.top import ClusterSource
from wainwright.clock import SystemClock
from wainwright.emulator.http.server import endpoint_url, listen
from wainwright.errors import RequestForbiddenError
from wainwright.live_page.cluster_watch import ClusterWatch
from wainwright.live_page.page_server import PageServer, RequestGuard

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
LABELS = {
    "karpenter.sh/nodepool": "web",
    "karpenter.sh/capacity-type": "on-demand",
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-west-2a",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
}


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry.example.com/app",
        "command": ["run", "--password=hunter2"],
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web"},
            "annotations": {"kubernetes.io/change-cause": "kubectl run --password=hunter2"},
        },
        "spec": {"containers": [container], **spec},
    }


OBJECTS: dict[str, dict[str, Any]] = {
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses": {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        },
    },
    "/apis/karpenter.sh/v1/nodepools": {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"nodeClassRef": REFERENCE, "requirements": []}}},
    },
    "/api/v1/namespaces/default/services": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http-of-web", "port": 80}]},
    },
    "/api/v1/nodes": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-1", "labels": {**LABELS, "kubernetes.io/hostname": "node-1"}},
        "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        "status": {
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            "allocatable": {"cpu": "1900m", "memory": "7Gi", "pods": "29"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
}


@pytest.fixture(scope="module")
def cluster(spare_control_plane: ControlPlane) -> ControlPlane:
    """Its objects are known: a node with a pod, and a pod that waits."""
    plane = spare_control_plane
    for item in CUSTOM_RESOURCES:
        plane.apply_crd(custom_resource_definition(item))
    for path, manifest in OBJECTS.items():
        created(plane, path, manifest)
    created(plane, "/api/v1/namespaces/default/pods", pod("running", "1", nodeName="node-1"))
    created(plane, "/api/v1/namespaces/default/pods", pod("waiting", "3"))
    return plane


def created(plane: ControlPlane, path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    reply = plane.request("POST", path, body=json.dumps(manifest).encode())
    assert reply.status == 201, reply.message
    found: dict[str, Any] = reply.json()
    return found


@pytest.fixture
def reader(cluster: ControlPlane, tmp_path: Path) -> Path:
    """The kubeconfig of a service account that has no rights yet."""
    name = tmp_path.name.replace("_", "-").lower()[:50]
    path = "/api/v1/namespaces/default/serviceaccounts"
    created(cluster, path, {"metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = created(cluster, f"{path}/{name}/token", request)["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = token
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    (tmp_path / "name").write_text(name)
    return tmp_path / "kubeconfig"


def run(*arguments: str) -> Result:
    cluster_text.cache_clear()  # one process here is many runs of a command
    return CliRunner().invoke(wain, arguments, standalone_mode=False)


def output(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exception is None, (result.exception, result.output)
    return result.stdout


def grant(plane: ControlPlane, name: str) -> None:
    """The role that the command prints, for the service account."""
    for role in yaml.safe_load_all(output("snapshot", "--rbac")):
        reply = plane.request("POST", f"{RBAC}/clusterroles", body=json.dumps(role).encode())
        assert reply.status in (201, 409)
        created(
            plane,
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            },
        )


def test_without_rights_each_kind_that_may_not_be_listed_is_named(reader: Path) -> None:
    error = run("snapshot", "--kubeconfig", str(reader)).exception
    assert isinstance(error, RequestForbiddenError)
    assert 'cannot list resource "pods" in API group ""' in error.message
    assert 'cannot list resource "nodepools" in API group "karpenter.sh"' in error.message
    assert "--rbac" in error.hint


def test_a_cluster_is_served_with_no_more_than_the_right_to_read_and_followed(
    cluster: ControlPlane, reader: Path
) -> None:
    grant(cluster, reader.with_name("name").read_text())
    arguments = DisruptionArguments(from_cluster=True, kubeconfig=str(reader))
    source = ClusterSource(arguments=arguments)
    sock = listen(0)

    async def main() -> None:
        watch = ClusterWatch(source.load, SystemClock(), interval=3600.0)
        guard = RequestGuard(host="127.0.0.1")
        url = endpoint_url(sock)
        async with PageServer(watch, sock, guard).running(), ClientSession() as session:
            async with session.get(f"{url}/report.json") as answer:
                [story] = (await answer.json())["stories"]
            pods = {each["name"] for each in story["history"]["pods"]}
            assert {"default/running", "default/waiting"} <= pods
            for path in ("/play", "/pause", "/step", "/inject", "/report.json", "/"):
                async with session.post(f"{url}{path}", json={}) as answer:
                    assert answer.status in (404, 405)
            before = watch.stream.last_id
            path = "/api/v1/namespaces/default/pods"
            await asyncio.to_thread(created, cluster, path, pod("later", "1"))
            await watch.look()
            frames = watch.stream.since(before)
            assert frames is not None
            assert b"default/later" in frames[0].data

    try:
        asyncio.run(main())
    finally:
        sock.close()
        cluster.request("DELETE", "/api/v1/namespaces/default/pods/later")


def test_with_the_role_it_prints_every_command_reads_the_cluster(
    cluster: ControlPlane, reader: Path, tmp_path: Path
) -> None:
    grant(cluster, reader.with_name("name").read_text())
    there = ("--kubeconfig", str(reader))
    text = output("snapshot", *there)
    assert text == output("snapshot", *there), "two snapshots are the same bytes"
    assert "hunter2" not in text
    services = [each for each in json.loads(text)["items"] if each["kind"] == "Service"]
    assert {"selector": {"app": "web"}} in [each["spec"] for each in services]
    assert "http-of-web" not in text
    (tmp_path / "cluster.json").write_text(text)
    now = ("--now", "2030-01-01T00:00:00Z", "-o", "json", "-q")
    planned = json.loads(output("plan", "--from-cluster", *there, *now))
    assert planned == json.loads(output("plan", str(tmp_path / "cluster.json"), *now))
    [claim] = planned["nodeClaims"]
    assert claim["nodePool"] == "web"
    assert run("consolidate", "--from-cluster", *there).exception is None
    assert "node-1" in output("explain", "node", "node-1", "--from-cluster", *there)
    assert "waiting" in output("explain", "pod", "waiting", "--from-cluster", *there)
    assert run("reservations", "--from-cluster", *there).exception is None
    assert "all good" in output("validate", "--from-cluster", *there)
    redacted = output("snapshot", "--redact", *there)
    assert "node-1" not in redacted
    assert '"shop"' not in redacted, "the name of the cluster, as a tag"
    (tmp_path / "redacted.json").write_text(redacted)
    shown = json.loads(output("plan", str(tmp_path / "redacted.json"), *now))
    assert shown["summary"]["pricePerHour"] == planned["summary"]["pricePerHour"] > 0


def test_the_documented_line_for_kubectl_is_enough(cluster: ControlPlane, tmp_path: Path) -> None:
    try:
        kubectl = str(kubectl_command())
    except MissingTool as missing:
        skip_or_fail(str(missing))
    page = (Path(__file__).parents[2] / "docs" / "from-a-cluster.md").read_text()
    [line] = [each.strip() for each in page.splitlines() if each.startswith("    kubectl get")]
    arguments = line.partition(" > ")[0].split()[1:]
    printed = subprocess.run(
        [kubectl, "--kubeconfig", str(cluster.kubeconfig), *arguments],
        check=True,
        capture_output=True,
        timeout=60,
    )
    file = tmp_path / "cluster.yaml"
    file.write_bytes(printed.stdout)
    now = ("--now", "2030-01-01T00:00:00Z")
    [claim] = json.loads(output("plan", str(file), *now, "-o", "json", "-q"))["nodeClaims"]
    assert claim["nodePool"] == "web"
    assert "all good" in output("validate", str(file))
    consolidated = run("consolidate", str(file), *now)
    assert (consolidated.exception, consolidated.return_value in (0, 3)) == (None, True)
    assert "waiting" in output("explain", "pod", "waiting", str(file), *now)
    assert "node-1" in output("explain", "node", "node-1", str(file), *now)
    assert run("reservations", str(file), *now).exception is None
    simulated = json.loads(output("simulate", scenario_of(file), "-o", "json", "-q"))
    assert simulated["totals"]["cost"] > 0


def scenario_of(file: Path) -> str:
    """Five minutes in which nothing happens but what the controllers do."""
    scenario = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "real"},
        "spec": {"start": "2030-01-01T00:00:00Z", "duration": "5m", "manifests": [file.name]},
    }
    written = file.with_name("scenario.yaml")
    written.write_text(yaml.safe_dump(scenario))
    return str(written)
