"""Rows of docs/internals/aws-rows.md on instances after their launch, and on prices (ANC)."""

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.support.aws_provider import (
    M5_LARGE_ONLY,
    ON_DEMAND_ONLY,
    A,
    B,
    ProviderScene,
    node_claim,
    run_refreshed_scene,
)

from wainwright.aws.api.boto import BotoSeam
from wainwright.aws.instancetypes.pricing import parse_on_demand_prices
from wainwright.emulator.context import Response
from wainwright.errors import InstanceNotFoundError
from wainwright.metrics import INTERRUPTION_MESSAGES_RECEIVED
from wainwright.model.labels import ON_DEMAND, SPOT
from wainwright.model.node_claim import Interruption, InterruptionKind


def tags(scene: ProviderScene, instance_id: str) -> dict[str, str]:
    instance = scene.emulated.services.instances.get(instance_id)
    assert instance is not None
    return instance.tags


def test_anc_6_an_instance_without_a_claim_is_garbage_after_half_a_minute() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        kept = scene.store.claims["uid-1"]
        for _ in range(2):
            await scene.clock.sleep(25)
            assert (await scene.cloud.find_garbage([])).instances == ()
        await scene.clock.sleep(10)
        assert [each.id for each in (await scene.cloud.find_garbage([])).instances] == [instance.id]
        assert (await scene.cloud.find_garbage([kept])).instances == ()
        await scene.cloud.terminate(instance.id)
        assert (await scene.cloud.find_garbage([])).instances == ()

    run_refreshed_scene(run)


def test_anc_6_instances_of_other_clusters_are_not_garbage() -> None:
    async def run(scene: ProviderScene) -> None:
        image = next(iter(scene.emulated.services.images.state.images))
        tagging = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
        scene.emulated.answer("ec2", "RunInstances", tagging)
        await scene.clock.sleep(60)
        assert (await scene.cloud.find_garbage([])).instances == ()
        assert await scene.cloud.instances() == []

    run_refreshed_scene(run)


def test_anc_6_an_instance_is_tagged_once_with_node_claim_and_cluster() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(tags={"team": "web"})
        instance = await scene.launch_one(node_claim(1, ON_DEMAND_ONLY))
        for _ in range(2):
            await scene.cloud.tag(instance.id, node="ip-1", claim="web-1")
        assert len(scene.seam.calls_to("CreateTags")) == 1
        found = tags(scene, instance.id)
        assert found.items() >= {
            ("Name", "ip-1"),
            ("karpenter.sh/nodeclaim", "web-1"),
            ("eks:eks-cluster-name", "wain"),
            ("kubernetes.io/cluster/wain", "owned"),
            ("karpenter.sh/nodepool", "web"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("team", "web"),
        }
        (listed,) = await scene.cloud.instances()
        assert (listed.claim, listed.pool) == ("web-1", "web")

    run_refreshed_scene(run)


def test_anc_6_a_name_tag_of_the_class_stays_and_tagging_is_limited_to_one_per_second() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.use(tags={"Name": "mine"})
        instances = await scene.launch(
            node_claim(1, ON_DEMAND_ONLY),
            node_claim(2, ON_DEMAND_ONLY),
            node_claim(3, ON_DEMAND_ONLY),
        )
        began = scene.clock.now()
        tagging = [scene.cloud.tag(each.id, node="ip", claim="x") for each in instances]
        await asyncio.gather(*tagging)
        assert 2 <= scene.clock.now() - began < 4
        assert {tags(scene, each.id)["Name"] for each in instances} == {"mine"}
        await scene.cloud.terminate(instances[0].id)
        await scene.clock.sleep(3700)
        with pytest.raises(InstanceNotFoundError):
            await scene.cloud.tag(instances[0].id, node="ip", claim="x")

    run_refreshed_scene(run)


async def next_event(scene: ProviderScene, *kinds: InterruptionKind) -> Interruption:
    """The next interruption of one of these kinds."""
    stream = scene.cloud.interruptions()
    async with aclosing(stream):
        async for each in stream:
            if each.kind in kinds:
                return each
    raise AssertionError("the queue has an end")


@pytest.mark.parametrize(
    ("happens", "kind", "notice"),
    [
        ("spot", InterruptionKind.SPOT, 120.0),
        ("rebalance", InterruptionKind.REBALANCE, None),
        ("reservation", InterruptionKind.RESERVATION, 120.0),
        ("instance-retirement", InterruptionKind.SCHEDULED, 120.0),
        ("system-reboot", InterruptionKind.SCHEDULED, 120.0),
    ],
)
def test_anc_7_interruptions_are_read_from_the_queue(
    happens: str, kind: InterruptionKind, notice: float | None
) -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1))
        await scene.clock.sleep(10.5 - (scene.clock.now() % 1))
        at = int(scene.clock.now())
        scene.emulated.change({"interruptions": [{"instance": instance.id, "kind": happens}]})
        found = await next_event(scene, kind)
        assert (found.kind, found.instance, found.at) == (kind, instance.id, at)
        if notice is None:
            assert found.ends_at is None
        else:
            assert found.ends_at == pytest.approx(at + notice, abs=1.5)
        assert found.kind.ends_instance is (happens != "rebalance")

    run_refreshed_scene(run)


def test_anc_7_a_terminating_instance_is_reported_by_its_state_change() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1))
        scene.emulated.answer("ec2", "TerminateInstances", {"InstanceIds": [instance.id]})
        assert (await next_event(scene, InterruptionKind.TERMINATING)).instance == instance.id

    run_refreshed_scene(run)


def send(scene: ProviderScene, body: str) -> None:
    url = scene.emulated.account.queue_url
    scene.emulated.answer("sqs", "SendMessage", {"QueueUrl": url, "MessageBody": body})


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("no JSON", "unparsable"),
        ("{}", "unparsable"),
        (
            '{"source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}',
            "unparsable",
        ),
        ('{"source": "aws.s3", "detail-type": "Object Created", "detail": {}}', "no_op"),
    ],
)
def test_anc_7_unparsable_messages_are_counted_and_deleted(body: str, word: str) -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1))
        await scene.clock.sleep(5)
        send(scene, body)
        scene.emulated.change({"interruptions": [{"instance": instance.id, "kind": "rebalance"}]})
        await next_event(scene, InterruptionKind.REBALANCE)
        others = 2 if word == "no_op" else 0  # state changes to pending and to running
        assert scene.metrics.value(INTERRUPTION_MESSAGES_RECEIVED, message_type=word) == 1 + others
        tagging = {"QueueUrl": scene.emulated.account.queue_url, "MaxNumberOfMessages": 10}
        await scene.clock.sleep(30)  # until messages that were not deleted would be delivered again
        left = scene.emulated.answer("sqs", "ReceiveMessage", tagging).get("Messages", [])
        assert body not in [each["Body"] for each in left]

    run_refreshed_scene(run)


def test_anc_7_an_interrupted_spot_offering_is_unavailable_for_a_while() -> None:
    async def run(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, M5_LARGE_ONLY))
        scene.cloud.mark_unavailable(instance.instance_type, instance.zone, SPOT)
        again = await scene.launch_one(node_claim(2, M5_LARGE_ONLY))
        assert (again.zone, again.capacity_type) != (instance.zone, instance.capacity_type)

    run_refreshed_scene(run)


def price(scene: ProviderScene, kind: str, zone: str, capacity_type: str) -> Any:
    async def found() -> float | None:
        for each in (await scene.cloud.catalog("web")).index.types:
            if each.name == kind:
                offers = (one for one in each.offerings if one.zone == zone)
                return next(o.price for o in offers if o.capacity_type == capacity_type)
        return None

    return found()


class Failing:
    """The seam, with operations that fail or return nothing."""

    def __init__(self, scene: ProviderScene) -> None:
        self._seam = scene.seam
        self.faults: dict[str, Response | BaseException] = {}

    async def call(self, service: str, operation: str, params: Any) -> Any:
        fault = self.faults.get(operation)
        if isinstance(fault, BaseException):
            raise fault
        return await self._seam.call(service, operation, params) if fault is None else fault


def test_anc_8_prices_are_refreshed_every_twelve_hours_and_spot_by_zone() -> None:
    async def run(scene: ProviderScene) -> None:
        scene.emulated.change(
            {
                "prices": [
                    {"instanceType": "m5.large", "capacityType": ON_DEMAND, "price": 0.5},
                    {"instanceType": "m5.large", "capacityType": SPOT, "zone": A, "price": 0.1},
                    {"instanceType": "m5.large", "capacityType": SPOT, "zone": B, "price": 0.2},
                ]
            }
        )
        await scene.clock.sleep(11.9 * 3600)
        await scene.cloud.refresh()
        assert await price(scene, "m5.large", A, ON_DEMAND) != 0.5
        await scene.clock.sleep(0.2 * 3600)
        await scene.cloud.refresh()
        assert await price(scene, "m5.large", A, ON_DEMAND) == 0.5
        assert await price(scene, "m5.large", A, SPOT) == 0.1
        assert await price(scene, "m5.large", B, SPOT) == 0.2

    run_refreshed_scene(run)


def test_anc_8_built_in_prices_are_used_until_the_first_refresh() -> None:
    async def run(scene: ProviderScene) -> None:
        listed = {"instanceType": "m5.large", "capacityType": ON_DEMAND, "price": 0.5}
        scene.emulated.change({"prices": [listed]})
        seam = Failing(scene)
        seam.faults["GetProducts"] = {"PriceList": []}
        scene.cloud = scene.provider(seam)
        await scene.cloud.refresh()
        assert await price(scene, "m5.large", A, ON_DEMAND) == 0.096
        del seam.faults["GetProducts"]
        await scene.clock.sleep(61)
        await scene.cloud.refresh()
        assert await price(scene, "m5.large", A, ON_DEMAND) == 0.5
        seam.faults["GetProducts"] = {"PriceList": []}
        seam.faults["DescribeSpotPriceHistory"] = {"SpotPriceHistory": []}
        spot = await price(scene, "m5.large", A, SPOT)
        await scene.clock.sleep(13 * 3600)
        await scene.cloud.refresh()
        assert await price(scene, "m5.large", A, ON_DEMAND) == 0.5
        assert await price(scene, "m5.large", A, SPOT) == spot

    run_refreshed_scene(run)


def test_anc_8_in_an_isolated_vpc_the_price_list_is_not_called() -> None:
    async def run(scene: ProviderScene) -> None:
        cluster = msgspec.structs.replace(scene.options.cluster, isolated_vpc=True)
        scene.options = msgspec.structs.replace(scene.options, cluster=cluster)
        scene.cloud = scene.provider()
        before = len(scene.seam.calls_to("GetProducts"))
        await scene.cloud.refresh()
        assert len(scene.seam.calls_to("GetProducts")) == before
        assert len(scene.seam.calls_to("DescribeSpotPriceHistory")) > 0

    run_refreshed_scene(run)


def test_anc_8_china_has_a_price_list_and_a_currency_of_its_own() -> None:
    assert BotoSeam("cn-north-1").region_of("pricing") == "cn-northwest-1"
    assert BotoSeam("us-gov-west-1").region_of("pricing") == "us-east-1"
    rate = {"pricePerUnit": {"CNY": "1.5"}}
    product = {
        "product": {"attributes": {"instanceType": "m5.large"}},
        "terms": {"OnDemand": {"a": {"priceDimensions": {"b": rate}}}},
    }
    assert parse_on_demand_prices([product], "CNY") == {"m5.large": 1.5}
    assert parse_on_demand_prices([product], "USD") == {}
