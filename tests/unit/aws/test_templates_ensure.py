"""Launch templates are there when they are needed, made once, and gone when nobody needs them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.seams import Checked, on_time

from wainwright.aws.ec2 import Ec2
from wainwright.aws.seam import Answer, Params
from wainwright.aws.templates.content import Template
from wainwright.aws.templates.ensure import KNOWN, UNUSED, Templates
from wainwright.clock import VirtualClock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.faults import Fault
from wainwright.emulator.settings import Settings
from wainwright.errors import AwsError

OWNED = {"eks:eks-cluster-name": "wain", "karpenter.k8s.aws/ec2nodeclass": "default"}


def written(number: int = 1, node_class: str = "default") -> Template:
    tags = OWNED | {"karpenter.k8s.aws/ec2nodeclass": node_class}
    return Template(data={"ImageId": f"ami-{number}"}, tags=tags)


class Dawdling:
    """A way to an account on which deletions are overtaken by what was asked after them."""

    def __init__(self, cloud: EmulatedCloud) -> None:
        self._cloud = cloud

    async def call(self, service: str, operation: str, params: Params) -> Answer:
        if operation.startswith("Delete"):
            await self._cloud.clock.sleep(5)
        return await self._cloud.call(service, operation, params)


class World:
    """An emulated account, where every call takes a second, and the templates under test."""

    def __init__(self, clock: VirtualClock, settings: Settings) -> None:
        self.clock = clock
        self.cloud = EmulatedCloud(clock=clock, settings=settings)
        self.seam = Checked(Dawdling(self.cloud))
        self.ec2 = Ec2(self.seam)
        self.templates = Templates(self.ec2, clock)

    def count(self, operation: str) -> int:
        return len(self.seam.asked(operation))

    async def there(self) -> set[str]:
        rows = await Ec2(self.cloud).describe_launch_templates()
        return {row["LaunchTemplateName"] for row in rows}

    async def fleet(self, template: Template) -> None:
        """What a launch meets that names a template which is gone."""
        await self.ec2.call("DescribeLaunchTemplates", {"LaunchTemplateNames": [template.name]})


def run(test: Callable[[World], Coroutine[Any, Any, None]], *faults: Fault) -> None:
    settings = Settings(latency=1.0, faults=faults)
    on_time(lambda clock: test(World(clock, settings)))


def test_a_template_is_made_at_its_first_use() -> None:
    async def test(world: World) -> None:
        template = written()
        assert await world.templates.ensure(template) == template.name
        (row,) = await world.ec2.describe_launch_templates(names=[template.name])
        tags = {each["Key"]: each["Value"] for each in row["Tags"]}
        assert tags == OWNED | {"wainwright.dev/managed-by": "wainwright"}
        await world.templates.ensure(template)
        assert world.count("CreateLaunchTemplate") == 1

    run(test)


def test_those_who_ask_together_share_one_creation() -> None:
    async def test(world: World) -> None:
        await asyncio.gather(*(world.templates.ensure(written()) for _ in range(20)))
        assert world.count("CreateLaunchTemplate") == 1

    run(test)


def test_who_goes_away_does_not_take_the_template_along() -> None:
    async def test(world: World) -> None:
        impatient = asyncio.ensure_future(world.templates.ensure(written()))
        patient = asyncio.ensure_future(world.templates.ensure(written()))
        await world.clock.sleep(0.5)
        impatient.cancel()
        assert await patient == written().name
        assert world.count("CreateLaunchTemplate") == 1

    run(test)


def test_a_failure_is_everybodys_and_not_remembered() -> None:
    async def test(world: World) -> None:
        both = [world.templates.ensure(written()) for _ in range(2)]
        failed = await asyncio.gather(*both, return_exceptions=True)
        assert [each.code for each in failed if isinstance(each, AwsError)] == ["Denied"] * 2
        assert world.count("CreateLaunchTemplate") == 1
        assert await world.templates.ensure(written()) == written().name

    run(test, Fault(operation="CreateLaunchTemplate", code="Denied", times=1))


def test_one_that_another_process_has_made_is_as_good() -> None:
    async def test(world: World) -> None:
        await Templates(world.ec2, world.clock).ensure(written())
        assert await world.templates.ensure(written()) == written().name
        assert world.count("CreateLaunchTemplate") == 2
        assert await world.there() == {written().name}

    run(test)


def test_what_is_known_is_checked_after_a_while() -> None:
    async def test(world: World) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(KNOWN - 1)
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 1
        await world.clock.sleep(2)
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 2

    run(test)


def test_a_launch_whose_template_is_gone_is_tried_again_once() -> None:
    async def test(world: World) -> None:
        template = written()
        await world.templates.ensure(template)
        await Ec2(world.cloud).delete_launch_template(name=template.name)
        await world.templates.launch([template], lambda: world.fleet(template))
        assert world.count("CreateLaunchTemplate") == 2
        assert world.count("DescribeLaunchTemplates") == 2

    run(test)


def test_a_launch_is_not_tried_for_ever() -> None:
    async def test(world: World) -> None:
        with pytest.raises(AwsError, match="NotFoundException"):
            await world.templates.launch([written(1)], lambda: world.fleet(written(2)))
        assert world.count("DescribeLaunchTemplates") == 2

    run(test)


def test_other_errors_of_a_launch_are_the_launchs_own() -> None:
    async def test(world: World) -> None:
        with pytest.raises(AwsError, match="Refused"):
            await world.templates.launch([written()], lambda: world.fleet(written()))
        assert world.count("DescribeLaunchTemplates") == 1

    run(test, Fault(operation="DescribeLaunchTemplates", code="Refused"))


def test_several_templates_are_made_side_by_side() -> None:
    async def test(world: World) -> None:
        wanted = [written(number) for number in range(5)]
        before = world.clock.now()
        await world.templates.launch(wanted, lambda: world.fleet(wanted[0]))
        assert world.clock.now() - before == pytest.approx(2)

    run(test)


def test_what_nobody_uses_goes() -> None:
    async def test(world: World) -> None:
        await world.templates.ensure(written(1))
        await world.clock.sleep(UNUSED - 100)
        await world.templates.ensure(written(2))
        assert await world.templates.sweep() == ()
        await world.clock.sleep(200)
        assert await world.templates.sweep() == (written(1).name,)
        assert await world.there() == {written(2).name}
        await world.templates.ensure(written(1))
        assert await world.there() == {written(1).name, written(2).name}

    run(test)


def test_what_a_launch_uses_stays_however_long_it_takes() -> None:
    async def test(world: World) -> None:
        async def slow() -> None:
            await world.clock.sleep(2 * UNUSED)
            assert await world.templates.sweep() == ()
            await world.fleet(written())

        await world.templates.launch([written()], slow)
        assert world.count("DeleteLaunchTemplate") == 0

    run(test)


def test_who_needs_a_template_that_is_going_has_it_made_anew() -> None:
    async def test(world: World) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(2 * UNUSED)
        sweeping = asyncio.ensure_future(world.templates.sweep())
        await world.clock.sleep(0.5)
        await world.templates.launch([written()], lambda: world.fleet(written()))
        await sweeping
        assert await world.there() == {written().name}
        assert world.count("DescribeLaunchTemplates") == 1

    run(test)


def test_a_deletion_that_fails_is_tried_again() -> None:
    async def test(world: World) -> None:
        await world.templates.ensure(written())
        await world.clock.sleep(2 * UNUSED)
        with pytest.raises(AwsError, match="Denied"):
            await world.templates.sweep()
        assert await world.templates.sweep() == (written().name,)
        assert await world.there() == set()

    run(test, Fault(operation="DeleteLaunchTemplate", code="Denied", times=1))


def test_templates_of_an_earlier_process_are_not_forgotten() -> None:
    async def test(world: World) -> None:
        await Templates(world.ec2, world.clock).ensure(written())
        token = "theirs"
        await world.ec2.create_launch_template(
            "karpenter.k8s.aws/9", {"ImageId": "x"}, OWNED, token
        )
        assert await world.templates.adopt("wain") == 1
        await world.templates.ensure(written())
        assert world.count("CreateLaunchTemplate") == 2
        await world.clock.sleep(2 * UNUSED)
        assert await world.templates.sweep() == (written().name,)
        assert await world.there() == {"karpenter.k8s.aws/9"}

    run(test)


def test_a_class_takes_its_templates_along() -> None:
    async def test(world: World) -> None:
        for number in range(3):
            await world.templates.ensure(written(number))
        await world.templates.ensure(written(1, "other"))
        await world.ec2.create_launch_template("somebody-elses", {"ImageId": "x"}, OWNED, "token")
        gone = await world.templates.delete_class("wain", "default")
        assert set(gone) == {written(number).name for number in range(3)}
        assert await world.there() == {written(1, "other").name, "somebody-elses"}
        assert await world.templates.delete_class("wain", "default") == ()

    run(test)
