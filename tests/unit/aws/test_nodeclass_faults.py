"""A class comes to rest whatever AWS does meanwhile, and nothing is made twice."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.awsclasses import ROLE, Bench, node_class
from tests.support.seams import on_time

from wainwright.aws.account import Account
from wainwright.aws.layers import layered
from wainwright.aws.nodeclass.rehearsal import PlainTemplates
from wainwright.aws.nodeclass.resolve import Resolver
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.reservations import Availability
from wainwright.aws.templates.ensure import Templates
from wainwright.clock import EPOCH, VirtualClock
from wainwright.emulator.faults import Fault, When
from wainwright.emulator.settings import Settings
from wainwright.metrics import Registry

ANSWERS = (("RequestLimitExceeded", 503), ("InternalError", 500), ("ConnectionClosed", 0))

faults = st.builds(
    lambda answer, probability, when: Fault(
        code=answer[0],
        status=0 if when is When.AFTER else answer[1],
        probability=probability,
        when=when,
        end=EPOCH + 600,
    ),
    st.sampled_from(ANSWERS),
    st.floats(min_value=0.05, max_value=0.6),
    st.sampled_from(When),
)


@settings(max_examples=25)
@given(st.lists(faults, max_size=3), st.integers(0, 1000))
def test_once_things_are_quiet_the_class_is_ready(rules: list[Fault], seed: int) -> None:
    async def main(clock: VirtualClock) -> tuple[Resolved, Bench]:
        bench = Bench(clock, settings=Settings(faults=tuple(rules)))
        account = Account(layered(bench.seam, clock, Random(seed), Registry()))
        rehearsal = PlainTemplates(Templates(account.ec2, clock), bench.cluster)
        resolver = Resolver(account, bench.cluster, clock, Availability(clock), rehearsal)
        for _ in range(12):
            found = await resolver.resolve(node_class())
            await clock.sleep(found.again)
            if clock.now() > EPOCH + 700:
                break
        return await resolver.resolve(node_class()), bench

    found, bench = on_time(main)
    assert found.ready, found.conditions
    profiles = bench.ask("iam", "ListInstanceProfiles")["InstanceProfiles"]
    assert [row["InstanceProfileName"] for row in profiles] == [found.profile]
    assert [role["RoleName"] for role in profiles[0]["Roles"]] == [ROLE]
    assert len(bench.ask("ec2", "DescribeLaunchTemplates")["LaunchTemplates"]) == 1
    assert bench.ask("ec2", "DescribeInstances")["Reservations"] == []
