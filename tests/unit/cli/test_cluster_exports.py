"""What kubectl and the AWS command line print is an input as it is."""

import asyncio
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from click.testing import CliRunner, Result

from wainwright.cli.consolidate import DisruptionArguments
from wainwright.cli.main import wain
from wainwright.cli.top import ClusterSource
from wainwright.clock import SystemClock
from wainwright.live_page.cluster_watch import ClusterWatch

Report = dict[str, Any]

RESERVATION = "cr-0123456789abcdef0"
OWNER = "123456789012"
NOW = "2026-01-31T12:00:00Z"


def managed(kind: str, api_version: str, name: str, **fields: Any) -> dict[str, Any]:
    """An object as an API server returns it: with all that it adds."""
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "12345",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:a": {}}}],
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def condition(kind: str) -> dict[str, str]:
    time = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": "True", "reason": kind, "message": "", **time}


NODE_CLASS = managed(
    "EC2NodeClass",
    "karpenter.k8s.aws/v1",
    "default",
    metadata={"finalizers": ["karpenter.k8s.aws/termination"]},
    spec={
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        "capacityReservationSelectorTerms": [{"tags": {"team": "shop"}}],
    },
    status={
        "subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}],
        "capacityReservations": [
            {
                "id": RESERVATION,
                "availabilityZone": "us-west-2a",
                "instanceType": "m5.large",
                "instanceMatchCriteria": "targeted",
                "ownerID": OWNER,
                "reservationType": "default",
                "state": "active",
            }
        ],
        "conditions": [condition("Ready")],
    },
)
NODE_POOL = managed(
    "NodePool",
    "karpenter.sh/v1",
    "web",
    spec={
        "disruption": {
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "100%"}],
        },
        "template": {
            "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [
                    {
                        "key": "karpenter.sh/capacity-type",
                        "operator": "In",
                        "values": ["reserved", "on-demand"],
                    },
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["m5.large"],
                    },
                ],
            }
        },
    },
    status={"nodes": 1, "resources": {"cpu": "2"}, "conditions": [condition("Ready")]},
)
LABELS = {
    "karpenter.sh/nodepool": "web",
    "karpenter.sh/capacity-type": "reserved",
    "karpenter.k8s.aws/capacity-reservation-id": RESERVATION,
    "karpenter.k8s.aws/capacity-reservation-type": "default",
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-west-2a",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "karpenter.sh/initialized": "true",
    "karpenter.sh/registered": "true",
}
NODE = managed(
    "Node",
    "v1",
    "node-1",
    metadata={"labels": {**LABELS, "kubernetes.io/hostname": "node-1"}},
    spec={"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
    status={
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "allocatable": {"cpu": "1900m", "memory": "7Gi", "pods": "29"},
        "conditions": [{**condition("Ready"), "lastHeartbeatTime": "2026-01-31T11:59:00Z"}],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "architecture": "amd64"},
        "images": [{"names": ["a"], "sizeBytes": 5}],
    },
)


SERVICE = managed(
    "Service",
    "v1",
    "web",
    metadata={
        "namespace": "default",
        "annotations": {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
        "finalizers": ["service.k8s.aws/resources"],
    },
    spec={
        "allocateLoadBalancerNodePorts": True,
        "clusterIP": "172.20.0.7",
        "clusterIPs": ["172.20.0.7"],
        "externalTrafficPolicy": "Cluster",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "http", "nodePort": 31234, "port": 80, "protocol": "TCP"}],
        "selector": {"app": "web"},
        "sessionAffinity": "None",
        "type": "LoadBalancer",
    },
    status={"loadBalancer": {"ingress": [{"hostname": "a.elb.amazonaws.com"}]}},
)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "app",
        "env": [{"name": "A", "value": "b"}],
        "resources": {"requests": {"cpu": "1500m"}},
        "terminationMessagePath": "/dev/termination-log",
    }
    running = {"phase": "Running", "hostIP": "10.0.0.1", "qosClass": "Burstable"}
    status = running if "nodeName" in spec else {"phase": "Pending"}
    return managed(
        "Pod",
        "v1",
        name,
        metadata={"namespace": "default"},
        spec={"containers": [container], "serviceAccountName": "default", **spec},
        status=status,
    )


def kubectl_output(folder: Path, pool: Mapping[str, Any] = NODE_POOL) -> str:
    """As `kubectl get … -A -o yaml` prints it."""
    pods = [pod("running", nodeName="node-1"), pod("waiting")]
    items = [NODE, *pods, pool, NODE_CLASS, SERVICE]
    document = {
        "apiVersion": "v1",
        "items": items,
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    folder.mkdir(exist_ok=True)
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


def aws_output(folder: Path, available: int, **changes: Any) -> str:
    """As `aws ec2 describe-capacity-reservations` prints it."""
    reservation = {
        "CapacityReservationId": RESERVATION,
        "OwnerId": OWNER,
        "CapacityReservationArn": f"arn:aws:ec2:us-west-2:{OWNER}:capacity-reservation/a",
        "AvailabilityZoneId": "usw2-az1",
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-west-2a",
        "Tenancy": "default",
        "TotalInstanceCount": 3,
        "AvailableInstanceCount": available,
        "EbsOptimized": True,
        "EphemeralStorage": False,
        "State": "active",
        "StartDate": "2025-12-01T10:00:00+00:00",
        "EndDateType": "unlimited",
        "InstanceMatchCriteria": "targeted",
        "CreateDate": "2025-12-01T10:00:00+00:00",
        "Tags": [{"Key": "team", "Value": "shop"}],
        "CapacityAllocations": [],
        "ReservationType": "default",
        **changes,
    }
    file = folder / "reservations.json"
    file.write_text(json.dumps({"CapacityReservations": [reservation]}, indent=4))
    return str(file)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(wain, [*arguments], standalone_mode=False)
    assert result.exception is None, (result.exception, result.output)
    return result


def plan(*files: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("plan", *files, "--now", NOW, "-o", "json").stdout)
    return found


def simulated(folder: Path, *files: str, **spec: Any) -> dict[str, Any]:
    """The result of ten minutes in which nothing happens but what the controllers do."""
    scenario = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "export"},
        "spec": {"start": "2026-01-10T12:00:00Z", "duration": "10m", "manifests": [*files], **spec},
    }
    file = folder / "scenario" / "scenario.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(yaml.safe_dump(scenario))
    result: dict[str, Any] = json.loads(run("simulate", str(file), "-q", "-o", "json").stdout)
    return result


def capacity_types(planned: dict[str, Any]) -> list[str]:
    return [each["capacityType"] for each in planned["nodeClaims"]]


def test_what_kubectl_prints_is_enough_for_every_command(tmp_path: Path) -> None:
    file = kubectl_output(tmp_path)
    planned = plan(file)
    assert planned["region"]["name"] == "us-west-2"
    assert planned["unschedulable"] == []
    assert "node-1" in run("explain", "node", "node-1", file, "--now", NOW).stdout
    assert "waiting" in run("explain", "pod", "waiting", file, "--now", NOW).stdout
    assert "m5.large" in run("reservations", file, "--now", NOW).stdout
    assert run("consolidate", file, "--now", NOW).return_value in (0, 3)
    assert "all good" in run("validate", file).stdout


def test_it_is_shown_by_top(tmp_path: Path) -> None:
    said = run("top", kubectl_output(tmp_path), "--once", "--now", NOW)
    assert said.return_value == 0
    rows = {line.split()[0] for line in said.stdout.splitlines() if line}
    assert {"node-1", "default/waiting"} <= rows


def test_two_exports_are_compared_by_a_plan(tmp_path: Path) -> None:
    """With the same export nothing changes; a template that is another one drifts its nodes."""
    changed = copy.deepcopy(NODE_POOL)
    changed["spec"]["template"]["spec"]["taints"] = [{"key": "new", "effect": "NoSchedule"}]
    old = kubectl_output(tmp_path / "old")
    compare = ("plan", "--now", NOW, "--diff", old)
    same = run(*compare, kubectl_output(tmp_path / "same"))
    assert (same.return_value, same.stdout) == (0, "nothing changes\n")
    another = json.loads(
        run(*compare, kubectl_output(tmp_path / "new", changed), "-o", "json").stdout
    )
    assert [each["node"] for each in another["drift"]["nodes"]] == ["node-1"]


def test_it_is_watched_by_the_page_of_serve(tmp_path: Path) -> None:
    """What `wain serve FILE` loads, and loads again when the file is another one."""
    arguments = DisruptionArguments(files=(kubectl_output(tmp_path),), now=NOW, quiet=True)
    source = ClusterSource(arguments=arguments)

    async def watched() -> tuple[Report, bool]:
        watch = ClusterWatch(source.load, SystemClock(), interval=3600.0)
        await watch.begin()
        before = watch.stream.last_id
        await watch.look()
        is_quiet = watch.stream.last_id == before
        report = msgspec.json.decode(await watch.report())
        await watch.end()
        return report, is_quiet

    report, is_quiet = asyncio.run(watched())
    history = report["stories"][0]["history"]
    assert [each["name"] for each in history["nodes"]] == ["node-1"]
    assert {each["name"] for each in history["pods"]} == {"default/running", "default/waiting"}
    assert is_quiet, "the same file is the same picture"


def test_the_status_of_a_class_names_reservations_but_promises_none(tmp_path: Path) -> None:
    planned = plan(kubectl_output(tmp_path))
    assert capacity_types(planned) == ["on-demand"]
    [reservation] = planned["summary"]["reservations"]
    assert (reservation["id"], reservation["total"], reservation["available"]) == (
        RESERVATION,
        1,
        0,
    )
    command = "aws ec2 describe-capacity-reservations"
    [warning] = [each for each in planned["warnings"] if command in each]
    assert RESERVATION in warning


def test_what_the_aws_command_line_prints_says_how_much_is_free(tmp_path: Path) -> None:
    cluster = kubectl_output(tmp_path)
    planned = plan(cluster, aws_output(tmp_path, available=2))
    assert capacity_types(planned) == ["reserved"]
    [reservation] = planned["summary"]["reservations"]
    assert (reservation["total"], reservation["available"]) == (3, 2)
    assert not [each for each in planned["warnings"] if "describe-capacity" in each]
    assert capacity_types(plan(cluster, aws_output(tmp_path, available=0))) == ["on-demand"]


def test_it_is_found_in_a_folder_too(tmp_path: Path) -> None:
    kubectl_output(tmp_path)
    aws_output(tmp_path, available=2)
    assert capacity_types(plan(str(tmp_path))) == ["reserved"]


def test_it_goes_before_what_a_cloud_states_of_the_same_reservation(tmp_path: Path) -> None:
    entry = {
        "id": RESERVATION,
        "instanceType": "m5.large",
        "availabilityZone": "us-west-2a",
        "total": 3,
        "available": 0,
        "tags": {"team": "shop"},
    }
    cloud = {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Cloud",
        "metadata": {"name": "stated"},
        "spec": {"region": "us-west-2", "capacityReservations": [entry]},
    }
    (tmp_path / "cloud.json").write_text(json.dumps(cloud))
    files = (kubectl_output(tmp_path), str(tmp_path / "cloud.json"))
    assert capacity_types(plan(*files)) == ["on-demand"]
    assert capacity_types(plan(*files, aws_output(tmp_path, available=2))) == ["reserved"]


def test_a_reservation_that_has_ended_is_not_used(tmp_path: Path) -> None:
    ended = aws_output(tmp_path, 2, EndDate="2026-01-31T11:00:00+00:00", EndDateType="limited")
    assert capacity_types(plan(kubectl_output(tmp_path), ended)) == ["on-demand"]


def test_an_account_without_reservations_is_an_answer_too(tmp_path: Path) -> None:
    file = tmp_path / "reservations.json"
    file.write_text('{"CapacityReservations": []}')
    planned = plan(kubectl_output(tmp_path), str(file))
    assert capacity_types(planned) == ["on-demand"]
    assert planned["summary"]["reservations"] == []


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "reservations.json"
    file.write_text('{"CapacityReservations": [{"CapacityReservationId": "cr-1"}]}')
    result = CliRunner().invoke(wain, ["validate", str(file)], standalone_mode=False)
    assert result.return_value == 2
    assert "instanceType" in result.output


def launched_and_relabelled(result: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The capacity types of launches, and what became another capacity type."""
    timeline = result["timeline"]
    launches = [each["capacityType"] for each in timeline if each["what"] == "launch"]
    labels = [each for each in timeline if each["what"] == "label"]
    key = "karpenter.sh/capacity-type"
    return launches, [each["object"] for each in labels if each["key"] == key]


def test_a_simulation_has_the_reservations_that_ec2_describes(tmp_path: Path) -> None:
    files = kubectl_output(tmp_path), aws_output(tmp_path, available=2)
    result = simulated(tmp_path, *files)
    assert launched_and_relabelled(result) == (["reserved"], [])
    assert not [each for each in result["warnings"] if "reservation" in each]


def test_a_simulation_without_counts_keeps_what_runs_and_says_so(tmp_path: Path) -> None:
    result = simulated(tmp_path, kubectl_output(tmp_path))
    assert launched_and_relabelled(result) == (["on-demand"], [])
    command = "aws ec2 describe-capacity-reservations"
    [warning] = [each for each in result["warnings"] if command in each]
    assert RESERVATION in warning


def test_an_event_of_a_scenario_can_cancel_a_described_reservation(tmp_path: Path) -> None:
    files = kubectl_output(tmp_path), aws_output(tmp_path, available=0)
    cancelled = {"at": "1m", "reservation": {"cancel": RESERVATION}}
    result = simulated(tmp_path, *files, events=[cancelled])
    launches, relabelled = launched_and_relabelled(result)
    assert launches == ["on-demand"], "nothing was free"
    assert "Node/node-1" in relabelled, "its instance runs outside of the reservation"


def test_a_simulation_leaves_out_a_reservation_of_a_zone_that_it_does_not_know(
    tmp_path: Path,
) -> None:
    elsewhere = aws_output(tmp_path, 2, AvailabilityZone="us-west-2-nowhere-1a")
    [warning] = [
        each
        for each in simulated(tmp_path, kubectl_output(tmp_path), elsewhere)["warnings"]
        if RESERVATION in each
    ]
    assert "us-west-2-nowhere-1a" in warning
