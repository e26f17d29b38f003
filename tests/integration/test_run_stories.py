"""`wain run` over longer stretches on a real control plane: many pods with constraints, drift, the
end of a reservation, a drain under a budget, and a leader that is stopped.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.run_manifests import EMULATED, NODE_CLASS, NODE_POOL, ZONE, deployment
from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool, skip_or_fail
from tests.support.running_operator import PATHS, RunningOperator, TestedCluster

RESERVATION = "cr-0a1b2c3d"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
RESERVATION_ID = "karpenter.k8s.aws/capacity-reservation-id"


def test_500_pods_with_constraints_run_on_nodes_of_the_emulated_ec2(
    operated: TestedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spread over zones, apart from each other, and in a reservation first; bound by the real
    kube-scheduler."""
    flags = (*EMULATED, "--cloud", str(cloud_file(tmp_path, total=2)), "--record", str(tmp_path))
    use_reservation(operated)
    parts = {"spread": 440, "apart": 12, "together": 48}
    with RunningOperator(operated.plane, tmp_path, *flags) as operator:
        for name, replicas in parts.items():
            operated.apply("Deployment", constrained(name, replicas))
        operated.wait_for("500 Ready pods", lambda: all_ready(operated, parts), seconds=400)
        # Before the end of the process: on a slow machine consolidation has begun, and evicts pods.
        pods, nodes = operated.all("Pod"), labels_by_node(operated)
        claims = operated.all("NodeClaim")
        assert operator.terminate()[0] == 0
        launched = [each.partition(":")[0] for each in operator.messages() if is_launch(each)]
        as_planned = where_planned(tmp_path, launched, pods, claims)
    by_app: dict[str, list[str]] = {name: [] for name in parts}
    for pod in pods:
        by_app[pod["metadata"]["labels"]["app"]].append(pod["spec"]["nodeName"])
    zones = Counter(nodes[node][ZONE] for node in by_app["spread"])
    assert sorted(zones.values()) == [110, 110, 110, 110]
    assert len(set(by_app["apart"])) == len(by_app["apart"])
    assert len({nodes[node][ZONE] for node in by_app["together"]}) == 1
    reserved = [each for each in nodes.values() if each.get(RESERVATION_ID) == RESERVATION]
    assert len(reserved) == 2, "what is reserved is used first"
    with capsys.disabled():
        sys.stdout.write(
            f"\n500 of 500 pods are Ready on {len(nodes)} nodes, bound by the kube-scheduler; "
            f"{as_planned} of them run where the plan had put them\n"
        )
    assert as_planned > 250, "plans and kube-scheduler have little to do with each other"


def labels_by_node(operated: TestedCluster) -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each["metadata"]["labels"] for each in operated.all("Node")}


def where_planned(
    folder: Path, launched: list[str], pods: list[dict[str, Any]], there: list[dict[str, Any]]
) -> int:
    """How many pods are on a node that was planned for as many replicas of their workload; which
    of equal replicas is where means nothing.
    """
    plans = sorted(folder.glob("*-provision-*/output.json"), key=decision_number)
    claims = [claim for each in plans for claim in json.loads(each.read_bytes())["nodeClaims"]]
    assert len(claims) == len(launched)
    nodes = {each["metadata"]["name"]: each["status"].get("nodeName") for each in there}
    actual = Counter(
        (workload_of(pod["metadata"]["name"]), pod["spec"]["nodeName"]) for pod in pods
    )
    planned = Counter(
        (workload_of(pod.partition("/")[2]), nodes.get(name))
        for claim, name in zip(claims, launched, strict=True)
        for pod in claim["pods"]
    )
    return (actual & planned).total()


def decision_number(file: Path) -> int:
    return int(file.parent.name.rpartition("-")[2])


def workload_of(pod: str) -> str:
    return pod.partition("-")[0]


def all_ready(operated: TestedCluster, parts: dict[str, int]) -> bool:
    return all(len(operated.ready_pods(name)) == count for name, count in parts.items())


def constrained(name: str, replicas: int) -> dict[str, Any]:
    document = deployment(replicas)
    document["metadata"]["name"] = name
    labels = {"app": name}
    document["spec"]["selector"]["matchLabels"] = labels
    document["spec"]["template"]["metadata"]["labels"] = labels
    spec = document["spec"]["template"]["spec"]
    [spread] = spec.pop("topologySpreadConstraints")
    spec["containers"][0]["resources"]["requests"] = {"cpu": "100m", "memory": "128Mi"}
    selector = {"labelSelector": {"matchLabels": labels}}
    if name == "spread":
        # The kube-scheduler only counts zones that have a node. Without minDomains it may bind as
        # many pods to the first node as fit there before the nodes of other zones join.
        spec["topologySpreadConstraints"] = [{**spread, **selector, "minDomains": 4}]
    elif name == "apart":
        term = {**selector, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    else:
        term = {**selector, "topologyKey": ZONE}
        spec["affinity"] = {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    return document


# Reservations


def reservation(total: int, **more: str) -> dict[str, Any]:
    where = {"instanceType": "m5.large", "availabilityZone": "us-west-2a"}
    return {"id": RESERVATION, **where, "total": total, **more}


def cloud_file(folder: Path, *, total: int) -> Path:
    spec = {"region": "us-west-2", "capacityReservations": [reservation(total)]}
    cloud = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud", "spec": spec}
    file = folder / "cloud.yaml"
    file.write_text(yaml.safe_dump(cloud))
    return file


def use_reservation(operated: TestedCluster) -> None:
    terms = {"capacityReservationSelectorTerms": [{"id": RESERVATION}]}
    operated.apply("EC2NodeClass", {**NODE_CLASS, "spec": {**NODE_CLASS["spec"], **terms}})
    operated.apply("NodePool", pool(capacity_types=["reserved", "on-demand"]))


def pool(capacity_types: list[str], **template: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(NODE_POOL))
    requirements = document["spec"]["template"]["spec"]["requirements"]
    next(each for each in requirements if each["key"] == CAPACITY_TYPE)["values"] = capacity_types
    document["spec"]["template"] |= template
    return document


def test_a_reservation_that_has_ended_relabels_its_node_and_replaces_nothing(
    operated: TestedCluster, tmp_path: Path
) -> None:
    """The reservation is ended in the emulated account, by its HTTP endpoint."""
    use_reservation(operated)
    flags = (*EMULATED, "--cloud", str(cloud_file(tmp_path, total=1)), "--emulator-port", "0")
    with RunningOperator(operated.plane, tmp_path, *flags) as operator:
        operated.apply("Deployment", deployment(1))
        operated.wait_for("a Ready pod", lambda: len(operated.ready_pods("web")) == 1)
        [claim] = operated.all("NodeClaim")
        assert claim["metadata"]["labels"][CAPACITY_TYPE] == "reserved"
        served = [re.search(r"served on (\S+)", each) for each in operator.messages()]
        endpoint = next(found[1] for found in served if found)
        end = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"capacityReservations": [reservation(1, endTime=end)]}
        command = [str(Path(sys.executable).parent / "wain"), "emulator", "set", "-"]
        subprocess.run(
            [*command, "--endpoint", endpoint], input=json.dumps(patch), text=True, check=True
        )
        operated.wait_for("the new label", lambda: labels_of(operated, claim) == "on-demand")
        [node] = operated.all("Node")
        assert node["metadata"]["labels"][CAPACITY_TYPE] == "on-demand"
        assert RESERVATION_ID not in node["metadata"]["labels"]
        [after] = operated.all("NodeClaim")
        assert after["metadata"]["uid"] == claim["metadata"]["uid"]
        conditions = {each["type"]: each["status"] for each in after["status"]["conditions"]}
        assert conditions.get("Drifted") != "True"


def labels_of(operated: TestedCluster, claim: dict[str, Any]) -> str | None:
    for kind, name in (("NodeClaim", claim["metadata"]["name"]), ("Node", None)):
        found = [e for e in operated.all(kind) if name in (None, e["metadata"]["name"])]
        values = {each["metadata"]["labels"][CAPACITY_TYPE] for each in found}
        if values != {"on-demand"}:
            return None
    return "on-demand"


# Drift


def test_a_changed_pool_rolls_its_nodes_under_its_budget(
    operated: TestedCluster, tmp_path: Path
) -> None:
    document = constrained("apart", 3)  # a node for each pod
    operated.apply("NodePool", with_budget(pool(["on-demand"]), "1"))
    with RunningOperator(operated.plane, tmp_path, *EMULATED):
        operated.apply("Deployment", document)
        operated.wait_for("3 pods", lambda: len(operated.ready_pods("apart")) == 3)
        before = operated.names("NodeClaim")
        changed = pool(["on-demand"], metadata={"labels": {"team": "checkout"}})
        operated.apply("NodePool", with_budget(changed, "1"))
        most = 0

        def is_rolled() -> bool:
            nonlocal most
            going = [each for each in operated.all("NodeClaim") if is_going(each)]
            most = max(most, len(going))
            labels = [each["metadata"]["labels"] for each in operated.all("Node")]
            is_new = len(labels) == 3 and all(each.get("team") == "checkout" for each in labels)
            is_new = is_new and not before & operated.names("NodeClaim")
            return is_new and len(operated.ready_pods("apart")) == 3

        operated.wait_for("three new nodes", is_rolled, seconds=400)
        assert most == 1, "the budget"


def with_budget(document: dict[str, Any], nodes: str) -> dict[str, Any]:
    document["spec"]["disruption"]["budgets"] = [{"nodes": nodes}]
    return document


def is_going(claim: dict[str, Any]) -> bool:
    """Whether a command takes it."""
    conditions = claim.get("status", {}).get("conditions", ())
    return any(
        each["type"] == "DisruptionReason" and each["status"] == "True" for each in conditions
    )


# Draining


def test_a_drain_never_breaks_a_disruption_budget(operated: TestedCluster, tmp_path: Path) -> None:
    """Three pods on one node that is deleted, and two of them must be available: each eviction but
    the first has to wait for a pod that runs elsewhere.
    """
    document = deployment(3)
    del document["spec"]["template"]["spec"]["topologySpreadConstraints"]
    operated.apply("PodDisruptionBudget", at_least_available(2))
    with RunningOperator(operated.plane, tmp_path, *EMULATED):
        operated.apply("Deployment", document)
        operated.wait_for("3 pods", lambda: len(available_pods(operated)) == 3)
        [claim] = operated.names("NodeClaim")
        before = set(available_pods(operated))
        operated.wait_for("the status of the budget", lambda: allowed_disruptions(operated) == 1)
        operated.delete("NodeClaim", claim)
        least = 3

        def is_drained() -> bool:
            nonlocal least
            available = available_pods(operated)
            least = min(least, len(available))
            is_moved = len(available) == 3 and not before & set(available)
            return is_moved and claim not in operated.names("NodeClaim")

        operated.wait_for("three pods elsewhere", is_drained)
        assert least == 2, "one at a time"


def at_least_available(pods: int) -> dict[str, Any]:
    spec = {"minAvailable": pods, "selector": {"matchLabels": {"app": "web"}}}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return {**kind, "metadata": {"name": "web"}, "spec": spec}


def available_pods(operated: TestedCluster) -> list[str]:
    """Those that a budget counts, by uid."""
    metadata = [each["metadata"] for each in operated.ready_pods("web")]
    return [each["uid"] for each in metadata if "deletionTimestamp" not in each]


def allowed_disruptions(operated: TestedCluster) -> int:
    [budget] = operated.all("PodDisruptionBudget")
    return int(budget.get("status", {}).get("disruptionsAllowed", 0))


def test_a_storm_of_conflicting_writes_holds_nothing_up(
    operated: TestedCluster, tmp_path: Path
) -> None:
    """Somebody writes onto every object all the time, so that every version is an old one."""
    stop, client = threading.Event(), operated.plane.new_client()
    writes = 0

    def write() -> None:
        nonlocal writes
        while not stop.is_set():
            for kind in ("NodeClaim", "Node", "NodePool", "EC2NodeClass"):
                for each in json.loads(client.request("GET", PATHS[kind]).body)["items"]:
                    writes += 1
                    patch = {"metadata": {"annotations": {"tests/number": str(writes)}}}
                    client.request(
                        "PATCH",
                        f"{PATHS[kind]}/{each['metadata']['name']}",
                        body=json.dumps(patch).encode(),
                        content_type="application/merge-patch+json",
                    )

    storm = threading.Thread(target=write)
    storm.start()
    try:
        with RunningOperator(operated.plane, tmp_path, *EMULATED):
            operated.apply("Deployment", deployment(6))
            operated.wait_for("6 pods", lambda: len(operated.ready_pods("web")) == 6)
            assert writes > 100
            claims = operated.all("NodeClaim")
            ids = {each["status"]["providerID"] for each in claims}
            assert len(ids) == len(claims) == len(operated.names("Node"))
            operated.apply("Deployment", deployment(0))
            operated.wait_for("the end of all claims", lambda: not operated.names("NodeClaim"))
            assert not operated.names("Node")
    finally:
        stop.set()
        storm.join()
        client.close()


def test_kubectl_shows_columns_of_nodes_and_claims(operated: TestedCluster, tmp_path: Path) -> None:
    try:
        kubectl = kubectl_command()
    except MissingTool as missing:
        skip_or_fail(str(missing))
    with RunningOperator(operated.plane, tmp_path, *EMULATED):
        operated.apply("Deployment", deployment(1))
        operated.wait_for("a Ready pod", lambda: len(operated.ready_pods("web")) == 1)

        def shown(*kinds: str) -> list[list[str]]:
            command = [str(kubectl), "get", ",".join(kinds)]
            environment = {**os.environ, "KUBECONFIG": str(operated.plane.kubeconfig)}
            done = subprocess.run(command, check=True, capture_output=True, env=environment)
            return [line.split() for line in done.stdout.decode().splitlines()]

        operated.wait_for("a Ready claim", lambda: "True" in shown("nodeclaims")[1])
        heading, row = shown("nodeclaims")
        assert heading == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
        assert row[1:4] == [
            "m5.large",
            "on-demand",
            operated.all("Node")[0]["metadata"]["labels"][ZONE],
        ]
        heading, row = shown("nodepools")
        assert heading == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]
        assert row[:2] == ["default", "default"]
        assert row[3] == "True"
        heading, row = shown("ec2nodeclasses")
        assert row[0] == "default"
        assert "True" in row


def test_a_stopped_leader_is_followed_and_its_successor_goes_on(
    operated: TestedCluster, tmp_path: Path
) -> None:
    with (
        RunningOperator(operated.plane, tmp_path, *EMULATED) as first,
        RunningOperator(operated.plane, tmp_path, *EMULATED) as second,
    ):
        operated.apply("Deployment", deployment(3))
        operated.wait_for("3 pods", lambda: len(operated.ready_pods("web")) == 3)
        leader, other = (first, second) if has_launched(first) else (second, first)
        claims = operated.names("NodeClaim")
        os.kill(leader.pid, signal.SIGSTOP)
        operated.apply("Deployment", deployment(12))
        operated.wait_for("launches of the successor", lambda: has_launched(other))
        operated.wait_for("12 pods", lambda: len(operated.ready_pods("web")) == 12)
        os.kill(leader.pid, signal.SIGCONT)
        launched = len(operated.names("NodeClaim"))
        operated.wait_for("readiness", lambda: leader.is_ready)
        assert claims <= operated.names("NodeClaim"), "the instances were rebuilt, none replaced"
        assert len(operated.names("NodeClaim")) == launched, "nothing was launched twice"


def has_launched(operator: RunningOperator) -> bool:
    return any(map(is_launch, operator.messages()))


def is_launch(message: str) -> bool:
    return re.match(r"default-\w+: ", message) is not None
