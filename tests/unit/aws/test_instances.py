"""Machines of the cluster: listed, looked up, ended, tagged, and found without an owner."""

import asyncio
from typing import Any

import pytest
from tests.support.awslaunches import (
    ONLY_RESERVED,
    RESERVING,
    Scene,
    asking,
    claim,
    played,
    reserved,
)
from tests.support.awsmachines import machine

from wainwright.aws.instances import garbage, instance_id, provider_id, shown
from wainwright.aws.tokens import BATCH_TAG
from wainwright.clock import EPOCH
from wainwright.errors import NotFound
from wainwright.model.claim import Mark
from wainwright.model.labels import RESERVED, SPOT

ON_DEMAND = asking(capacity="on-demand")
MARK = Mark(token="t", batch="b", index=0, attempt=1, at=EPOCH)


def test_only_machines_of_this_cluster_are_listed() -> None:
    async def test(scene: Scene) -> None:
        ours = await scene.launch(claim(1, ON_DEMAND), claim(2, ON_DEMAND))
        row = {"Key": "eks:eks-cluster-name", "Value": "another"}
        theirs = await scene.one(claim(3, ON_DEMAND))
        scene.emulated.answer("ec2", "CreateTags", {"Resources": [theirs.id], "Tags": [row]})
        listed = await scene.cloud.instances()
        assert {each.id for each in listed} == {each.id for each in ours}
        assert {each.pool for each in listed} == {"web"}
        assert {each.node_class for each in listed} == {"default"}

    played(test)


def test_what_is_gone_is_not_found() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, ON_DEMAND))
        assert (await scene.cloud.instance(found.id)).instance_type == found.instance_type
        await scene.cloud.terminate(found.id)
        await scene.cloud.terminate(found.id)  # is on its way already
        await scene.clock.sleep(60)
        for gone in (found.id, "i-00000000000000000", "nonsense"):
            with pytest.raises(NotFound):
                await scene.cloud.instance(gone)
            with pytest.raises(NotFound):
                await scene.cloud.terminate(gone)
        assert not await scene.cloud.instances()

    played(test)


def test_terminations_go_together() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.launch(*(claim(number, ON_DEMAND) for number in range(1, 6)))
        await asyncio.gather(*(scene.cloud.terminate(each.id) for each in found))
        assert len(scene.seam.asked("TerminateInstances")) == 1
        assert not scene.running()

    played(test)


def test_a_machine_is_tagged_once_its_node_has_joined() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.one(claim(1, ON_DEMAND))
        for _ in range(2):
            await scene.cloud.tag(found.id, node="ip-10-0-0-1", claim="web-1")
        (request,) = scene.seam.asked("CreateTags")
        assert {pair["Key"]: pair["Value"] for pair in request["Tags"]} == {
            "Name": "ip-10-0-0-1",
            "karpenter.sh/nodeclaim": "web-1",
        }
        assert (await scene.cloud.instance(found.id)).claim == "web-1"

    played(test)


def test_a_name_that_the_class_gives_stays() -> None:
    async def test(scene: Scene) -> None:
        scene.use(tags={"Name": "ours"})
        found = await scene.one(claim(1, ON_DEMAND))
        await scene.cloud.tag(found.id, node="ip-10-0-0-1", claim="web-1")
        (request,) = scene.seam.asked("CreateTags")
        assert [pair["Key"] for pair in request["Tags"]] == ["karpenter.sh/nodeclaim"]

    played(test)


def test_tags_come_at_one_a_second() -> None:
    async def test(scene: Scene) -> None:
        found = await scene.launch(*(claim(number, ON_DEMAND) for number in range(1, 5)))
        begun = scene.clock.now()
        await asyncio.gather(*(scene.cloud.tag(each.id, node="n", claim="c") for each in found))
        assert 3 <= scene.clock.now() - begun < 4

    played(test)


def test_a_machine_that_is_gone_cannot_be_tagged() -> None:
    async def test(scene: Scene) -> None:
        with pytest.raises(NotFound):
            await scene.cloud.tag("i-00000000000000000", node="n", claim="c")

    played(test)


def test_machines_without_a_claim_are_garbage_after_half_a_minute() -> None:
    async def test(scene: Scene) -> None:
        kept, lost = await scene.launch(claim(1, ON_DEMAND), claim(2, ON_DEMAND))
        del scene.store.claims["uid-2"]
        claims = list(scene.store.claims.values())
        await scene.clock.sleep(29)
        assert not await scene.cloud.garbage(claims)
        await scene.clock.sleep(2)
        assert [each.id for each in await scene.cloud.garbage(claims)] == [lost.id]
        await scene.cloud.terminate(lost.id)
        assert not await scene.cloud.garbage(claims)
        assert [each.id for each in scene.running()] == [kept.id]

    played(test)


NOW = EPOCH + 100
OURS = {BATCH_TAG: "b"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], set[str], bool]] = [
    ("nobody's", {}, {}, set(), True),
    ("owned", {}, {"instance": "i-1"}, set(), False),
    ("young", {"launched": NOW - 30}, {}, set(), False),
    ("ending", {"state": "shutting-down"}, {}, set(), False),
    ("awaited by a claim", {"tags": OURS}, {"mark": MARK}, set(), False),
    ("the claim has another", {"tags": OURS}, {"mark": MARK, "instance": "i-2"}, set(), True),
    ("under way", {"tags": OURS}, {}, {"b"}, False),
    ("of another batch", {"tags": {BATCH_TAG: "c"}}, {"mark": MARK}, {"b"}, True),
]


@pytest.mark.parametrize(
    ("fields", "owner", "flying", "collected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_who_is_garbage(
    fields: dict[str, Any], owner: dict[str, Any], flying: set[str], collected: bool
) -> None:
    found = garbage([machine(**fields)], [claim(1, **owner)], flying, NOW)
    assert bool(found) is collected


def test_as_controllers_see_a_machine() -> None:
    plain = shown(machine(zone_id="use1-az1", tags={"karpenter.sh/nodepool": "web"}))
    assert plain.provider_id == "aws:///us-east-1a/i-1"
    assert (plain.capacity_type, plain.pool) == ("on-demand", "web")
    assert plain.labels == {
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "us-east-1a",
        "topology.k8s.aws/zone-id": "use1-az1",
        "karpenter.sh/capacity-type": "on-demand",
    }
    assert shown(machine(spot=True)).capacity_type == SPOT
    held = shown(machine(reservation_id="cr-1"))
    assert (held.capacity_type, held.reservation_id) == (RESERVED, "cr-1")
    assert held.labels["karpenter.k8s.aws/capacity-reservation-id"] == "cr-1"


def test_what_fell_into_an_open_reservation_is_on_demand() -> None:
    found = shown(machine(reservation_id="cr-1", preference="open"))
    assert (found.capacity_type, found.reservation_id) == ("on-demand", "")


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("aws:///us-east-1a/i-0123", "i-0123"),
        ("aws:///us-east-1a/subnet-1", ""),
        ("kwok://node-1", ""),
        ("", ""),
    ],
)
def test_the_id_within_a_provider_id(text: str, identity: str) -> None:
    assert instance_id(text) == identity
    if identity:
        assert provider_id(machine(identity)) == text


def test_a_reserved_machine_frees_its_place() -> None:
    async def test(scene: Scene) -> None:
        scene.use(**RESERVING)
        found = await scene.one(claim(1, ONLY_RESERVED))
        catalog = await scene.cloud.catalog("web")
        assert [each.available for each in catalog.reservations] == [1]
        await scene.cloud.terminate(found.id)
        catalog = await scene.cloud.catalog("web")
        assert [each.available for each in catalog.reservations] == [2]

    played(test, reserved(1, 2))
