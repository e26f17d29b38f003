"""`wain run --provider aws` with botocore against `wain emulator` over HTTP: the same controllers
by another path, in processes of their own, on a real API server. The test plays the kubelets.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import botocore.session
import pytest
from tests.integration.run_manifests import NODE_CLASS, deployment
from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool, skip_or_fail
from tests.support.running_operator import RunningOperator, TestedCluster, is_ready

from wainwright.aws.instances import BATCH_TAG
from wainwright.clock import format_microseconds, format_timestamp
from wainwright.translate.nodeclaims import LAUNCH_RECORD_ANNOTATION, parse_launch_record
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
    """Those that run or are about to, by id."""
    running = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    return described(emulator, Filters=[running])


def described(emulator: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Instances by id; terminated ones are described for an hour."""
    client = botocore.session.get_session().create_client(
        "ec2",
        region_name=emulator["region"],
        endpoint_url=emulator["endpoint"],
        aws_access_key_id="wain",
        aws_secret_access_key="wain",
    )
    reply = client.describe_instances(**request)
    found = [each for part in reply["Reservations"] for each in part["Instances"]]
    return {each["InstanceId"]: each for each in found}


def join(operated: TestedCluster) -> None:
    """Makes a Ready Node of every launched claim that has none. Where the claim is being deleted
    its instance is on the way out, and its kubelet does not register a second time.
    """
    nodes = operated.all("Node")
    renew_leases(operated, {each["metadata"]["name"] for each in nodes})
    for each in nodes:
        if not is_ready(each):
            _report_ready(operated, each["metadata"]["name"])
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
    _report_ready(operated, name, **capacity)


def _report_ready(operated: TestedCluster, name: str, **status: Any) -> None:
    """With a heartbeat, as kubelets do: the node lifecycle controller remembers nodes by name, and
    takes one without a newer heartbeat for the node of that name that an earlier test had.
    """
    now = format_timestamp(time.time())
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", **times}
    reply = operated.plane.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        body=json.dumps({"status": {**status, "conditions": [ready]}}).encode(),
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
    log = LaunchRecords(operated, tmp_path / "claims.txt")
    with log, shown_where_it_fails(emulator):
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
            operated.wait_for("9 pods that are bound", lambda: bound(operated) == 9, seconds=400)
            operated.wait_for(
                "an instance for each claim", lambda: is_one_to_one(operated, emulator), seconds=400
            )
        operated.wait_for("all launch records", lambda: log.has_all(operated))
        without_claim = instances_without_claim(described(emulator), log.claims_by_batch())
        assert not without_claim, "launched a second time, and collected since"


class LaunchRecords:
    """What NodeClaims have said, at any time, of the batch that they are launched in. A watch sees
    also those that are gone before anybody lists them.
    """

    def __init__(self, operated: TestedCluster, file: Path) -> None:
        self._file, self._kubeconfig = file, operated.plane.kubeconfig

    def __enter__(self) -> Self:
        try:
            kubectl = kubectl_command()
        except MissingTool as missing:
            skip_or_fail(str(missing))
        record = LAUNCH_RECORD_ANNOTATION.replace(".", r"\.")
        shown = rf'{{.metadata.uid}} {{.metadata.annotations.{record}}}{{"\n"}}'
        command = [str(kubectl), "get", "nodeclaims", "--watch", f"--output=jsonpath={shown}"]
        with self._file.open("wb") as output:
            self._watch = subprocess.Popen(
                command, stdout=output, env={**os.environ, "KUBECONFIG": str(self._kubeconfig)}
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.kill()
        self._watch.wait()

    def claims_by_batch(self) -> dict[str, set[str]]:
        """The uids of the claims of each batch."""
        found: dict[str, set[str]] = {}
        for line in self._file.read_text("utf-8").splitlines():
            uid, _, text = line.partition(" ")
            record = parse_launch_record(text)
            if record is not None:
                found.setdefault(record.batch, set()).add(uid)
        return found

    def has_all(self, operated: TestedCluster) -> bool:
        """Whether it has those of the claims that are there now: it is a moment late."""
        assert self._watch.poll() is None, "the watch has ended"
        known = {uid for each in self.claims_by_batch().values() for uid in each}
        claims = operated.all("NodeClaim")
        return known >= {
            each["metadata"]["uid"] for each in claims if each.get("status", {}).get("providerID")
        }


def instances_without_claim(
    launched: dict[str, Any], claims_by_batch: dict[str, set[str]]
) -> list[str]:
    """Those left over when every claim gets at most one instance of the batches that it was in."""
    owners: dict[str, str] = {}

    def give(instance: str, tried: set[str]) -> bool:
        tags = {each["Key"]: each["Value"] for each in launched[instance].get("Tags", ())}
        for claim in claims_by_batch.get(tags[BATCH_TAG], set()) - tried:
            tried.add(claim)
            if claim not in owners or give(owners[claim], tried):
                owners[claim] = instance
                return True
        return False

    return [instance for instance in sorted(launched) if not give(instance, set())]


def test_an_instance_that_no_claim_is_left_for_is_found() -> None:
    def tagged(batch: str) -> dict[str, Any]:
        return {"Tags": [{"Key": BATCH_TAG, "Value": batch}]}

    launched = {"i-1": tagged("a"), "i-2": tagged("b"), "i-3": tagged("b")}
    assert instances_without_claim(launched, {"a": {"x"}, "b": {"x", "y"}}) == ["i-3"]
    assert instances_without_claim(launched, {"a": {"x", "z"}, "b": {"x", "y"}}) == []


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
