"""Instance profiles: created, corrected, garbage collected, and never touched if not ours."""

from typing import Any

import pytest
from tests.support.aws_account import (
    ROLE,
    ResolverBench,
    ScriptedApi,
    condition_message,
    condition_status,
    discovered_node_class,
    run_in_virtual_time,
)

from wainwright.aws.api.services import AwsResponse, Iam
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.nodeclass.instance_profile import InstanceProfileProvider
from wainwright.aws.nodeclass.status import INSTANCE_PROFILE_READY, ResolvedNodeClass
from wainwright.clock import VirtualClock
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

TRUST = "{}"
HOUR = 3600.0


def profiles(bench: ResolverBench) -> dict[str, list[str]]:
    """All profiles of the account with their roles."""
    rows = bench.call_api("iam", "ListInstanceProfiles")["InstanceProfiles"]
    return {row["InstanceProfileName"]: [role["RoleName"] for role in row["Roles"]] for row in rows}


def another_role(bench: ResolverBench, name: str = "other") -> str:
    bench.call_api("iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=TRUST)
    return name


def test_a_class_with_a_role_gets_a_profile_of_its_own() -> None:
    async def main(clock: VirtualClock) -> tuple[ResolvedNodeClass, dict[str, Any]]:
        bench = ResolverBench(clock)
        found = await bench.resolve(discovered_node_class(tags={"team": "web"}))
        answer = bench.call_api("iam", "GetInstanceProfile", InstanceProfileName=found.profile)
        return found, answer["InstanceProfile"]

    found, made = run_in_virtual_time(main)
    assert condition_status(found, INSTANCE_PROFILE_READY)[0] == "True"
    assert found.profile.startswith("wain_")
    assert made["Path"] == "/karpenter/us-east-1/wain/uid-default/"
    assert [role["RoleName"] for role in made["Roles"]] == [ROLE]
    assert {pair["Key"]: pair["Value"] for pair in made["Tags"]} == {
        "eks:eks-cluster-name": "wain",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "kubernetes.io/cluster/wain": "owned",
        "team": "web",
        "topology.kubernetes.io/region": "us-east-1",
    }


def test_a_path_before_the_role_is_not_part_of_its_name() -> None:
    async def main(clock: VirtualClock) -> ResolvedNodeClass:
        return await ResolverBench(clock).resolve(discovered_node_class(role=f"teams/web/{ROLE}"))

    assert run_in_virtual_time(main).is_ready


def test_a_profile_that_the_class_names_is_never_touched() -> None:
    async def main(clock: VirtualClock) -> tuple[str, list[str]]:
        bench = ResolverBench(clock, dry_runs=False)
        found = await bench.resolve(discovered_node_class(role=None, instanceProfile="mine"))
        touched = [name for name, _ in bench.seam.calls if "InstanceProfile" in name]
        assert found.is_ready
        return found.profile, touched

    assert run_in_virtual_time(main) == ("mine", [])


def test_where_nothing_may_change_a_profile_is_only_named() -> None:
    async def main(clock: VirtualClock) -> tuple[str, str, list[str]]:
        made = await ResolverBench(clock).resolve(discovered_node_class())
        bench = ResolverBench(clock, read_only=True)
        named = await bench.resolve(discovered_node_class())
        assert named.is_ready
        return made.profile, named.profile, [name for name, _ in bench.seam.calls]

    made, named, called = run_in_virtual_time(main)
    assert named == made, "by the name that it would have"
    assert not [each for each in called if "InstanceProfile" in each]


def test_a_profile_is_checked_every_quarter_of_an_hour() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = ResolverBench(clock)
        for _ in range(31):
            await bench.resolve(discovered_node_class())
            await clock.sleep(60)
        return bench.count("GetInstanceProfile"), bench.count("CreateInstanceProfile")

    assert run_in_virtual_time(main) == (3, 1)


def test_another_role_is_another_profile_and_the_old_one_stays_for_its_nodes() -> None:
    async def main(clock: VirtualClock) -> tuple[str, str, dict[str, list[str]]]:
        bench = ResolverBench(clock)
        before = await bench.resolve(discovered_node_class())
        after = await bench.resolve(discovered_node_class(role=another_role(bench)))
        return before.profile, after.profile, profiles(bench)

    before, after, known = run_in_virtual_time(main)
    assert known == {before: [ROLE], after: ["other"]}


def test_a_swapped_role_is_corrected() -> None:
    async def main(clock: VirtualClock) -> tuple[str, dict[str, list[str]]]:
        bench = ResolverBench(clock)
        name = (await bench.resolve(discovered_node_class())).profile
        named = {"InstanceProfileName": name}
        bench.call_api("iam", "RemoveRoleFromInstanceProfile", RoleName=ROLE, **named)
        role = another_role(bench)
        bench.call_api("iam", "AddRoleToInstanceProfile", RoleName=role, **named)
        await clock.sleep(901)
        await bench.resolve(discovered_node_class())
        return name, profiles(bench)

    name, known = run_in_virtual_time(main)
    assert known == {name: [ROLE]}


def test_new_tags_are_added() -> None:
    async def main(clock: VirtualClock) -> list[dict[str, str]]:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        name = (await bench.resolve(discovered_node_class(tags={"team": "web"}))).profile
        made = bench.call_api("iam", "GetInstanceProfile", InstanceProfileName=name)
        assert bench.count("TagInstanceProfile") == 1
        return [pair for pair in made["InstanceProfile"]["Tags"] if pair["Key"] == "team"]

    assert run_in_virtual_time(main) == [{"Key": "team", "Value": "web"}]


def test_a_missing_role_is_reported() -> None:
    async def main(clock: VirtualClock) -> tuple[ResolvedNodeClass, str]:
        bench = ResolverBench(clock)
        missing = await bench.resolve(discovered_node_class(role="late"))
        another_role(bench, "late")
        await clock.sleep(60)
        return missing, condition_status(
            await bench.resolve(discovered_node_class(role="late")), INSTANCE_PROFILE_READY
        )[0]

    missing, later = run_in_virtual_time(main)
    assert condition_status(missing, INSTANCE_PROFILE_READY) == ("False", "RoleNotFound")
    assert condition_message(missing, INSTANCE_PROFILE_READY) == "there is no role late"
    assert later == "True"


def test_in_an_isolated_vpc_iam_is_not_called() -> None:
    async def main(clock: VirtualClock) -> tuple[tuple[str, str], list[str], list[str]]:
        bench = ResolverBench(clock, isolated_vpc=True)
        found = await bench.resolve(discovered_node_class())
        removed = await bench.resolver.profiles.delete("uid-default")
        collected = await bench.resolver.profiles.garbage_collect(())
        assert not [name for name, _ in bench.seam.calls if "InstanceProfile" in name]
        return condition_status(found, INSTANCE_PROFILE_READY), removed, collected

    assert run_in_virtual_time(main) == (("False", "IsolatedVPC"), [], [])


@pytest.mark.parametrize("operation", ["CreateInstanceProfile", "AddRoleToInstanceProfile"])
def test_a_lost_response_is_corrected_by_the_next_check(operation: str) -> None:
    async def main(clock: VirtualClock) -> tuple[str, str, dict[str, list[str]]]:
        bench = ResolverBench(clock)
        lost = {"operation": operation, "times": 1, "when": "after"}
        bench.cloud.change({"faults": [lost]})
        first = condition_status(
            await bench.resolve(discovered_node_class()), INSTANCE_PROFILE_READY
        )[0]
        await clock.sleep(60)
        found = await bench.resolve(discovered_node_class())
        return first, found.profile, profiles(bench)

    first, name, known = run_in_virtual_time(main)
    assert first == "Unknown"
    assert known == {name: [ROLE]}


def test_a_profile_of_another_owner_is_not_taken_over() -> None:
    async def main(clock: VirtualClock) -> tuple[str, str]:
        bench = ResolverBench(clock)
        name = bench.resolver.profiles.profile_name(discovered_node_class())
        bench.call_api("iam", "CreateInstanceProfile", InstanceProfileName=name, Path="/theirs/")
        found = await bench.resolve(discovered_node_class())
        assert profiles(bench) == {name: []}
        return condition_status(found, INSTANCE_PROFILE_READY)

    assert run_in_virtual_time(main) == ("False", "NotManaged")


@pytest.mark.parametrize("held", [[], [ROLE]])
def test_a_profile_that_iam_does_not_show_yet_is_no_error(held: list[str]) -> None:
    """IAM is eventually consistent: a read may miss a profile that was just created."""
    missing = AwsError("NoSuchEntity", "Instance Profile cannot be found.", 404)
    shown: AwsResponse = {
        "InstanceProfile": {
            "Path": "/karpenter/us-east-1/wain/uid-default/",
            "Roles": [{"RoleName": role} for role in held],
        }
    }
    full = AwsError("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerProfile: 1", 409)
    seam = ScriptedApi(
        {
            "GetInstanceProfile": [missing, shown],
            "CreateInstanceProfile": AwsError("EntityAlreadyExists", "exists", 409),
            "AddRoleToInstanceProfile": full if held else {},
        }
    )

    async def main(clock: VirtualClock) -> bool:
        cluster = ClusterConfig(name="wain", region="us-east-1")
        return (
            await InstanceProfileProvider(Iam(seam), cluster, clock).find(discovered_node_class())
        ).condition.is_true

    assert run_in_virtual_time(main)


def test_a_class_without_uid_has_no_profiles_to_delete() -> None:
    async def main(clock: VirtualClock) -> int:
        bench = ResolverBench(clock)
        await bench.resolve(discovered_node_class())
        assert await bench.resolver.profiles.delete("") == []
        return len(profiles(bench))

    assert run_in_virtual_time(main) == 1


async def crowd(bench: ResolverBench, clock: VirtualClock) -> tuple[str, str]:
    """Two profiles of ours, of which the first is old, and two of other owners."""
    old = (await bench.resolve(discovered_node_class())).profile
    await clock.sleep(2 * HOUR)
    new = (await bench.resolve(discovered_node_class(role=another_role(bench)))).profile
    for name, path in (("theirs", "/"), ("neighbour", "/karpenter/us-east-1/wain-2/uid/")):
        bench.call_api("iam", "CreateInstanceProfile", InstanceProfileName=name, Path=path)
    return old, new


def test_only_our_own_unused_profiles_are_garbage_collected() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock)
        old, new = await crowd(bench, clock)
        collect = bench.resolver.profiles.garbage_collect
        assert await collect([old]) == []
        assert await collect([]) == [old]
        assert await collect([]) == []
        await clock.sleep(HOUR + 1)
        assert await collect([]) == [new]
        assert set(profiles(bench)) == {"theirs", "neighbour"}

    run_in_virtual_time(main)


def test_a_profile_is_protected_for_an_hour_even_from_a_new_process() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = ResolverBench(clock)
        name = (await bench.resolve(discovered_node_class())).profile
        await clock.sleep(0.5 * HOUR)
        other = ResolverBench(clock)
        other.cloud.services.iam.state = bench.cloud.services.iam.state
        assert await other.resolver.profiles.garbage_collect([]) == []
        await clock.sleep(0.6 * HOUR)
        assert await other.resolver.profiles.garbage_collect([]) == [name]

    run_in_virtual_time(main)


def test_an_unfiltered_listing_does_not_delete_profiles_of_others() -> None:
    """An emulator of EC2 that ignored the path once had all profiles of an account deleted."""

    class Careless(ResolverBench):
        def unfiltered(self) -> None:
            answer = self.cloud.call

            async def call(service: str, operation: str, params: Any) -> dict[str, Any]:
                kept = {key: value for key, value in params.items() if key != "PathPrefix"}
                return await answer(service, operation, kept)

            self.cloud.call = call  # type: ignore[method-assign]

    async def main(clock: VirtualClock) -> set[str]:
        bench = Careless(clock, settings=EmulatorSettings())
        await crowd(bench, clock)
        bench.unfiltered()
        await clock.sleep(2 * HOUR)
        await bench.resolver.profiles.garbage_collect([])
        await bench.resolver.profiles.delete("uid-default")
        return set(profiles(bench))

    assert run_in_virtual_time(main) == {"theirs", "neighbour"}
