"""Validation: problems of the spec, and launches that EC2 would not allow."""

from typing import Any

import pytest
from tests.support.aws_account import (
    ResolverBench,
    condition_message,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
)
from tests.support.aws_provider import ProviderScene, node_claim, run_scene

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.nodeclass.status import VALIDATION_SUCCEEDED, ResolvedNodeClass
from wainwright.clock import VirtualClock
from wainwright.emulator.faults import FaultRule
from wainwright.emulator.settings import EmulatorSettings

DENIED = "You are not authorized to perform this operation. Encoded authorization failure message: "


def resolved(
    wanted: EC2NodeClass | None = None, *faults: FaultRule, **cluster: Any
) -> tuple[ResolvedNodeClass, ResolverBench]:
    async def main(clock: VirtualClock) -> tuple[ResolvedNodeClass, ResolverBench]:
        bench = ResolverBench(clock, settings=EmulatorSettings(faults=faults), **cluster)
        return await bench.resolve(wanted or discovered_node_class()), bench

    return run_in_virtual_time(main)


def denied(operation: str, **more: Any) -> FaultRule:
    return FaultRule(
        operation=operation,
        code="UnauthorizedOperation",
        message=DENIED + "x" * 5000,
        status=403,
        **more,
    )


def test_a_class_that_may_launch_is_ready() -> None:
    found, bench = resolved()
    assert condition_status(found, VALIDATION_SUCCEEDED) == ("True", VALIDATION_SUCCEEDED)
    assert condition_status(found, "Ready") == ("True", "Ready")
    fleet, run = bench.seam.calls_to("CreateFleet"), bench.seam.calls_to("RunInstances")
    assert [params["DryRun"] for params in (*fleet, *run)] == [True, True]
    assert bench.call_api("ec2", "DescribeInstances")["Reservations"] == []


def test_the_dry_run_is_the_launch_request() -> None:
    found, bench = resolved(discovered_node_class(tags={"team": "web"}))
    (template,) = bench.seam.calls_to("CreateLaunchTemplate")
    (fleet,) = bench.seam.calls_to("CreateFleet")
    config = fleet["LaunchTemplateConfigs"][0]
    specification = config["LaunchTemplateSpecification"]
    assert specification["LaunchTemplateName"] == template["LaunchTemplateName"]
    assert config["Overrides"][0]["SubnetId"] == found.subnets[0].id
    assert template["LaunchTemplateData"]["IamInstanceProfile"] == {"Name": found.profile}
    assert {each["ResourceType"] for each in fleet["TagSpecifications"]} == {
        "instance",
        "volume",
        "fleet",
    }
    tags = {pair["Key"]: pair["Value"] for pair in fleet["TagSpecifications"][0]["Tags"]}
    assert tags == {
        "team": "web",
        "kubernetes.io/cluster/wain": "owned",
        "eks:eks-cluster-name": "wain",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/nodepool": "",
    }


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ],
)
def test_a_missing_permission_is_named_in_the_condition(operation: str, reason: str) -> None:
    found, _ = resolved(None, denied(operation))
    assert condition_status(found, VALIDATION_SUCCEEDED) == ("False", reason)
    assert condition_message(found, VALIDATION_SUCCEEDED).startswith(
        f"not allowed to call {operation}: You are not"
    )
    assert len(condition_message(found, VALIDATION_SUCCEEDED)) <= 1000
    assert not found.is_ready


def test_a_denial_is_not_retried_in_other_subnets_but_a_type_not_offered_there_is() -> None:
    _, refused = resolved(None, denied("RunInstances"))
    assert refused.count("RunInstances") == 1
    unsold = FaultRule(operation="RunInstances", code="Unsupported", times=2)
    found, bench = resolved(None, unsold)
    assert bench.count("RunInstances") == 3
    assert found.is_ready


def test_a_permission_given_later_is_noticed_within_a_minute() -> None:
    async def main(clock: VirtualClock) -> list[str]:
        settings = EmulatorSettings(faults=(denied("CreateFleet", end=clock.now() + 90),))
        bench = ResolverBench(clock, settings=settings)
        seen = []
        for _ in range(5):
            seen.append(
                condition_status(
                    await bench.resolve(discovered_node_class()), VALIDATION_SUCCEEDED
                )[0]
            )
            await clock.sleep(30)
        return seen

    assert run_in_virtual_time(main) == ["False", "False", "False", "False", "True"]


def test_a_success_is_cached_for_half_an_hour_unless_something_changes() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        bench = ResolverBench(clock)
        counts = []
        for minute in range(40):
            wanted = (
                discovered_node_class()
                if minute < 38
                else discovered_node_class(userData="echo hello")
            )
            await bench.resolve(wanted)
            counts.append(bench.count("RunInstances"))
            await clock.sleep(60)
        return [counts[0], counts[29], counts[31], counts[37], counts[39]]

    assert run_in_virtual_time(main) == [1, 1, 2, 2, 3]


def test_another_class_of_the_same_name_is_tried_anew() -> None:
    async def main(clock: VirtualClock) -> list[int]:
        bench, counts = ResolverBench(clock), []
        for uid in ("one", "one", "two"):
            await bench.resolve(discovered_node_class(uid=uid))
            counts.append(bench.count("RunInstances"))
        return counts

    assert run_in_virtual_time(main) == [1, 1, 2]


def test_a_propagating_profile_is_waited_for() -> None:
    fault = FaultRule(
        operation="RunInstances",
        code="InvalidParameterValue",
        message="Value (wain) for parameter iamInstanceProfile.name is invalid. "
        "Invalid IAM Instance Profile name",
    )
    found, _ = resolved(None, fault)
    assert condition_status(found, VALIDATION_SUCCEEDED) == (
        "Unknown",
        "InstanceProfilePropagating",
    )
    assert condition_status(found, "Ready") == ("Unknown", "ReconcilingDependents")
    assert found.requeue_after == 60


def test_dry_runs_can_be_switched_off() -> None:
    found, bench = resolved(None, denied("*Fleet"), denied("RunInstances"), dry_runs=False)
    assert found.is_ready
    assert bench.count("CreateFleet") == bench.count("RunInstances") == 0


def test_where_nothing_may_change_no_launch_is_tried_out() -> None:
    found, bench = resolved(None, denied("*Fleet"), read_only=True)
    assert found.is_ready
    called = {name for name, _ in bench.seam.calls}
    assert all(name.startswith(("Describe", "Get", "List")) for name in called)
    wrong, _ = resolved(discovered_node_class(userData="é" * 8193), read_only=True)
    assert condition_status(wrong, VALIDATION_SUCCEEDED) == ("False", "UserDataTooLarge")


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"tags": {"karpenter.sh/nodepool": "x"}}, "TagValidationFailed", "karpenter.sh/nodepool"),
        (
            {"tags": {"kubernetes.io/cluster/other": "owned"}},
            "TagValidationFailed",
            "kubernetes.io/cluster/other",
        ),
        ({"kubelet": {"maxPods": "vcpus * 8"}}, "KubeletValidationFailed", "vcpus * 8"),
        ({"userData": "é" * 8193}, "UserDataTooLarge", "16,386 bytes"),
    ],
)
def test_a_class_that_cannot_work_has_the_reason_in_its_condition(
    spec: dict[str, Any], reason: str, words: str
) -> None:
    found, bench = resolved(discovered_node_class(**spec))
    assert condition_status(found, VALIDATION_SUCCEEDED) == ("False", reason)
    assert words in condition_message(found, VALIDATION_SUCCEEDED)
    assert bench.count("CreateFleet") == 0


def test_no_dry_run_while_another_condition_is_not_true() -> None:
    found, bench = resolved(discovered_node_class(subnetSelectorTerms=[{"id": "subnet-0"}]))
    assert condition_status(found, VALIDATION_SUCCEEDED) == ("False", "DependenciesNotReady")
    assert condition_message(found, VALIDATION_SUCCEEDED) == "waiting for SubnetsReady"
    assert bench.count("CreateLaunchTemplate") == 0


def test_without_the_service_cidr_an_al2023_class_is_not_ready() -> None:
    lost = FaultRule(service="eks", code="AccessDeniedException", status=403)
    found, _ = resolved(None, lost, kubernetes_version="1.33")
    assert condition_status(found, VALIDATION_SUCCEEDED) == ("Unknown", "ClusterCIDRNotFound")
    assert condition_status(found, "AMIsReady")[0] == "True"
    stated, _ = resolved(None, lost, kubernetes_version="1.33", service_cidr="10.100.0.0/16")
    assert (stated.is_ready, stated.cluster_cidr) == (True, "10.100.0.0/16")
    other, _ = resolved(
        discovered_node_class(
            amiFamily="Bottlerocket", amiSelectorTerms=[{"name": "bottlerocket-*"}]
        ),
        lost,
    )
    assert other.is_ready


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(["m5.large", "c5.large"], id="only amd64 is sold"),
        pytest.param(["m6g.large"], id="only arm64 is sold"),
        pytest.param(["c5.xlarge"], id="not the type that is usual"),
    ],
)
def test_a_class_is_ready_whatever_instance_types_are_offered(types: list[str]) -> None:
    async def launched(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim())
        assert found.instance_type in types
        tried = [each for each in scene.seam.calls_to("RunInstances") if each.get("DryRun")]
        assert {each["InstanceType"] for each in tried} <= set(types)
        assert tried

    run_scene(launched, types=types)
