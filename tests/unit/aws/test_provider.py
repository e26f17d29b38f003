"""The AWS provider as controllers use it: classes, catalogs, launches and their outcomes."""

from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.aws_provider import (
    ONLY_RESERVED,
    RESERVATION_SELECTOR,
    A,
    ProviderScene,
    claim_requirements,
    launch_template_data,
    node_claim,
    reservation_object,
    run_scene,
)
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.aws.drift import NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION
from wainwright.aws.provider import INSTANCE_PROFILE_ANNOTATION, ProviderOptions
from wainwright.clock import EPOCH
from wainwright.cloud import DeclaredObjects, NodePoolScope, ReservedNode
from wainwright.errors import (
    InstanceNotFoundError,
    InsufficientCapacityError,
    InvalidInputError,
    NodeClassNotReadyError,
    RequestRejectedError,
)
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID
from wainwright.model.node_claim import Instance, NodeClaim

ON_DEMAND = claim_requirements(capacity="on-demand")
LARGE = claim_requirements((INSTANCE_TYPE, "In", ("m5.large",), None), capacity="on-demand")


async def launched(scene: ProviderScene, wanted: NodeClaim) -> tuple[NodeClaim, Instance]:
    """A claim with its instance recorded."""
    found = await scene.launch_one(wanted)
    made = msgspec.structs.replace(
        wanted, instance=found.id, labels=found.labels, annotations=found.annotations
    )
    return scene.store.add(made), found


def test_a_class_is_resolved_into_its_status() -> None:
    async def test(scene: ProviderScene) -> None:
        state = await scene.cloud.resolve("default")
        assert (state.ready, state.not_ready_message) == (True, "")
        assert {each["zone"] for each in state.status["subnets"]} == {
            "us-east-1a",
            "us-east-1b",
            "us-east-1c",
        }
        assert state.status["instanceProfile"]
        marks = scene.cloud.node_class_annotations("default")
        assert set(marks) == {NODE_CLASS_HASH, NODE_CLASS_HASH_VERSION}
        assert 0 < state.requeue_after <= 60

    run_scene(test)


def test_a_class_that_is_not_ready_has_a_message_and_launches_nothing() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(subnetSelectorTerms=[{"tags": {"no": "such"}}])
        state = await scene.cloud.resolve("default")
        assert not state.ready
        assert "SubnetsReady" in state.not_ready_message
        assert not state.not_ready_message.startswith("Ready:")
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, NodeClassNotReadyError)
        assert "SubnetsReady" in found.message
        with pytest.raises(NodeClassNotReadyError):
            await scene.cloud.catalog("web")
        assert not scene.fleets()

    run_scene(test)


def test_a_changed_class_is_resolved_before_the_launch() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, ON_DEMAND))
        scene.use(tags={"team": "web"})
        await scene.launch_one(node_claim(2, ON_DEMAND))
        assert scene.running()[-1].tags["team"] == "web"

    run_scene(test)


def test_the_size_of_user_data_is_a_metric_until_the_class_is_gone() -> None:
    async def test(scene: ProviderScene) -> None:
        instance = await scene.launch_one(node_claim(1, ON_DEMAND))
        made = scene.seam.calls_to("CreateLaunchTemplate")
        sizes = {len(b64decode(each["LaunchTemplateData"]["UserData"])) for each in made}
        name = "karpenter_ec2nodeclasses_userdata_bytes"
        assert ScrapedMetrics(scene.metrics).value(name, nodeclass="default") == max(sizes) > 500
        await scene.cloud.terminate(instance.id)
        await scene.cloud.finalize_node_class("default", [])
        assert not ScrapedMetrics(scene.metrics).values(name)

    run_scene(test)


async def launched_in_the_cluster(
    scene: ProviderScene, alias: str, **settings: Any
) -> tuple[str, int]:
    """The user data of a launch by a process with these settings, and how often EKS was called."""
    config = msgspec.structs.replace(scene.options.cluster, **settings)
    scene.options = msgspec.structs.replace(scene.options, cluster=config)
    scene.cloud = scene.provider()
    scene.use(amiSelectorTerms=[{"alias": alias}])
    await scene.cloud.refresh()
    await scene.cloud.resolve("default")
    await scene.launch_one(node_claim(requirements=LARGE))
    (data,) = launch_template_data(scene, scene.fleets()[-1])
    return b64decode(data["UserData"]).decode(), len(scene.seam.calls_to("DescribeCluster"))


KNOWN = {"endpoint": "https://api.shop:6443", "ca_bundle": "Q0Eh", "ipv6": False}


async def version_1_33() -> str:
    return "1.33"


def test_what_settings_and_the_api_server_say_of_the_cluster_is_not_asked_of_eks() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.server_version = version_1_33
        data, calls = await launched_in_the_cluster(scene, "bottlerocket@latest", **KNOWN)
        assert 'api-server = "https://api.shop:6443"' in data
        assert 'cluster-certificate = "Q0Eh"' in data
        state = await scene.cloud.resolve("default")
        assert all("k8s-1.33" in each["name"] for each in state.status["amis"])
        assert calls == 0

    run_scene(test)


@pytest.mark.parametrize(
    ("alias", "settings"),
    [
        ("al2023@latest", KNOWN),
        ("bottlerocket@latest", KNOWN | {"ipv6": None}),
        ("bottlerocket@latest", KNOWN | {"ipv6": True}),
        ("bottlerocket@latest", KNOWN | {"endpoint": ""}),
        ("bottlerocket@latest", KNOWN | {"ca_bundle": ""}),
    ],
    ids=["service CIDR", "family", "service CIDR of IPv6", "endpoint", "certificate"],
)
def test_eks_is_asked_for_what_settings_leave_open_and_they_take_precedence(
    alias: str, settings: dict[str, Any]
) -> None:
    async def test(scene: ProviderScene) -> None:
        scene.server_version = version_1_33
        data, calls = await launched_in_the_cluster(scene, alias, **settings)
        assert (settings["endpoint"] or ".eks.amazonaws.com") in data
        assert settings["ca_bundle"] in data
        assert calls == 1

    run_scene(test)


def test_an_upgrade_of_the_api_server_selects_other_images_within_minutes() -> None:
    async def test(scene: ProviderScene) -> None:
        versions = ["1.34", "1.33"]

        async def version() -> str:
            return versions[-1]

        async def images() -> set[str]:
            state = await scene.cloud.resolve("default")
            return {part for each in state.status["amis"] for part in each["name"].split("-")}

        scene.server_version = version
        await launched_in_the_cluster(scene, "bottlerocket@latest", **KNOWN)
        assert "1.33" in await images()
        versions.pop()
        await scene.clock.sleep(301)
        assert "1.34" in await images()

    run_scene(test)


def test_a_class_that_is_being_deleted_launches_nothing() -> None:
    async def test(scene: ProviderScene) -> None:
        going = msgspec.structs.replace(
            scene.classes[0].metadata, deletionTimestamp="2026-01-01T00:00:00Z"
        )
        scene.classes = [msgspec.structs.replace(scene.classes[0], metadata=going)]
        scene.declare()
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, NodeClassNotReadyError)
        waiting = await scene.cloud.finalize_node_class("default", ["web-1"])
        assert "web-1" in waiting
        assert await scene.cloud.finalize_node_class("default", []) == ""

    run_scene(test)


def test_without_its_class_a_claim_has_no_offerings() -> None:
    async def test(scene: ProviderScene) -> None:
        (found,) = await scene.launch(node_claim(1, node_class="gone"))
        assert isinstance(found, InsufficientCapacityError)
        with pytest.raises(InsufficientCapacityError):
            await scene.cloud.catalog("nobody")

    run_scene(test)


def test_objects_that_cannot_be_parsed_change_nothing() -> None:
    async def test(scene: ProviderScene) -> None:
        with pytest.raises(InvalidInputError, match="EC2NodeClass"):
            scene.cloud.declare(DeclaredObjects(node_classes=({"spec": {"role": 7}},)))
        assert await scene.launch_one(node_claim(1))

    run_scene(test)


def test_a_dry_run_detects_user_data_that_is_too_large() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(userData="#" * 15_000)
        state = await scene.cloud.resolve("default")
        assert not state.ready
        assert "user data would take" in state.not_ready_message

    run_scene(test)


def test_a_dry_run_uses_the_template_of_launches() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        await scene.launch_one(node_claim(1, LARGE))
        rehearsed, real = (
            each["LaunchTemplateData"] for each in scene.seam.calls_to("CreateLaunchTemplate")
        )
        assert rehearsed["UserData"] == real["UserData"]
        assert {key for key in real if real[key] != rehearsed[key]} == {"TagSpecifications"}

    run_scene(test)


def test_a_catalog_has_the_offerings_that_can_be_launched_now() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        catalog = await scene.cloud.catalog("web")
        assert {kind.name for kind in catalog.index.types} == {
            "m5.large",
            "c5.large",
            "m6g.large",
            "m5.xlarge",
        }
        (one,) = catalog.reservations
        assert (one.id, one.total, one.available) == ("cr-00000001", 2, 2)
        assert await scene.cloud.catalog("web") == catalog  # not rebuilt without a change
        await scene.launch_one(node_claim(1, ONLY_RESERVED))
        (after,) = (await scene.cloud.catalog("web")).reservations
        assert after.available == 1

    run_scene(test, reservation_object(1, 2))


def test_a_changed_count_or_price_compiles_no_labels_and_resources_again() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.refresh()
        before = (await scene.cloud.catalog("web")).index
        await scene.launch_one(node_claim(1, ONLY_RESERVED))
        after = (await scene.cloud.catalog("web")).index
        assert {group.available for group in after.offering_groups if group.reservation_id} == {1}
        assert after.allocatable_index is before.allocatable_index
        price = {"instanceType": "m5.large", "capacityType": "on-demand", "price": 9.0}
        scene.emulated.change({"prices": [price]})
        await scene.clock.sleep(12 * 3600)
        assert (await scene.cloud.refresh()).is_changed
        later = (await scene.cloud.catalog("web")).index
        assert later is not after
        assert later.allocatable_index is before.allocatable_index

    run_scene(test, reservation_object(1, 2))


def test_a_launch_describes_its_instance() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        found = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        (instance,) = scene.running()
        assert (found.id, found.instance_type, found.zone) == (instance.id, "m5.large", A)
        assert found.provider_id == f"aws:///{A}/{instance.id}"
        assert found.zone_id == instance.zone_id
        assert (found.capacity_type, found.reservation_id) == ("reserved", "cr-00000001")
        assert found.image_id.startswith("ami-")
        assert found.price is not None
        assert 0 < found.price < 1e-6
        labels = found.labels
        assert labels["karpenter.k8s.aws/capacity-reservation-id"] == "cr-00000001"
        assert labels["karpenter.k8s.aws/capacity-reservation-type"] == "default"
        assert labels["karpenter.k8s.aws/instance-family"] == "m5"
        assert labels["topology.k8s.aws/zone-id"] == instance.zone_id
        assert labels["karpenter.k8s.aws/instance-tenancy"] == "default"
        assert not [key for key in labels if "placement-group" in key]
        assert set(found.annotations) == {
            NODE_CLASS_HASH,
            NODE_CLASS_HASH_VERSION,
            INSTANCE_PROFILE_ANNOTATION,
        }
        assert found.capacity["cpu"] == 2000
        assert found.allocatable["cpu"] < 2000

    run_scene(test, reservation_object(1, 1))


def test_listed_instances_match_launched_instances() -> None:
    async def test(scene: ProviderScene) -> None:
        launched = await scene.launch(
            node_claim(1, ON_DEMAND), node_claim(2, claim_requirements(capacity="spot"))
        )
        (listed, other) = await scene.cloud.instances()
        instance_batcher = {each.id: each for each in (listed, other)}
        for each in launched:
            again = instance_batcher[each.id]
            same = (
                "provider_id",
                "instance_type",
                "zone",
                "zone_id",
                "capacity_type",
                "image_id",
                "batch",
            )
            assert [getattr(each, name) for name in same] == [getattr(again, name) for name in same]
            assert again.labels.items() <= each.labels.items()
            assert abs(again.launched - each.launched) < 1

    run_scene(test)


def test_a_claim_with_an_instance_gets_no_other() -> None:
    async def test(scene: ProviderScene) -> None:
        made, found = await launched(scene, node_claim(1, LARGE))
        assert (await scene.cloud.launch(made)).id == found.id
        await scene.cloud.terminate(found.id)
        await scene.clock.sleep(60)
        with pytest.raises(InstanceNotFoundError):
            await scene.cloud.launch(made)
        assert len(scene.fleets()) == 1

    run_scene(test)


def test_with_the_gate_off_reservations_are_ignored() -> None:
    async def test(scene: ProviderScene) -> None:
        cluster = msgspec.structs.replace(scene.options.cluster, capacity_reservations=False)
        scene.options = ProviderOptions(cluster=cluster)
        scene.cloud = scene.provider()
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.refresh()
        found = await scene.launch_one(node_claim(1, LARGE))
        assert not scene.seam.calls_to("DescribeCapacityReservations")
        (instance,) = scene.running()
        assert instance.reservation == "cr-00000001"  # EC2 puts it into an open reservation
        assert found.capacity_type == "on-demand"
        listed = await scene.cloud.instance(found.id)
        assert (listed.capacity_type, listed.reservation_id) == ("on-demand", "")
        for template in scene.seam.calls_to("CreateLaunchTemplate"):
            assert "CapacityReservationSpecification" not in template["LaunchTemplateData"]

    open_to_all = reservation_object(1, 2, instanceMatchCriteria="open")
    run_scene(test, open_to_all, types=["m5.large"], zones=[A])


def test_discovered_memory_is_used_in_plans() -> None:
    async def test(scene: ProviderScene) -> None:
        found = await scene.launch_one(node_claim(1, LARGE))
        scene.cloud.record_discovered_capacity(found, 7_777_777_777)
        index = (await scene.cloud.catalog("web")).index
        memory = {kind.name: kind.capacity["memory"] for kind in index.types}
        assert memory["m5.large"] == 7_777_777_777
        assert memory["m5.xlarge"] != 7_777_777_777

    run_scene(test)


def test_an_interrupted_offering_is_not_launched_again_at_once() -> None:
    async def test(scene: ProviderScene) -> None:
        first = await scene.launch_one(node_claim(1, claim_requirements(capacity="spot")))
        scene.cloud.mark_unavailable(first.instance_type, first.zone, first.capacity_type)
        second = await scene.launch_one(node_claim(2, claim_requirements(capacity="spot")))
        assert (first.instance_type, first.zone) != (second.instance_type, second.zone)

    run_scene(test)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({}, None), ({"userData": "echo hello"}, "NodeClassDrift"), (None, "SubnetDrift")],
)
def test_an_instance_is_compared_with_its_class(
    changes: dict[str, Any] | None, reason: str | None
) -> None:
    async def test(scene: ProviderScene) -> None:
        made, found = await launched(scene, node_claim(1, LARGE))
        subnets = scene.emulated.account.subnets
        elsewhere = [{"id": each} for zone, each in subnets.items() if zone != found.zone]
        scene.use(**({"subnetSelectorTerms": elsewhere} if changes is None else changes))
        assert await scene.cloud.drift(made) == reason

    run_scene(test)


def test_an_instance_without_class_or_hash_is_not_drifted() -> None:
    async def test(scene: ProviderScene) -> None:
        made, _ = await launched(scene, node_claim(1, LARGE))
        nameless = msgspec.structs.replace(made, annotations={})
        assert await scene.cloud.drift(nameless) is None
        elsewhere = msgspec.structs.replace(made, node_class="gone")
        assert await scene.cloud.drift(elsewhere) is None
        with pytest.raises(InstanceNotFoundError):
            await scene.cloud.drift(msgspec.structs.replace(made, instance="i-00000000000000000"))

    run_scene(test)


def test_a_missing_permission_is_rejected_with_a_remedy() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.cloud.resolve("default")
        denied = {"operation": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
        scene.emulated.change({"faults": [denied]})
        (found,) = await scene.launch(node_claim(1))
        assert isinstance(found, RequestRejectedError)
        assert "permission" in found.hint
        assert not scene.running()

    run_scene(test)


def test_resources_of_an_earlier_process_are_garbage_collected() -> None:
    async def test(scene: ProviderScene) -> None:
        await scene.launch_one(node_claim(1, LARGE))
        left = len(scene.emulated.answer("ec2", "DescribeLaunchTemplates", {})["LaunchTemplates"])
        assert left
        scene.cloud = scene.provider()
        await scene.cloud.refresh()
        await scene.clock.sleep(3601)
        await scene.cloud.garbage_collect([])
        assert not scene.emulated.answer("ec2", "DescribeLaunchTemplates", {})["LaunchTemplates"]

    run_scene(test)


def test_profiles_in_use_by_claims_are_kept() -> None:
    async def test(scene: ProviderScene) -> None:
        made, found = await launched(scene, node_claim(1, LARGE))
        scene.cloud.declare(DeclaredObjects())
        await scene.clock.sleep(3601)
        profiles = scene.emulated.services.iam.find_profile
        await scene.cloud.garbage_collect([made])
        assert profiles(found.annotations[INSTANCE_PROFILE_ANNOTATION])
        await scene.cloud.garbage_collect([])
        assert not profiles(found.annotations[INSTANCE_PROFILE_ANNOTATION])

    run_scene(test)


def test_two_classes_have_separate_catalogs() -> None:
    async def test(scene: ProviderScene) -> None:
        few = discovered_node_class("few", kubelet={"maxPods": 5})
        scene.cloud.declare(
            DeclaredObjects(
                node_classes=tuple(msgspec.to_builtins(each) for each in (scene.classes[0], few)),
                pools=(
                    NodePoolScope(name="web", node_class="default"),
                    NodePoolScope(name="small", node_class="few"),
                ),
            )
        )
        pods = {
            pool: {kind.capacity["pods"] for kind in (await scene.cloud.catalog(pool)).index.types}
            for pool in ("web", "small")
        }
        assert pods["small"] == {5}
        assert 5 not in pods["web"]

    run_scene(test)


def reserved_objects(instance: Any) -> list[ReservedNode]:
    return [
        ReservedNode(kind=kind, name="web-1", instance_id=instance.id, labels=instance.labels)
        for kind in ("NodeClaim", "Node")
    ]


def test_an_instance_that_left_its_reservation_is_relabelled_as_on_demand() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.refresh()
        launched = await scene.launch_one(node_claim(1, ONLY_RESERVED))
        nodes = reserved_objects(launched)
        assert await scene.cloud.reservation_label_changes(nodes) == []
        scene.emulated.answer(
            "ec2", "CancelCapacityReservation", {"CapacityReservationId": "cr-00000001"}
        )
        await scene.clock.sleep(60)
        changes = await scene.cloud.reservation_label_changes(nodes)
        assert [each.kind for each in changes] == ["NodeClaim", "Node"]
        for each in changes:
            assert each.change == {CAPACITY_TYPE: "on-demand"}
            assert RESERVATION_ID in each.remove

    run_scene(test, reservation_object(1, 2), types=["m5.large"], zones=[A])


def test_nodes_of_a_capacity_block_are_drained_before_it_ends() -> None:
    async def test(scene: ProviderScene) -> None:
        scene.use(**RESERVATION_SELECTOR)
        await scene.cloud.refresh()
        nodes = reserved_objects(await scene.launch_one(node_claim(1, ONLY_RESERVED)))
        assert await scene.cloud.nodes_to_drain(nodes) == []
        await scene.clock.sleep(81 * 60)
        assert await scene.cloud.nodes_to_drain(nodes) == ["web-1", "web-1"]

    ends = datetime.fromtimestamp(EPOCH + 2 * 3600, UTC).isoformat()
    block = reservation_object(1, 2, reservationType="capacity-block", endTime=ends)
    run_scene(test, block, types=["m5.large"], zones=[A])
