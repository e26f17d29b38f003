"""Resolving: conditions over time, transient errors, faults, and the deletion of a class."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.aws_account import (
    ROLE,
    MinimalDryRunTemplates,
    ResolverBench,
    condition_message,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
    with_status,
)

from wainwright.aws.api.middleware import with_middleware
from wainwright.aws.api.services import AwsServices
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
from wainwright.aws.nodeclass.resolver import (
    AwaitingClaims,
    Finalized,
    NodeClassFinalizer,
    NodeClassResolver,
)
from wainwright.aws.nodeclass.status import (
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    PLACEMENT_GROUP_READY,
    READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    VALIDATION_SUCCEEDED,
    ResolvedNodeClass,
    to_status,
)
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.faults import FaultRule, FaultTiming
from wainwright.emulator.settings import EmulatorSettings
from wainwright.metrics import MetricsRegistry

TERMS = [{"tags": {"team": "*"}}]
EVERY = {
    AMIS_READY,
    SUBNETS_READY,
    SECURITY_GROUPS_READY,
    INSTANCE_PROFILE_READY,
    CAPACITY_RESERVATIONS_READY,
    PLACEMENT_GROUP_READY,
    VALIDATION_SUCCEEDED,
    READY,
}


def fails(operation: str, code: str = "InternalError", status: int = 500) -> dict[str, Any]:
    return {"faults": [{"operation": operation, "code": code, "status": status}]}


def test_every_condition_is_there_with_its_generation() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        return await ResolverBench(clock).resolve(discovered_node_class(generation=7))

    found = run_in_virtual_time(main)
    assert {each.type for each in found.conditions} == EVERY
    assert {each.observedGeneration for each in found.conditions} == {7}
    assert all(each.status == "True" for each in found.conditions)
    assert found.cluster_cidr
    assert set(found.zones) == {each.zone for each in found.subnets}


def test_the_status_has_the_shape_of_the_api() -> None:
    async def main(clock: VirtualClock) -> tuple[ResolvedNodeClass, str]:
        bench = ResolverBench(clock)
        return await bench.resolve(discovered_node_class()), bench.cloud.account.security_group

    found, group = run_in_virtual_time(main)
    shown = to_status(found)
    assert [each.id for each in shown.securityGroups or []] == [group]
    assert [each.id for each in shown.subnets or []] == [each.id for each in found.subnets]
    assert shown.instanceProfile == found.profile
    assert shown.capacityReservations is None
    architectures = [
        (each.key, each.operator, each.values)
        for image in shown.amis or []
        for each in image.requirements
        if each.key == "kubernetes.io/arch"
    ]
    assert {tuple(values or ()) for _, _, values in architectures} == {("amd64",), ("arm64",)}
    assert shown.conditions == list(found.conditions)


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, str]]:
        bench, wanted = ResolverBench(clock), discovered_node_class()
        seen = []
        patches: list[dict[str, Any]] = [
            {"faults": []},
            fails("DescribeSubnets", "UnauthorizedOperation", 403),
            {"faults": []},
        ]
        for patch in patches:
            bench.cloud.change(patch)
            for _ in range(2):
                found = await bench.resolve(wanted)
                wanted = with_status(wanted, found)
                seen += [
                    (each.status, each.lastTransitionTime[11:])
                    for each in found.conditions
                    if each.type == SUBNETS_READY
                ]
                await clock.sleep(60)
        return seen

    assert run_in_virtual_time(main) == [
        ("True", "00:00:00Z"),
        ("True", "00:00:00Z"),
        ("False", "00:02:00Z"),
        ("False", "00:02:00Z"),
        ("True", "00:04:00Z"),
        ("True", "00:04:00Z"),
    ]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("DescribeSubnets", SUBNETS_READY),
        ("DescribeSecurityGroups", SECURITY_GROUPS_READY),
        ("DescribeImages", AMIS_READY),
        ("GetParameter", AMIS_READY),
        ("DescribeCapacityReservations", CAPACITY_RESERVATIONS_READY),
        ("GetInstanceProfile", INSTANCE_PROFILE_READY),
    ],
)
def test_the_last_result_stays_while_aws_cannot_be_reached(operation: str, kind: str) -> None:
    async def main(
        clock: VirtualClock,
    ) -> tuple[ResolvedNodeClass, ResolvedNodeClass, ResolvedNodeClass]:
        wanted = discovered_node_class(capacityReservationSelectorTerms=TERMS)
        bench, fresh = ResolverBench(clock), ResolverBench(clock)
        before = await bench.resolve(wanted)
        for each in (bench, fresh):
            each.cloud.change(fails(operation))
        await clock.sleep(25 * 3600)
        return before, await bench.resolve(wanted), await fresh.resolve(wanted)

    before, after, fresh = run_in_virtual_time(main)
    assert after.is_ready
    assert (before.outdated, after.outdated) == (False, True)
    assert (after.subnets, after.images, after.profile) == (
        before.subnets,
        before.images,
        before.profile,
    )
    assert condition_status(fresh, kind) == ("Unknown", "CloudUnavailable")
    assert condition_status(fresh, READY)[0] == "Unknown"


def test_the_last_result_is_not_used_for_other_terms() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        bench.cloud.change(fails("DescribeSubnets"))
        changed = discovered_node_class(
            subnetSelectorTerms=[{"tags": {"team": "web"}}], generation=2
        )
        return await bench.resolve(changed)

    found = run_in_virtual_time(main)
    assert found.subnets == ()
    assert condition_status(found, SUBNETS_READY) == ("Unknown", "CloudUnavailable")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("DescribeSubnets", SUBNETS_READY),
        ("DescribeImages", AMIS_READY),
        ("DescribeCapacityReservations", CAPACITY_RESERVATIONS_READY),
    ],
)
def test_a_rejected_call_is_reported_and_clears_the_result(operation: str, kind: str) -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench, wanted = (
            ResolverBench(clock),
            discovered_node_class(capacityReservationSelectorTerms=TERMS),
        )
        await bench.resolve(wanted)
        bench.cloud.change(fails(operation, "UnauthorizedOperation", 403))
        await clock.sleep(400)
        return await bench.resolve(wanted)

    found = run_in_virtual_time(main)
    assert condition_status(found, kind) == ("False", "NotAuthorized")
    assert "UnauthorizedOperation" in condition_message(found, kind)
    assert condition_message(found, READY) == f"{kind}=False, {VALIDATION_SUCCEEDED}=False"


def test_a_transient_error_of_a_dry_run_does_not_make_a_class_unready() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        await clock.sleep(1900)
        bench.cloud.change(fails("CreateFleet", "RequestLimitExceeded", 503))
        return await bench.resolve(discovered_node_class())

    assert run_in_virtual_time(main).is_ready


def test_the_results_of_a_deleted_class_are_dropped() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        bench.resolver.forget(discovered_node_class())
        bench.cloud.change(fails("DescribeSubnets"))
        await clock.sleep(120)
        return await bench.resolve(discovered_node_class())

    assert condition_status(run_in_virtual_time(main), SUBNETS_READY)[0] == "Unknown"


def test_a_placement_group_is_found_by_name_and_by_id() -> None:
    async def main(clock: VirtualClock) -> list[tuple[str, str]]:
        bench = ResolverBench(clock)
        made = bench.call_api(
            "ec2", "CreatePlacementGroup", GroupName="rack", Strategy="partition", PartitionCount=3
        )["PlacementGroup"]
        seen = []
        for selector in ({"name": "rack"}, {"id": made["GroupId"]}, {"name": "none"}):
            found = await bench.resolve(discovered_node_class(placementGroupSelector=selector))
            group = found.placement_group
            seen.append(
                (
                    condition_status(found, PLACEMENT_GROUP_READY)[0],
                    "" if group is None else group.name,
                )
            )
            if group is not None:
                assert (group.strategy, group.partitions) == ("partition", 3)
        return seen

    assert run_in_virtual_time(main) == [("True", "rack"), ("True", "rack"), ("False", "")]


def test_an_existing_placement_group_is_described_once_a_day() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = ResolverBench(clock)
        bench.call_api("ec2", "CreatePlacementGroup", GroupName="rack", Strategy="cluster")
        wanted = discovered_node_class(placementGroupSelector={"name": "rack"})
        for _ in range(5):
            await bench.resolve(wanted)
            await clock.sleep(3600)
        there = bench.count("DescribePlacementGroups")
        for _ in range(3):
            await bench.resolve(discovered_node_class(placementGroupSelector={"name": "none"}))
            await clock.sleep(61)
        return there, bench.count("DescribePlacementGroups") - there

    assert run_in_virtual_time(main) == (1, 3)


def test_a_minute_without_changes_costs_few_calls() -> None:
    """One class, everything cached: only subnets are described every minute."""

    async def main(clock: VirtualClock) -> list[str]:
        bench = ResolverBench(clock, settings=EmulatorSettings(latency=0.05))
        await bench.resolve(discovered_node_class())
        await clock.sleep(61)
        before = len(bench.seam.calls)
        await bench.resolve(discovered_node_class())
        return [operation for operation, _ in bench.seam.calls[before:]]

    assert run_in_virtual_time(main) == ["DescribeSubnets"]


ANSWERS = (("RequestLimitExceeded", 503), ("InternalError", 500), ("ConnectionClosed", 0))

faults = st.builds(
    lambda answer, probability, when: FaultRule(
        code=answer[0],
        status=0 if when is FaultTiming.AFTER else answer[1],
        probability=probability,
        when=when,
        end=EPOCH + 600,
    ),
    st.sampled_from(ANSWERS),
    st.floats(min_value=0.05, max_value=0.6),
    st.sampled_from(FaultTiming),
)


@settings(max_examples=25)
@given(st.lists(faults, max_size=3), st.integers(0, 1000))
def test_after_faults_end_the_class_becomes_ready(rules: list[FaultRule], seed: int) -> None:
    async def main(clock: VirtualClock) -> tuple[ResolvedNodeClass, ResolverBench]:
        bench = ResolverBench(clock, settings=EmulatorSettings(faults=tuple(rules)))
        account = AwsServices(with_middleware(bench.seam, clock, Random(seed), MetricsRegistry()))
        dry_run_templates = MinimalDryRunTemplates(
            LaunchTemplateProvider(account.ec2, clock), bench.cluster
        )
        resolver = NodeClassResolver(
            account, bench.cluster, clock, ReservationAvailability(clock), dry_run_templates
        )
        for _ in range(12):
            found = await resolver.resolve(discovered_node_class())
            await clock.sleep(found.requeue_after)
            if clock.now() > EPOCH + 700:
                break
        return await resolver.resolve(discovered_node_class()), bench

    found, bench = run_in_virtual_time(main)
    assert found.is_ready, found.conditions
    profiles = bench.call_api("iam", "ListInstanceProfiles")["InstanceProfiles"]
    assert [row["InstanceProfileName"] for row in profiles] == [found.profile]
    assert [role["RoleName"] for role in profiles[0]["Roles"]] == [ROLE]
    assert len(bench.call_api("ec2", "DescribeLaunchTemplates")["LaunchTemplates"]) == 1
    assert bench.call_api("ec2", "DescribeInstances")["Reservations"] == []


def deletion(bench: ResolverBench) -> NodeClassFinalizer:
    return NodeClassFinalizer(bench.templates, bench.resolver.profiles, bench.cluster)


def left(bench: ResolverBench) -> tuple[int, int]:
    templates = bench.call_api("ec2", "DescribeLaunchTemplates")["LaunchTemplates"]
    return len(templates), len(bench.call_api("iam", "ListInstanceProfiles")["InstanceProfiles"])


def test_a_class_stays_while_a_claim_uses_it() -> None:
    async def main(clock: VirtualClock) -> tuple[AwaitingClaims | Finalized, tuple[int, int]]:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        return await deletion(bench).finalize(discovered_node_class(), ["b", "a"]), left(bench)

    found, remaining = run_in_virtual_time(main)
    assert found == AwaitingClaims(claims=("a", "b"))
    assert str(found) == "waiting for the NodeClaims a, b to terminate"
    assert remaining == (1, 1)


def test_many_claims_are_not_all_named() -> None:
    waiting = AwaitingClaims(claims=tuple("abcdefgh"))
    assert str(waiting) == "waiting for the NodeClaims a, b, c, d, e and 3 more to terminate"
    few = AwaitingClaims(claims=tuple("abcde"))
    assert str(few) == "waiting for the NodeClaims a, b, c, d, e to terminate"


def test_finalizing_deletes_what_was_created_and_can_be_repeated() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock)
        mine = await bench.resolve(discovered_node_class("mine"))
        await bench.resolve(discovered_node_class("other"))
        assert left(bench) == (2, 2)
        found = await deletion(bench).finalize(discovered_node_class("mine"), [])
        assert isinstance(found, Finalized)
        assert (len(found.templates), found.profiles) == (1, (mine.profile,))
        assert left(bench) == (1, 1)
        assert await deletion(bench).finalize(discovered_node_class("mine"), []) == Finalized(
            templates=(), profiles=()
        )

    run_in_virtual_time(main)


def test_finalizing_ignores_resources_that_are_already_gone() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = ResolverBench(clock)
        name = (await bench.resolve(discovered_node_class())).profile
        role = discovered_node_class().spec.role
        bench.call_api(
            "iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role
        )
        await deletion(bench).finalize(discovered_node_class(), [])
        return left(bench)

    assert run_in_virtual_time(main) == (0, 0)
