"""`wain run --provider aws` with botocore against `wain emulator` over HTTP: the same controllers
by another path, in processes of their own, on a real API server. The test plays the kubelets.
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from tests.integration.run_manifests import NODE_CLASS, deployment
from tests.support.running_operator import RunningOperator, TestedCluster

from wainwright.clock import format_microseconds
from wainwright.translate.object_metadata import parse_timestamp

RUN = ("--provider", "aws", "--cluster-name", "wain")
LEASE_RENEWAL = 10.0
"""Seconds after which a kubelet renews the lease of its node."""
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


@pytest.fixture
def emulator() -> Iterator[dict[str, Any]]:
    """What the emulator says of itself, as long as it runs."""
    command = [str(Path(sys.executable).parent / "wain"), "emulator", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            info: dict[str, Any] = json.loads(process.stdout.readline())
            yield info
        finally:
            process.terminate()


def instances(emulator: dict[str, Any]) -> dict[str, Any]:
    """Those that EC2 still has, by id."""
    client = botocore.session.get_session().create_client(
        "ec2",
        region_name=emulator["region"],
        endpoint_url=emulator["endpoint"],
        aws_access_key_id="wain",
        aws_secret_access_key="wain",
    )
    reply = client.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    found = [each for part in reply["Reservations"] for each in part["Instances"]]
    return {each["InstanceId"]: each for each in found}


def join(operated: TestedCluster) -> None:
    """Makes a Ready Node of every launched claim that has none. Where the claim is being deleted
    its instance is on the way out, and its kubelet does not register a second time.
    """
    nodes = operated.all("Node")
    renew_leases(operated, {each["metadata"]["name"] for each in nodes})
    known = {each["spec"].get("providerID") for each in nodes}
    for claim in operated.all("NodeClaim"):
        status = claim.get("status", {})
        is_leaving = claim["metadata"].get("deletionTimestamp")
        if not is_leaving and status.get("providerID") and status["providerID"] not in known:
            _create_node(operated, claim, status)


def _create_node(operated: TestedCluster, claim: dict[str, Any], status: dict[str, Any]) -> None:
    name = f"node-{status['providerID'].rpartition('/')[2]}"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                **claim["metadata"]["labels"],
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {"providerID": status["providerID"], "taints": [UNREGISTERED]},
    }
    operated.apply("Node", node)
    capacity = {"capacity": status["capacity"], "allocatable": status["allocatable"]}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    reply = operated.plane.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        body=json.dumps({"status": {**capacity, "conditions": [ready]}}).encode(),
        content_type="application/merge-patch+json",
    )
    is_gone = reply.status == HTTPStatus.NOT_FOUND  # deleted since, with its claim
    assert reply.status == HTTPStatus.OK or is_gone, reply.message


def renew_leases(operated: TestedCluster, nodes: Collection[str]) -> None:
    """As kubelets do: without it nodes are unreachable after 50 s, too soon for a slow machine."""
    now = time.time()
    fresh = {
        lease["metadata"]["name"]
        for lease in operated.all("NodeLease")
        if (parse_timestamp(lease["spec"].get("renewTime")) or 0.0) > now - LEASE_RENEWAL
    }
    for name in sorted(set(nodes) - fresh):
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": format_microseconds(now),
        }
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        operated.apply("NodeLease", {**lease, "metadata": {"name": name}, "spec": spec})


def bound(operated: TestedCluster) -> int:
    join(operated)
    end_pods(operated)
    return sum(bool(pod["spec"].get("nodeName")) for pod in operated.all("Pod"))


def ended(operated: TestedCluster, emulator: dict[str, Any]) -> bool:
    """Whether the instances are gone with their nodes."""
    end_pods(operated)
    return not instances(emulator) and not operated.names("NodeClaim")


def end_pods(operated: TestedCluster) -> None:
    """As the kubelets do with what is to be deleted."""
    for pod in operated.all("Pod"):
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            operated.plane.request("DELETE", path, query={"gracePeriodSeconds": "0"})


def use_class(operated: TestedCluster, emulator: dict[str, Any]) -> None:
    discovery = [{"tags": emulator["discovery"]}]
    spec = {
        **NODE_CLASS["spec"],
        "role": emulator["role"],
        "subnetSelectorTerms": discovery,
        "securityGroupSelectorTerms": discovery,
    }
    operated.apply("EC2NodeClass", {**NODE_CLASS, "spec": spec})


def test_pods_get_instances_of_ec2_over_http_and_give_them_back(
    operated: TestedCluster, emulator: dict[str, Any], tmp_path: Path
) -> None:
    use_class(operated, emulator)
    operated.apply("Deployment", deployment(8))
    flags = (*RUN, "--interruption-queue", emulator["queue"])
    with RunningOperator(
        operated.plane, tmp_path, *flags, environment=emulator["environment"]
    ) as operator:
        operated.wait_for("8 pods that are bound", lambda: bound(operated) == 8)
        claims, launched = operated.all("NodeClaim"), instances(emulator)
        ids = {each["status"]["providerID"].rpartition("/")[2] for each in claims}
        assert ids == launched.keys(), "every instance has a claim, and every claim one"
        for instance in launched.values():
            tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
            assert tags["karpenter.sh/nodepool"] == "default"
            assert tags["eks:eks-cluster-name"] == "wain"
        operated.apply("Deployment", deployment(0))
        operated.wait_for("the end of all instances", lambda: ended(operated, emulator))
        code, output, seconds = operator.terminate()
        assert (code, output) == (0, b"")
        assert seconds < 10, "a long poll of the queue keeps nobody"


def test_ten_kills_at_random_moments_leak_and_double_nothing(
    operated: TestedCluster, emulator: dict[str, Any], tmp_path: Path
) -> None:
    use_class(operated, emulator)
    flags = (*RUN, "--disable-leader-election")
    chance = random.Random(20)
    for number in range(10):
        with RunningOperator(
            operated.plane, tmp_path, *flags, environment=emulator["environment"]
        ) as operator:
            operated.apply("Deployment", deployment(3 + 3 * (number % 3)))
            play_kubelets(operated, chance.uniform(3.0, 9.0))
            operator.kill()
    with RunningOperator(
        operated.plane, tmp_path, *flags, environment=emulator["environment"]
    ) as operator:
        operated.apply("Deployment", deployment(9))
        with shown_where_it_fails(emulator):
            operated.wait_for("9 pods that are bound", lambda: bound(operated) == 9, seconds=400)
            operated.wait_for(
                "an instance for each claim", lambda: is_one_to_one(operated, emulator), seconds=400
            )


@contextmanager
def shown_where_it_fails(emulator: dict[str, Any]) -> Iterator[None]:
    """The instances, beside what is shown of the cluster."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"instances: {', '.join(sorted(instances(emulator)))}")
        raise


def remove_lost_nodes(operated: TestedCluster, running: Collection[str]) -> None:
    """As the cloud controller manager does: an instance may join while its claim is deleted."""
    for node in operated.all("Node"):
        if node["spec"].get("providerID", "").rpartition("/")[2] not in running:
            operated.delete("Node", node["metadata"]["name"])


def play_kubelets(operated: TestedCluster, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        join(operated)
        end_pods(operated)


def is_one_to_one(operated: TestedCluster, emulator: dict[str, Any]) -> bool:
    join(operated)
    end_pods(operated)
    claims = [each.get("status", {}).get("providerID", "") for each in operated.all("NodeClaim")]
    nodes = [each["spec"].get("providerID", "") for each in operated.all("Node")]
    running = sorted(instances(emulator))
    remove_lost_nodes(operated, running)
    return sorted(each.rpartition("/")[2] for each in claims) == running and (
        sorted(claims) == sorted(nodes)
    )
