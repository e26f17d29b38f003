"""Deletion of a class: it waits for its nodes, then templates and profiles go, and nothing else."""

from tests.support.awsclasses import Bench, node_class
from tests.support.seams import on_time

from wainwright.aws.nodeclass.deletion import Cleaned, Deletion, Waiting
from wainwright.clock import VirtualClock


def deletion(bench: Bench) -> Deletion:
    return Deletion(bench.templates, bench.resolver.profiles, bench.cluster)


def left(bench: Bench) -> tuple[int, int]:
    templates = bench.ask("ec2", "DescribeLaunchTemplates")["LaunchTemplates"]
    return len(templates), len(bench.ask("iam", "ListInstanceProfiles")["InstanceProfiles"])


def test_a_class_stays_while_a_claim_uses_it() -> None:
    async def main(clock: VirtualClock) -> tuple[Waiting | Cleaned, tuple[int, int]]:
        bench = Bench(clock)
        await bench.resolve(node_class())
        return await deletion(bench).finish(node_class(), ["b", "a"]), left(bench)

    found, remaining = on_time(main)
    assert found == Waiting(claims=("a", "b"))
    assert str(found) == "waiting for the NodeClaims a, b to terminate"
    assert remaining == (1, 1)


def test_many_claims_are_not_all_named() -> None:
    waiting = Waiting(claims=tuple("abcdefgh"))
    assert str(waiting) == "waiting for the NodeClaims a, b, c, d, e and 3 more to terminate"


def test_what_was_made_for_the_class_goes_with_it_and_it_can_be_repeated() -> None:
    async def main(clock: VirtualClock) -> None:
        bench = Bench(clock)
        mine = await bench.resolve(node_class("mine"))
        await bench.resolve(node_class("other"))
        assert left(bench) == (2, 2)
        found = await deletion(bench).finish(node_class("mine"), [])
        assert isinstance(found, Cleaned)
        assert (len(found.templates), found.profiles) == (1, (mine.profile,))
        assert left(bench) == (1, 1)
        assert await deletion(bench).finish(node_class("mine"), []) == Cleaned(
            templates=(), profiles=()
        )

    on_time(main)


def test_what_somebody_has_deleted_meanwhile_is_no_obstacle() -> None:
    async def main(clock: VirtualClock) -> tuple[int, int]:
        bench = Bench(clock)
        name = (await bench.resolve(node_class())).profile
        role = node_class().spec.role
        bench.ask("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=role)
        await deletion(bench).finish(node_class(), [])
        return left(bench)

    assert on_time(main) == (0, 0)
