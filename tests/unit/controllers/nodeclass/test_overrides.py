"""NodeOverlays and InstanceTypes in a running cluster (rows OVL-1 to OVL-4)."""

from typing import Any

import msgspec
import pytest
from tests.support.controlled_cluster import (
    ControlledCluster,
    conditions,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.catalog_documents import InstanceType, NodeOverlay
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.kubernetes.workloads import Pod
from wainwright.errors import InvalidObjectError
from wainwright.model.labels import INSTANCE_TYPE

PRICE = "karpenter.sh/price-overlay-applied"
CAPACITY = "karpenter.sh/capacity-overlay-applied"
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def requires(*types: str) -> list[dict[str, Any]]:
    return [{"key": INSTANCE_TYPE, "operator": "In", "values": [*types]}]


def overlay(name: str, *types: str, **spec: Any) -> NodeOverlay:
    manifest = {
        "metadata": {"name": name},
        "spec": {"requirements": requires(*types), **spec},
    }
    return msgspec.convert(manifest, NodeOverlay, strict=False)


def choice(*types: str) -> Any:
    """A pool of these types, on demand."""
    return node_pool(template={"spec": {"requirements": [ON_DEMAND, *requires(*types)]}})


async def _ready(cluster: ControlledCluster, name: str) -> tuple[str, str]:
    found = conditions(await cluster.api.get(NodeOverlay, name))
    assert found["ValidationSucceeded"] == found["Ready"] or found["Ready"][0] == "True"
    return found["ValidationSucceeded"]


async def _annotations(cluster: ControlledCluster) -> set[str]:
    claim = await cluster.claim()
    return {*(claim.metadata.annotations or {})} & {PRICE, CAPACITY}


def _messages(override: NodeOverlay | InstanceType) -> str:
    assert override.status is not None
    return "\n".join(each.message for each in override.status.conditions or ())


def _types(claim: NodeClaim) -> list[str]:
    (found,) = (each for each in claim.spec.requirements if each.key == INSTANCE_TYPE)
    return list(found.values or ())


@pytest.mark.parametrize(
    "spec",
    [
        {"price": "0.1", "priceAdjustment": "+10%"},
        {"priceAdjustment": "-101%"},
        {"priceAdjustment": "10%"},
        {"capacity": {"cpu": "5"}},
        {"weight": 0},
        {"weight": 10001},
    ],
)
def test_ovl_1_what_no_overlay_may_say_is_refused_and_named_where_it_was_let_through(
    spec: dict[str, Any],
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        with pytest.raises(InvalidObjectError):
            await cluster.create(overlay("wrong", "m5.large", **spec))
        cluster.api.load([overlay("wrong", "m5.large", **spec)])
        cluster.start()
        await cluster.wait(10)
        assert await _ready(cluster, "wrong") == ("False", "RuntimeValidation")

    run_cluster(story)


def test_ovl_2_of_two_overlays_that_conflict_one_is_in_force_and_the_other_says_so() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large", "m5.xlarge", "c5.large"))
        cluster.start()
        await cluster.wait(5)
        await cluster.create(
            overlay("first", "m5.large", price="0.01", weight=5),
            overlay("second", "m5.large", "c5.large", price="0.01", weight=5),
            overlay("third", "m5.large", price="0.02", weight=4),
        )
        await cluster.wait(60)
        assert (await _ready(cluster, "first"))[0] == "True"
        assert await _ready(cluster, "second") == ("False", "Conflict")
        assert (await _ready(cluster, "third"))[0] == "True"
        second = await cluster.api.get(NodeOverlay, "second")
        assert "conflicts with NodeOverlay first" in _messages(second)
        await cluster.api.patch(NodeOverlay, "second", {"spec": {"weight": 6}})
        await cluster.wait(60)
        assert (await _ready(cluster, "second"))[0] == "True"

    run_cluster(story)


def test_ovl_2_an_overlay_that_is_void_sets_no_price_for_any_pool() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large", "c5.large"))
        await cluster.create(
            overlay("first", "m5.large", price="5", weight=5),
            overlay("second", "m5.large", "c5.large", price="0.001", weight=5),
        )
        cluster.start()
        await cluster.wait(10)
        await cluster.create_pod()
        await cluster.wait(20)
        assert _types(await cluster.claim())[0] == "c5.large"
        await cluster.api.delete(NodeOverlay, "second")
        await cluster.api.patch(NodeOverlay, "first", {"spec": {"price": "0.001"}})
        await cluster.wait(60)
        await cluster.create_pod("web-1", cpu="1500m")
        await cluster.wait(20)
        chosen = {_types(each)[0] for each in await cluster.claims()}
        assert chosen == {"c5.large", "m5.large"}

    run_cluster(story)


def test_ovl_3_claims_say_which_overlays_made_them_what_they_are() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large"))
        await cluster.create(
            overlay("price", "m5.large", priceAdjustment="-50%"),
            overlay("fuse", "m5.large", capacity={"smarter-devices/fuse": "1"}),
        )
        cluster.start()
        await cluster.wait(10)
        await cluster.create_pod()
        await cluster.wait(20)
        assert await _annotations(cluster) == {PRICE, CAPACITY}
        claim = await cluster.claim()
        assert claim.status is not None
        assert (claim.status.capacity or {})["smarter-devices/fuse"] == "1"

    run_cluster(story)


def test_ovl_3_claims_of_types_that_no_overlay_means_say_nothing() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("c5.large"))
        await cluster.create(overlay("price", "m5.large", priceAdjustment="-50%"))
        cluster.start()
        await cluster.wait(10)
        await cluster.create_pod()
        await cluster.wait(20)
        assert await _annotations(cluster) == set()

    run_cluster(story)


def test_ovl_4_a_pool_whose_class_is_not_ready_does_not_stop_the_others() -> None:
    async def story(cluster: ControlledCluster) -> None:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "broken"}
        broken = node_pool("broken", template={"spec": {"nodeClassRef": reference}}, weight=50)
        await cluster.set_up(choice("m5.large"), broken)
        await cluster.create_class("broken", securityGroupSelectorTerms=[{"tags": {"no": "such"}}])
        await cluster.create(
            overlay("first", "m5.large", price="0.01"),
            overlay("second", "m5.large", price="0.02"),
        )
        cluster.start()
        await cluster.wait(10)
        await cluster.create_pod()
        await cluster.wait(20)
        assert (await _ready(cluster, "first"))[0] == "True"
        assert await _ready(cluster, "second") == ("False", "Conflict")
        assert await _annotations(cluster) == {PRICE}

    run_cluster(story)


def test_an_overlay_is_in_force_within_a_minute_of_its_creation() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large"))
        cluster.start()
        await cluster.wait(10)
        fuse = {"resources": {"requests": {"smarter-devices/fuse": "1"}}, "name": "main"}
        await cluster.create_pod(spec={"containers": [fuse]})
        await cluster.wait(60)
        assert await cluster.claims() == []
        await cluster.create(overlay("fuse", "m5.large", capacity={"smarter-devices/fuse": "1"}))
        await cluster.wait(60)
        assert await _annotations(cluster) == {CAPACITY}
        assert (await _ready(cluster, "fuse"))[0] == "True"

    run_cluster(story)


def fuse_pod(name: str, count: int) -> Pod:
    requests = {"requests": {"smarter-devices/fuse": str(count)}}
    return pending_pod(name, spec={"containers": [{"resources": requests, "name": "main"}]})


def test_a_changed_overlay_is_in_force_within_a_minute_and_a_deleted_one_no_more() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large"))
        cluster.start()
        await cluster.create(overlay("fuse", "m5.large", capacity={"smarter-devices/fuse": "1"}))
        await cluster.create(fuse_pod("two", 2))
        await cluster.wait(120)
        assert await cluster.claims() == []
        patch = {"spec": {"capacity": {"smarter-devices/fuse": "2"}}}
        await cluster.api.patch(NodeOverlay, "fuse", patch)
        await cluster.wait(60)
        assert len(await cluster.claims()) == 1
        await cluster.api.delete(NodeOverlay, "fuse")
        await cluster.wait(60)
        await cluster.create(fuse_pod("other", 1))
        await cluster.wait(60)
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_a_changed_instance_type_is_in_force_within_a_minute() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large"))
        cluster.start()
        devices = {"spec": {"resources": {"smarter-devices/fuse": "1"}}}
        named = {**devices, "metadata": {"name": "m5.large"}}
        await cluster.create(msgspec.convert(named, InstanceType, strict=False))
        await cluster.create(fuse_pod("two", 2))
        await cluster.wait(120)
        assert await cluster.claims() == []
        patch = {"spec": {"resources": {"smarter-devices/fuse": "2"}}}
        await cluster.api.patch(InstanceType, "m5.large", patch)
        await cluster.wait(60)
        assert len(await cluster.claims()) == 1

    run_cluster(story)


def test_an_overlay_that_matches_nothing_says_so() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        await cluster.create(overlay("typing-error", "m5.lagre", price="1"))
        cluster.start()
        await cluster.wait(10)
        found = await cluster.api.get(NodeOverlay, "typing-error")
        assert "no instance type" in _messages(found)

    run_cluster(story)


def test_overlays_are_looked_at_again_every_six_hours() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        await cluster.create(overlay("price", "m5.large", price="1"))
        cluster.start()
        await cluster.wait(10)
        before = await cluster.api.get(NodeOverlay, "price")
        assert before.status is not None
        # Others change what nobody watches.
        changed = [
            msgspec.structs.replace(each, message="other")
            for each in before.status.conditions or ()
        ]
        patch = {"status": {"conditions": msgspec.to_builtins(changed)}}
        await cluster.api.patch_status(NodeOverlay, "price", patch)
        await cluster.wait(5 * 3600)
        assert (await cluster.api.get(NodeOverlay, "price")).status != before.status
        await cluster.wait(2 * 3600)
        assert (await cluster.api.get(NodeOverlay, "price")).status == before.status

    run_cluster(story)


def test_instance_types_have_a_status_as_well() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up(choice("m5.large"))
        overhead = {"spec": {"overhead": {"memory": "100Gi"}}, "metadata": {"name": "m5.large"}}
        await cluster.create(msgspec.convert(overhead, InstanceType, strict=False))
        cluster.start()
        await cluster.wait(10)
        found = await cluster.api.get(InstanceType, "m5.large")
        assert conditions(found)["Ready"][0] == "True"
        assert "more than the type can spare" in _messages(found)

    run_cluster(story)


def test_an_overlay_says_that_its_feature_gate_is_off() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.provider_options = msgspec.structs.replace(
            cluster.provider_options, node_overlay=False
        )
        await cluster.set_up()
        await cluster.create(overlay("price", "m5.large", price="1"))
        cluster.start()
        await cluster.wait(10)
        assert await _ready(cluster, "price") == ("False", "FeatureGateDisabled")

    run_cluster(story)
