"""A dry run reads the account and changes nothing in it, whatever its role would allow; its metrics
say what it has seen.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.controlled_cluster import node_pool, pending_pod
from tests.support.operator_world import CLOUD, SETTINGS, RecordedCloud, World, play
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.catalog_documents import Cloud, CloudReservation
from wainwright.api.karpenter.nodeclaim import NodeClaim, NodeClaimSpec
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import NodeClassRef
from wainwright.api.wire import ObjectMeta
from wainwright.aws.api.services import AwsResponse, Params, Seam
from wainwright.cluster import Cluster
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.errors import AwsError, RequestRejectedError
from wainwright.metrics import AWS_REQUEST_ERRORS
from wainwright.model.labels import NODEPOOL
from wainwright.operator.process import EMULATOR, ConnectedCloud, RunOptions, cloud_connector

ROOT = Path(__file__).parents[3]
POLICY = json.loads((ROOT / "deploy" / "iam-policy-dry-run.json").read_text("utf-8"))
READS = ("Describe", "Get", "List")
HOUR = 3600.0
GROUP = "arn:aws:resource-groups:us-west-2:111122223333:group/web"
RESERVATION = CloudReservation(
    id="cr-00000001",
    instanceType="m5.large",
    availabilityZone="us-west-2a",
    total=2,
    groups=[GROUP],
)
DRY_RUN = RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True)


def options(*reservations: CloudReservation) -> RunOptions:
    spec = msgspec.structs.replace(CLOUD.spec, capacityReservations=list(reservations))
    return msgspec.structs.replace(DRY_RUN, cloud=Cloud(spec=spec))


class ReadingRole:
    """An account as a role sees it that may only read."""

    def __init__(self, account: Seam) -> None:
        self._account = account

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        if not operation.startswith(READS):
            code = "UnauthorizedOperation" if service == "ec2" else "AccessDenied"
            raise AwsError(code, f"not authorized to perform {operation}", 403)
        return await self._account.call(service, operation, params)


class DryRunWorld:
    """A dry run beside a pod that waits for a node, and what it asks of AWS."""

    def __init__(self, world: World, run: RunOptions, role: Callable[[Seam], Seam] | None) -> None:
        self.world, self._run, self._role = world, run, role
        self._clouds: list[RecordedCloud] = []

    async def start(self) -> None:
        await self.world.api.create(pending_pod())
        connect = cloud_connector(SETTINGS, self._run, "1.33", self.world.clock)

        async def connect_recorded(cluster: Cluster) -> ConnectedCloud:
            cloud = await connect(cluster)
            assert isinstance(cloud.seam, EmulatedAwsAccount)
            self.account = cloud.seam
            seam = None if self._role is None else self._role(cloud.seam)
            self._clouds.append(RecordedCloud(cloud, seam))
            return self._clouds[-1]

        self.process = self.world.run(self._run, connect=connect_recorded)
        await self.world.clock.sleep(1)

    @property
    def actions(self) -> set[str]:
        """Whatever was sent."""
        (cloud,) = self._clouds
        return cloud.seam.actions

    @property
    def writes(self) -> set[str]:
        return {each for each in self.actions if not each.partition(":")[2].startswith(READS)}


Story = Callable[[DryRunWorld], Awaitable[None]]


def watch(
    story: Story, run: RunOptions = DRY_RUN, role: Callable[[Seam], Seam] | None = None
) -> None:
    async def main(world: World) -> None:
        dry = DryRunWorld(world, run, role)
        await dry.start()
        await story(dry)

    play(main)


def launches(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.message.startswith("would launch")]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="wainwright")


def test_hours_of_a_dry_run_only_read_the_account(caplog: pytest.LogCaptureFixture) -> None:
    async def story(dry: DryRunWorld) -> None:
        templates = templates_and_profiles(dry.account)
        await dry.world.clock.sleep(3 * HOUR)
        assert dry.writes == set()
        assert templates_and_profiles(dry.account) == templates
        errors = dry.process.operator.metrics.exposition()
        assert AWS_REQUEST_ERRORS.name + "{" not in errors, "nothing had to be refused either"

    watch(story)
    assert len(launches(caplog)) == 1


def templates_and_profiles(account: EmulatedAwsAccount) -> list[Any]:
    templates = account.answer("ec2", "DescribeLaunchTemplates", {})["LaunchTemplates"]
    return [*templates, *account.answer("iam", "ListInstanceProfiles", {})["InstanceProfiles"]]


def test_a_role_that_may_only_read_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    async def story(dry: DryRunWorld) -> None:
        await dry.world.clock.sleep(60)
        assert dry.writes == set()

    watch(story, role=ReadingRole)
    assert len(launches(caplog)) == 1
    assert launches(caplog)[0].startswith("would launch for NodePool web: m5.large")


def test_whoever_tries_to_change_something_all_the_same_is_refused_before_it_is_sent() -> None:
    async def story(dry: DryRunWorld) -> None:
        await dry.world.clock.sleep(10)
        dry_run = dry.process.operator._dry_run
        assert dry_run is not None
        instance = start_instance(dry.account)
        with pytest.raises(RequestRejectedError, match="a dry run does not call ec2:Terminate"):
            await dry_run._cloud.terminate(instance)
        assert dry.writes == set()

    watch(story)


def start_instance(account: EmulatedAwsAccount) -> str:
    image = account.answer("ec2", "DescribeImages", {})["Images"][0]["ImageId"]
    given = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
    instance: str = account.answer("ec2", "RunInstances", given)["Instances"][0]["InstanceId"]
    return instance


def test_messages_about_interruptions_stay_in_their_queue() -> None:
    """They are for the Karpenter that works on the cluster."""

    async def story(dry: DryRunWorld) -> None:
        queue = dry.account.account.queue
        assert queue
        dry.account.services.sqs.send(queue, "{}")
        await dry.world.clock.sleep(120)  # it polls for 20 s, and messages are kept for 300 s
        assert not {each for each in dry.actions if each.startswith("sqs:")}
        url = dry.account.answer("sqs", "GetQueueUrl", {"QueueName": queue})["QueueUrl"]
        received = dry.account.answer("sqs", "ReceiveMessage", {"QueueUrl": url})
        assert len(received["Messages"]) == 1

    watch(story)


def test_the_policy_of_a_dry_run_allows_exactly_what_it_calls() -> None:
    """Of classes that select everything that can be selected."""
    allowed = {action for each in POLICY["Statement"] for action in each["Action"]}

    async def story(dry: DryRunWorld) -> None:
        terms = [{"reservationGroup": GROUP}, {"tags": {"team": "web"}}]
        await dry.world.api.create(
            discovered_node_class(
                "other",
                capacityReservationSelectorTerms=terms,
                placementGroupSelector={"name": "web"},
            )
        )
        await dry.world.api.create(pool_of("other"))
        await dry.world.clock.sleep(HOUR)
        assert dry.actions == allowed

    watch(story, options(RESERVATION))


def pool_of(node_class: str) -> NodePool:
    return node_pool(node_class, template={"spec": {"nodeClassRef": {"name": node_class}}})


def test_its_metrics_say_what_it_has_seen_and_that_it_is_in_sync() -> None:
    async def story(dry: DryRunWorld) -> None:
        await dry.world.api.create(pending_pod("huge", cpu="500"))
        await dry.world.clock.sleep(30)
        scraped = ScrapedMetrics(dry.process.operator.metrics)
        assert scraped.value("karpenter_cluster_state_synced") == 1
        assert scraped.value("karpenter_cluster_state_node_count") == 0
        assert scraped.value("karpenter_scheduler_queue_depth") == 2
        assert scraped.value("karpenter_scheduler_unschedulable_pods_count") == 1
        assert scraped.value("karpenter_scheduler_scheduling_duration_seconds_count") >= 1
        assert not scraped.labels("leader_election_master_status"), "it takes no lease"
        await dry.process.stop()
        ended = ScrapedMetrics(dry.process.operator.metrics)
        assert ended.value("karpenter_cluster_state_synced") == 0

    watch(story)


def test_it_is_not_in_sync_while_a_claim_of_karpenter_has_no_instance() -> None:
    async def story(dry: DryRunWorld) -> None:
        metadata = ObjectMeta(name="web-abc", labels={NODEPOOL: "web"})
        reference = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")
        spec = NodeClaimSpec(nodeClassRef=reference, requirements=[])
        await dry.world.api.create(NodeClaim(metadata=metadata, spec=spec))
        await dry.world.clock.sleep(30)
        scraped = ScrapedMetrics(dry.process.operator.metrics)
        assert scraped.value("karpenter_cluster_state_synced") == 0
        assert scraped.value("karpenter_cluster_state_node_count") == 1
        assert dry.process.operator.is_ready

    watch(story)
