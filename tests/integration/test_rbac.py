"""The rights of the chart, by the audit log of a real API server: the controllers are refused
nothing, every right is used, and without any one of them a request would be refused.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.integration.conftest import running
from tests.integration.run_manifests import NODE_CLASS, NODE_POOL, deployment
from tests.support.audited_requests import (
    Request,
    Right,
    requests_of,
    right_of,
    rights_of,
    roles_of,
    single_rules,
)
from tests.support.control_plane import ControlPlane
from tests.support.helm import (
    CHART,
    NAMESPACE,
    RELEASE,
    SCHEDULER_CONFIG,
    render,
    run_helm,
    set_flags,
)
from tests.support.running_operator import RunningOperator, TestedCluster

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.operations import ConfigMap
from wainwright.api.wire import WireStruct
from wainwright.cli.cluster_input import cluster_text
from wainwright.cli.main import wain
from wainwright.clock import SystemClock
from wainwright.controllers.informer_cache import InformerCache
from wainwright.controllers.live_state import DEFAULT_CONSTRAINT_KINDS
from wainwright.controllers.manager import WATCHED_KINDS
from wainwright.controllers.provisioning.capacity_buffers import BUFFER_KINDS
from wainwright.kube.client import KubeClient
from wainwright.kube.kubeconfig import load_address
from wainwright.operator.process import SETTINGS_NAME

VALUES = (
    "provider=emulator",
    "settings.featureGates.capacityBuffer=true",
    "settings.featureGates.podDeletionCostManagement=true",
    *SCHEDULER_CONFIG,
)
"""With all that adds to the rights."""
ONLY_LOOKS = "only-looks"
DRY_RUN = (*VALUES, "dryRun=true", f"fullnameOverride={ONLY_LOOKS}")
"""Of an account beside that of the controllers, so that the log tells their requests apart."""
DRY_RUN_KINDS: tuple[type[WireStruct], ...] = (*WATCHED_KINDS, *DEFAULT_CONSTRAINT_KINDS)
RBAC_GROUP = "rbac.authorization.k8s.io"
BUFFERS = "capacitybuffers.autoscaling.x-k8s.io"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
BUFFER_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": BUFFERS,
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "names": {"kind": "CapacityBuffer", "plural": "capacitybuffers"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": ANYTHING},
            }
        ],
    },
}
SHORT_LIVED = "short-lived"
POD_GRACE = 60
"""Seconds: longer than the drain of the short-lived nodes may take."""


def short_lived_pool() -> dict[str, Any]:
    """Its nodes expire soon, and their drain does not wait for pods."""
    pool = json.loads(json.dumps(NODE_POOL))
    pool["metadata"]["name"] = SHORT_LIVED
    template = pool["spec"]["template"]
    template["spec"] |= {"expireAfter": "8s", "terminationGracePeriod": "5s"}
    template["spec"]["taints"] = [{"key": SHORT_LIVED, "effect": "NoSchedule"}]
    return dict(pool)


def short_lived_deployment() -> dict[str, Any]:
    document = json.loads(json.dumps(deployment(1)).replace('"web"', f'"{SHORT_LIVED}"'))
    pod = document["spec"]["template"]["spec"]
    pod["tolerations"] = [{"key": SHORT_LIVED, "operator": "Exists"}]
    pod["nodeSelector"] = {"karpenter.sh/nodepool": SHORT_LIVED}
    pod["terminationGracePeriodSeconds"] = POD_GRACE
    return dict(document)


WRITTEN_BY_OTHERS: tuple[type[WireStruct], ...] = (NodePool, EC2NodeClass, NodeClaim, Node)
OTHERS: dict[str, dict[str, Any]] = {
    "/apis/karpenter.sh/v1alpha1/nodeoverlays": {
        "metadata": {"name": "discount"},
        "spec": {"requirements": [], "priceAdjustment": "-10%"},
    },
    "/apis/karpenter.sh/v1alpha1/instancetypes": {
        "metadata": {"name": "m5.large"},
        "spec": {"instanceType": "m5.large"},
    },
    "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers": {
        "metadata": {"name": "spare"},
        "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 1},
    },
}


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[TestedCluster]:
    """A cluster into which helm has installed the chart."""
    with running(pytestconfig, scheduler=True, controller_manager=True, audited=True) as plane:
        plane.apply_crd(BUFFER_CRD)
        cluster = TestedCluster(plane)
        ended = run_helm(
            "install",
            RELEASE,
            str(CHART),
            "--kubeconfig",
            str(plane.kubeconfig),
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            *set_flags(("settings.clusterName=shop", "replicas=0", *VALUES)),
        )
        assert ended.returncode == 0, ended.stderr
        yield cluster


def account(plane: ControlPlane) -> Path:
    return plane.kubeconfig_of(NAMESPACE, RELEASE)


def container(*values: str) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that the chart gives to the container."""
    pods = [each["spec"]["template"] for each in render(*values) if each["kind"] == "Deployment"]
    found = pods[0]["spec"]["containers"][0]
    environment = {each["name"]: each["value"] for each in found["env"]}
    return found["args"], environment


def test_the_controllers_need_exactly_the_rights_of_the_chart(
    cluster: TestedCluster, tmp_path: Path
) -> None:
    plane, kubeconfig = cluster.plane, account(cluster.plane)
    arguments, environment = container(*VALUES)
    environment["METRICS_PORT"] = environment["HEALTH_PROBE_PORT"] = "0"
    flags = (*arguments[1:], "--emulator-boot", "1s")
    with RunningOperator(
        plane, tmp_path, *flags, kubeconfig=kubeconfig, environment=environment
    ) as operator:
        live_a_life(cluster, operator)
        assert operator.terminate()[0] == 0
    asyncio.run(write_over_another(plane, kubeconfig))
    asyncio.run(read_an_older_server(kubeconfig, (*DRY_RUN_KINDS, *BUFFER_KINDS)))
    asyncio.run(read_settings_of_an_older_server(kubeconfig))
    requests = list(chart_requests(plane))
    check_rights(rights_of(render(*VALUES)), requests)
    check_refusals(cluster, requests)


def test_a_dry_run_needs_exactly_the_rights_that_it_is_given(
    cluster: TestedCluster, tmp_path: Path
) -> None:
    """They are all to read."""
    plane, manifests = cluster.plane, render(*DRY_RUN)
    give_access(plane, manifests)
    kubeconfig = plane.kubeconfig_of(NAMESPACE, ONLY_LOOKS)
    arguments, environment = container(*DRY_RUN)
    environment["METRICS_PORT"] = environment["HEALTH_PROBE_PORT"] = "0"
    with RunningOperator(
        plane, tmp_path, *arguments[1:], kubeconfig=kubeconfig, environment=environment
    ) as operator:
        cluster.wait_for("a first look", lambda: operator.get("health", "/readyz")[0] == 200)
        assert operator.terminate()[0] == 0
    asyncio.run(read_an_older_server(kubeconfig, DRY_RUN_KINDS))
    asyncio.run(read_settings_of_an_older_server(kubeconfig))
    account_name = f"system:serviceaccount:{NAMESPACE}:{ONLY_LOOKS}"
    requests = list(requests_of(plane.audit_log, account_name))
    assert {each.verb for each in requests} == {"list", "watch"}
    check_rights(rights_of(manifests), requests)


def give_access(plane: ControlPlane, manifests: Iterable[dict[str, Any]]) -> None:
    """The account of a release, and its roles: all that decides what its pods may do."""
    folders = {
        "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        "ClusterRole": f"/apis/{RBAC_GROUP}/v1/clusterroles",
        "ClusterRoleBinding": f"/apis/{RBAC_GROUP}/v1/clusterrolebindings",
        "Role": f"/apis/{RBAC_GROUP}/v1/namespaces/{NAMESPACE}/roles",
        "RoleBinding": f"/apis/{RBAC_GROUP}/v1/namespaces/{NAMESPACE}/rolebindings",
    }
    for each in manifests:
        if each["kind"] in folders:
            post(plane, folders[each["kind"]], each)


def live_a_life(cluster: TestedCluster, operator: RunningOperator) -> None:
    """Nodes are launched, expire, are consolidated, and everything has its conditions."""
    cluster.wait_for("readiness", lambda: operator.get("health", "/readyz")[0] == 200)
    cluster.apply("EC2NodeClass", NODE_CLASS)
    cluster.apply("NodePool", NODE_POOL)
    cluster.apply("NodePool", short_lived_pool())
    for path, document in OTHERS.items():
        create(cluster.plane, path, document)
    cluster.apply("Deployment", deployment(12))
    cluster.apply("Deployment", short_lived_deployment())
    cluster.wait_for("pods that are Ready", lambda: len(cluster.ready_pods("web")) == 12)
    cluster.wait_for("a pod deleted by a drain", lambda: was_deleted_by_a_drain(cluster.plane))
    cluster.delete("Deployment", SHORT_LIVED)
    cluster.delete("NodePool", SHORT_LIVED)
    cluster.delete("NodeClaim", claim_with_pods(cluster))
    for right in SEEN_AT_LAST:
        cluster.wait_for(f"a request for {right}", partial(is_used, cluster.plane, right))


SEEN_AT_LAST = (
    Right("", "pods/eviction", "create"),
    Right("", "nodes", "delete"),
    Right("", "pods", "patch"),
    Right("", f"{BUFFERS}/status", "patch"),
)


def claim_with_pods(cluster: TestedCluster) -> str:
    """Whose drain has somebody to evict."""
    nodes = {each["spec"]["nodeName"] for each in cluster.ready_pods("web")}
    return next(
        str(each["metadata"]["name"])
        for each in cluster.all("NodeClaim")
        if each.get("status", {}).get("nodeName") in nodes
    )


def create(plane: ControlPlane, path: str, document: dict[str, Any]) -> None:
    _, _, group, version, *rest = path.split("/")
    kinds = {"nodeoverlays": "NodeOverlay", "instancetypes": "InstanceType"}
    kind = kinds.get(rest[-1], "CapacityBuffer")
    manifest = {"apiVersion": f"{group}/{version}", "kind": kind, **document}
    post(plane, path, manifest)


def chart_requests(plane: ControlPlane) -> Iterator[Request]:
    return requests_of(plane.audit_log, f"system:serviceaccount:{NAMESPACE}:{RELEASE}")


def is_used(plane: ControlPlane, right: Right) -> bool:
    return any(right.allows(each) for each in chart_requests(plane))


def was_deleted_by_a_drain(plane: ControlPlane) -> bool:
    """Emulated kubelets delete pods too, when they have ended: without any grace period."""
    return any(
        (each.resource, each.verb) == ("pods", "delete") and each.grace_period
        for each in chart_requests(plane)
    )


async def write_over_another(plane: ControlPlane, kubeconfig: Path) -> None:
    """An object is read once more where another has written it meanwhile."""
    address = load_address(kubeconfig=str(kubeconfig))
    async with KubeClient.connect(address) as client:
        cache = InformerCache(client, SystemClock(), WRITTEN_BY_OTHERS, "writes over another")
        watches = asyncio.create_task(cache.run())
        await cache.wait_until_listed()
        watches.cancel()
        await asyncio.gather(watches, return_exceptions=True)
        for kind in WRITTEN_BY_OTHERS:
            found: Any = next(iter(cache.all(kind)))
            name = found.metadata.name
            TestedCluster(plane).patch(kind.__name__, name, annotation("theirs"))
            await cache.update(found, lambda _: annotation("ours"))


async def read_an_older_server(kubeconfig: Path, kinds: Sequence[type[WireStruct]]) -> None:
    """What is listed where the server refuses a watch that begins with all objects."""
    async with KubeClient.connect(load_address(kubeconfig=str(kubeconfig))) as client:
        for kind in kinds:
            await client.list(kind)


async def read_settings_of_an_older_server(kubeconfig: Path) -> None:
    async with KubeClient.connect(load_address(kubeconfig=str(kubeconfig))) as client:
        await client.list(ConfigMap, NAMESPACE, name=SETTINGS_NAME)


def annotation(writer: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"tests/written-by": writer}}}


def check_rights(rights: list[Right], requests: Iterable[Request]) -> None:
    seen = {each._replace(code=0, grace_period=None) for each in requests}
    refused = [each for each in requests if each.code == 403]
    assert not refused
    assert len(set(rights)) == len(rights), "no right is given twice"
    for request in seen:
        allowing = [each for each in rights if each.allows(request)]
        assert len(allowing) == 1, (request, allowing)
    unused = [right for right in rights if not any(map(right.allows, seen))]
    assert not unused, "rights that nothing needs"


def check_refusals(cluster: TestedCluster, requests: list[Request]) -> None:
    """Without any one right the API server would have refused something that was asked for."""
    for role in roles_of(render(*VALUES)):
        rules = [*single_rules(role)]
        for number, rule in enumerate(rules):
            set_rules(cluster.plane, role, [*rules[:number], *rules[number + 1 :]])
            right = right_of(role, rule)
            request = next(each for each in requests if right.allows(each))
            cluster.wait_for(f"a refusal without {right}", partial(is_refused, cluster, request))
        set_rules(cluster.plane, role, rules)


def set_rules(plane: ControlPlane, role: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    metadata, kind = role["metadata"], role["kind"].lower()
    folder = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    reply = plane.request(
        "PATCH",
        f"/apis/{RBAC_GROUP}/v1/{folder}{kind}s/{metadata['name']}",
        body=json.dumps({"rules": rules}).encode(),
        content_type="application/merge-patch+json",
    )
    assert reply.status == 200, reply.message


def is_refused(cluster: TestedCluster, request: Request) -> bool:
    qualified, _, subresource = request.resource.partition("/")
    resource, _, group = qualified.partition(".")
    review = {
        "user": f"system:serviceaccount:{NAMESPACE}:{RELEASE}",
        "groups": ["system:authenticated", "system:serviceaccounts"],
        "resourceAttributes": {
            "namespace": request.namespace,
            "verb": request.verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "name": request.name,
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    reply = cluster.plane.request("POST", path, body=json.dumps({"spec": review}).encode())
    return reply.json()["status"]["allowed"] is False


def test_a_snapshot_needs_what_its_role_allows(cluster: TestedCluster) -> None:
    plane = cluster.plane
    role = next(iter(yaml.safe_load_all(output("snapshot", "--rbac"))))
    name = role["metadata"]["name"]
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    }
    post(plane, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    post(plane, f"/apis/{RBAC_GROUP}/v1/clusterroles", role)
    post(plane, f"/apis/{RBAC_GROUP}/v1/clusterrolebindings", binding)
    output("snapshot", "--kubeconfig", str(plane.kubeconfig_of("default", "reader")))
    requests = list(requests_of(plane.audit_log, "system:serviceaccount:default:reader"))
    rights = rights_of([role])
    assert {each.verb for each in rights} == {"get", "list"}, "it reads, and nothing else"
    assert not [each for each in requests if each.code == 403]
    assert {each.resource for each in requests} == {each.resource for each in rights}


def output(*arguments: str) -> str:
    cluster_text.cache_clear()  # one process here is many runs of a command
    result = CliRunner().invoke(wain, arguments, standalone_mode=False)
    assert result.exception is None, (result.exception, result.output)
    return result.stdout


def post(plane: ControlPlane, path: str, manifest: dict[str, Any]) -> None:
    reply = plane.request("POST", path, body=json.dumps(manifest).encode())
    assert reply.status == 201, reply.message
