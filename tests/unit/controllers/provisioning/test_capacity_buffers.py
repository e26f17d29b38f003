"""Capacity buffers: how many virtual pods, where they go, what they keep (BUF-1 to BUF-3)."""

from typing import Any, cast

import msgspec
import pytest
from tests.support.aws_account import discovered_node_class
from tests.support.claim_stories import ControllersAlone
from tests.support.controlled_cluster import (
    ControlledCluster,
    SlowClaimCreations,
    node_pool,
    pending_pod,
    run_cluster,
)

from wainwright.api.catalog_documents import CloudReservation
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Service, ServiceSpec
from wainwright.api.kubernetes.operations import CapacityBuffer, PodTemplate
from wainwright.api.kubernetes.workloads import (
    Deployment,
    Pod,
    ReplicaSet,
    StatefulSet,
    TopologySpreadConstraint,
)
from wainwright.api.wire import ObjectMeta
from wainwright.cluster import Cluster
from wainwright.controllers.provisioning.capacity_buffers import (
    BUFFER_KINDS,
    CapacityBuffers,
    VirtualPods,
)
from wainwright.controllers.settings import ControllerSettings
from wainwright.core.disruption.candidates import UNDONE_CONSOLIDATIONS
from wainwright.metrics import NODECLAIMS_CREATED
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, RESERVED, ZONE
from wainwright.model.plan import ClusterLimits, PlanOptions

TYPES = ["m5.large", "m5.xlarge"]
BUFFERS = ControllerSettings(capacity_buffer=True)


def run(story: Any, *reservations: CloudReservation, **more: Any) -> None:
    run_cluster(story, *reservations, instanceTypes=TYPES, **{"settings": BUFFERS, **more})


def pod_spec(cpu: str = "1500m", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "main", "resources": {"requests": requests}}], **more}


def pod_template(name: str = "unit", labels: Any = None, **spec: Any) -> PodTemplate:
    template = {"metadata": {"labels": labels or {"app": "web"}}, "spec": pod_spec(**spec)}
    manifest = {"metadata": {"name": name, "namespace": "default"}, "template": template}
    return msgspec.convert(manifest, PodTemplate, strict=False)


def workload(kind: type, replicas: int | None, cpu: str = "1500m") -> Any:
    labels = {"app": "web"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(cpu)},
    }
    manifest = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    return msgspec.convert(manifest, kind, strict=False)


def buffer(name: str = "spare", **spec: Any) -> CapacityBuffer:
    stated = {"podTemplateRef": {"name": "unit"}, **spec}
    stated = {key: value for key, value in stated.items() if value is not None}
    manifest = {"metadata": {"name": name, "namespace": "default"}, "spec": stated}
    return msgspec.convert(manifest, CapacityBuffer, strict=False)


def of_workload(kind: str = "Deployment", group: str = "apps", **spec: Any) -> CapacityBuffer:
    reference = {"apiGroup": group, "kind": kind, "name": "web"}
    return buffer(podTemplateRef=None, scalableRef=reference, **spec)


async def start(cluster: ControlledCluster, *objects: Any, pool: NodePool | None = None) -> None:
    spec = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]}
    await cluster.set_up(pool or node_pool(template={"spec": spec}))
    await cluster.create(*objects)
    cluster.start()
    await cluster.wait(30)


async def status(cluster: ControlledCluster, name: str = "spare") -> tuple[Any, dict[str, Any]]:
    """The number of virtual pods, and the conditions with their reasons."""
    found = (await cluster.api.get(CapacityBuffer, name, "default")).status
    assert found is not None
    written = {each.type: (each.status, each.reason) for each in found.conditions or ()}
    return found.replicas, written


async def join_all(cluster: ControlledCluster) -> None:
    joined = {node.metadata.name for node in await cluster.nodes()}
    for claim in await cluster.claims():
        if f"node-{claim.metadata.name}" not in joined:
            await cluster.join(claim)
    await cluster.wait(15)


def test_buf_2_virtual_pods_are_spread_by_the_defaults_of_the_scheduler() -> None:
    constraint = TopologySpreadConstraint(
        maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule"
    )
    settings = msgspec.structs.replace(BUFFERS, default_constraints=(constraint,))
    metadata = ObjectMeta(name="web", namespace="default")
    service = Service(metadata=metadata, spec=ServiceSpec(selector={"app": "web"}))

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, service, pod_template(cpu="100m"), buffer(replicas=3))
        zones = {(each.metadata.labels or {})[ZONE] for each in await cluster.claims()}
        assert len(zones) == len(await cluster.claims()) == 3

    run(story, settings=settings)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 0}, 0),
        ({"replicas": 10, "limits": {"cpu": "4"}}, 2),
        ({"replicas": 1, "limits": {"cpu": "40"}}, 1),
        ({"limits": {"cpu": "7", "memory": "3Gi"}}, 3),
        ({"limits": {"cpu": "1"}}, 0),
        ({"replicas": 2, "limits": {"nvidia.com/gpu": "1"}}, 2),
    ],
)
def test_buf_1_the_size_of_a_buffer_of_a_pod_template(spec: Any, count: int) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(**spec))
        assert (await status(cluster))[0] == count

    run(story)


@pytest.mark.parametrize(
    ("kind", "replicas", "spec", "count"),
    [
        (Deployment, 10, {"percentage": 25}, 3),
        (StatefulSet, 4, {"percentage": 50}, 2),
        (ReplicaSet, 1, {"percentage": 1}, 1),
        (Deployment, None, {"percentage": 100}, 1),
        (Deployment, 0, {"percentage": 50}, 0),
        (Deployment, 10, {"percentage": 0}, 0),
        (Deployment, 10, {"percentage": 20, "replicas": 5}, 5),
        (Deployment, 10, {"percentage": 60, "replicas": 5}, 6),
        (Deployment, 10, {"percentage": 60, "limits": {"cpu": "4"}}, 2),
        (Deployment, 10, {"replicas": 2}, 2),
    ],
)
def test_buf_1_the_size_of_a_buffer_of_a_workload(
    kind: type, replicas: int | None, spec: Any, count: int
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, workload(kind, replicas), of_workload(kind.__name__, **spec))
        assert (await status(cluster))[0] == count

    run(story)


def test_buf_1_the_size_follows_its_workload() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, workload(Deployment, 4), of_workload(percentage=50))
        await cluster.api.patch(Deployment, "web", {"spec": {"replicas": 8}}, "default")
        await cluster.wait(1)
        assert (await status(cluster))[0] == 4

    run(story)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (buffer(replicas=1, podTemplateRef={"name": "other"}), "PodTemplateNotFound"),
        (of_workload("Job", "batch", replicas=1), "UnsupportedScalableRef"),
        (of_workload("Deployment", "example.com", replicas=1), "UnsupportedScalableRef"),
        (of_workload("StatefulSet", replicas=1), "ScalableRefNotFound"),
        (buffer(podTemplateRef=None, replicas=1), "NoReference"),
        (buffer(), "NoSize"),
    ],
)
def test_buf_2_a_buffer_that_cannot_be_resolved_says_why(made: CapacityBuffer, reason: str) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), workload(Deployment, 1), made)
        assert await status(cluster) == (
            None,
            {
                "ReadyForProvisioning": ("False", reason),
                "Provisioning": ("False", "NotReadyForProvisioning"),
            },
        )
        assert await cluster.claims() == []

    run(story)


def test_buf_2_conditions_from_the_launch_to_the_node() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(replicas=1), buffer("none", replicas=0))
        ready = ("True", "ReadyForProvisioning")
        assert await status(cluster) == (
            1,
            {"ReadyForProvisioning": ready, "Provisioning": ("False", "RequiresNewCapacity")},
        )
        assert (await status(cluster, "none"))[1]["Provisioning"] == ("False", "BufferEmpty")
        await join_all(cluster)
        assert (await status(cluster))[1]["Provisioning"] == ("True", "FitsExistingCapacity")
        created = {"reason": "capacity_buffer", "nodepool": "web", "min_values_relaxed": "false"}
        assert cluster.metrics.value(NODECLAIMS_CREATED, **created) == 1

    run(story)


def test_buf_3_a_buffer_keeps_its_node_and_gives_it_back() -> None:
    """Also over a restart, whose process knows of no placements."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(replicas=1))
        await join_all(cluster)
        await cluster.wait(600)
        (kept,) = await cluster.claims()
        await cluster.kill()
        cluster.start()
        await cluster.wait(600)
        assert [each.metadata.uid for each in await cluster.claims()] == [kept.metadata.uid]
        await cluster.api.delete(CapacityBuffer, "spare", "default")
        await cluster.wait(120)
        assert await cluster.claims() == []

    run(story)


def test_buf_3_a_real_pod_takes_the_room_and_the_buffer_is_filled_again() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(replicas=1))
        await join_all(cluster)
        (first,) = await cluster.claims()
        await cluster.create(pending_pod(cpu="1500m"))
        await cluster.wait(5)
        (nominated,) = await cluster.events("Nominated")
        assert f"node-{first.metadata.name}" in nominated.message
        await cluster.bind("web-0", f"node-{first.metadata.name}")
        await cluster.wait(20)
        assert len(await cluster.claims()) == 2
        await join_all(cluster)
        await cluster.wait(300)
        assert len(await cluster.claims()) == 2

    run(story)


def test_buf_3_larger_virtual_pods_do_not_come_before_real_ones() -> None:
    """A node with room for one of the two: the real pod gets it, the virtual one a new node."""

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(cpu="1700m"), buffer(replicas=1))
        await join_all(cluster)
        (first,) = await cluster.claims()
        await cluster.create(pending_pod(cpu="500m"))
        await cluster.wait(25)
        (event,) = await cluster.events("Nominated")
        assert f"node-{first.metadata.name}" in event.message
        assert len(await cluster.claims()) == 2

    run(story)


def test_buf_3_virtual_pods_need_no_volumes_and_are_never_created_or_reported() -> None:
    async def story(cluster: ControlledCluster) -> None:
        volumes = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]
        too_large = pod_template("large", cpu="900")
        await start(
            cluster,
            pod_template(volumes=volumes),
            too_large,
            buffer(replicas=1),
            buffer("never", podTemplateRef={"name": "large"}, replicas=1),
        )
        assert len(await cluster.claims()) == 1
        assert await cluster.pods() == []
        assert await cluster.events("FailedScheduling") == []
        assert (await status(cluster, "never"))[1]["Provisioning"][1] == "RequiresNewCapacity"

    run(story)


def test_buf_3_virtual_pods_have_the_lowest_priority_and_the_same_identity_in_every_process() -> (
    None
):
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "cache", "emptyDir": {}},
    ]
    seen: list[dict[str, Pod]] = []

    async def story(cluster: ControlledCluster) -> None:
        await cluster.set_up()
        template = pod_template(volumes=volumes, priority=1000, priorityClassName="high")
        await cluster.create(template, buffer(replicas=2), buffer("other", replicas=1))
        for _ in range(2):
            alone = ControllersAlone(cluster, *BUFFER_KINDS)
            virtual = VirtualPods(alone.context.cache)
            await alone.start([CapacityBuffers(alone.context, virtual)])
            await cluster.wait(5)
            seen.append(virtual.wire_pods())
            await alone.stop()

    run(story)
    first, second = seen
    assert first == second
    assert len({pod.metadata.uid for pod in first.values()}) == len(first) == 3
    for pod in first.values():
        assert (pod.spec.priority, pod.spec.priorityClassName) == (-(2**31), "")
        assert [each.name for each in pod.spec.volumes or ()] == ["cache"]
        stated = pod.metadata.annotations or {}
        assert stated["karpenter.sh/capacity-buffer-fake-pod"] == "true"
        assert stated["karpenter.sh/capacity-buffer-namespace"] == "default"
    names = [
        (each.metadata.annotations or {})["karpenter.sh/capacity-buffer-name"]
        for each in first.values()
    ]
    assert sorted(names) == ["other", "spare", "spare"]


def test_buf_3_a_virtual_pod_comes_after_a_real_one_of_any_priority() -> None:
    """One node of a limited pool: it is launched for the real pod, and the buffer goes without."""

    async def story(cluster: ControlledCluster) -> None:
        spec = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]}
        await cluster.set_up(node_pool(template={"spec": spec}, limits={"nodes": "1"}))
        await cluster.create(pod_template(cpu="1700m", priority=1000), buffer(replicas=1))
        await cluster.create(pending_pod(cpu="1500m", spec={"priority": -1000}))
        cluster.start()
        await cluster.wait(30)
        (nominated,) = await cluster.events("Nominated")
        assert (await cluster.claim()).metadata.name in nominated.message
        assert (await status(cluster))[1]["Provisioning"] == ("False", "RequiresNewCapacity")

    run(story)


def reservation(total: int = 5) -> CloudReservation:
    zone = "us-east-1a"
    return CloudReservation(
        id="cr-1", instanceType="m5.large", availabilityZone=zone, total=total, tags={"team": "web"}
    )


async def start_with_reservation(
    cluster: ControlledCluster,
    *objects: Any,
    values: tuple[str, ...] = (RESERVED, ON_DEMAND),
    **spec: Any,
) -> None:
    terms = [{"tags": {"team": "web"}}]
    requirements = [{"key": CAPACITY_TYPE, "operator": "In", "values": [*values]}]
    await cluster.create(
        discovered_node_class(capacityReservationSelectorTerms=terms),
        node_pool(template={"spec": {"requirements": requirements}}, **spec),
        *objects,
    )
    cluster.start()
    await cluster.wait(30)


def labels_of(claims: list[NodeClaim], key: str) -> list[str]:
    return sorted((claim.metadata.labels or {})[key] for claim in claims)


def test_buf_3_a_reservation_is_not_filled_in_advance() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start_with_reservation(cluster, pod_template(), buffer(replicas=2))
        found = labels_of(await cluster.claims(), CAPACITY_TYPE)
        assert found
        assert set(found) == {ON_DEMAND}

    run(story, reservation())


def test_buf_3_a_pool_of_reservations_alone_gets_no_node_for_a_buffer() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start_with_reservation(
            cluster, pod_template(), buffer(replicas=2), values=(RESERVED,)
        )
        assert await cluster.claims() == []

    run(story, reservation())


def test_buf_3_room_on_a_reserved_node_counts_but_does_not_keep_it() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start_with_reservation(cluster, values=(RESERVED,))
        await cluster.create(pending_pod(cpu="500m"))
        await cluster.wait(20)
        await join_all(cluster)
        (node,) = await cluster.nodes()
        await cluster.bind("web-0", node.metadata.name)
        await cluster.create(pod_template(cpu="500m"), buffer(replicas=1))
        await cluster.wait(20)
        assert (await status(cluster))[1]["Provisioning"] == ("True", "FitsExistingCapacity")
        await cluster.api.delete(Pod, "web-0", "default")
        await cluster.stop_pods()
        await cluster.wait(120)
        assert await cluster.claims() == []

    run(story, reservation())


def test_buf_3_a_static_pool_may_fill_a_reservation_in_advance() -> None:
    """Somebody asked for these very nodes; the room on them counts for a buffer."""

    async def story(cluster: ControlledCluster) -> None:
        requirements = [{"key": CAPACITY_TYPE, "operator": "In", "values": [RESERVED]}]
        await cluster.create(
            discovered_node_class(capacityReservationSelectorTerms=[{"tags": {"team": "web"}}]),
            node_pool(template={"spec": {"requirements": requirements}}, replicas=2),
            pod_template(),
            buffer(replicas=2),
        )
        cluster.start()
        await cluster.wait(30)
        assert labels_of(await cluster.claims(), CAPACITY_TYPE) == [RESERVED, RESERVED]
        await join_all(cluster)
        assert (await status(cluster))[1]["Provisioning"] == ("True", "FitsExistingCapacity")
        assert len(await cluster.claims()) == 2

    static = PlanOptions(static_capacity=True)
    both = ControllerSettings(capacity_buffer=True, plan_options=static)
    run(story, reservation(), settings=both)


@pytest.mark.parametrize("has_real_pod", [False, True])
def test_con_22_a_node_of_a_buffer_is_replaced_by_a_cheaper_one_with_the_same_room(
    has_real_pod: bool,
) -> None:
    """Whatever the annotations of the template say, and beside a real pod as well."""

    async def story(cluster: ControlledCluster) -> None:
        larger = pod_template(cpu="3")
        larger = msgspec.structs.replace(
            larger,
            template=msgspec.structs.replace(
                larger.template,
                metadata=msgspec.structs.replace(
                    larger.template.metadata,
                    annotations={"karpenter.sh/do-not-disrupt": "true"},
                ),
            ),
        )
        await start(cluster, larger, buffer(replicas=1))
        assert labels_of(await cluster.claims(), INSTANCE_TYPE) == ["m5.xlarge"]
        await join_all(cluster)
        if has_real_pod:
            await cluster.create(pending_pod(cpu="300m"))
            await cluster.bind("web-0", (await cluster.nodes())[0].metadata.name)
        smaller = {"containers": pod_spec(cpu="1")["containers"]}
        await cluster.api.patch(PodTemplate, "unit", {"template": {"spec": smaller}}, "default")
        for _ in range(6):
            await cluster.wait(30)
            await join_all(cluster)
            await cluster.stop_pods()
        assert labels_of(await cluster.claims(), INSTANCE_TYPE) == ["m5.large"]

    run(story)


def test_buf_3_a_node_with_less_room_than_planned_is_not_followed_by_another_at_once() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(replicas=1))
        counts = []
        for _ in range(12):
            joined = {node.metadata.name for node in await cluster.nodes()}
            for claim in await cluster.claims():
                if f"node-{claim.metadata.name}" not in joined:
                    small = {"cpu": "1", "memory": "512Mi", "pods": "29"}
                    await cluster.join(claim, status={"allocatable": small})
            await cluster.wait(10)
            counts.append(cluster.metrics.value(NODECLAIMS_CREATED, **CREATED))
        assert counts[-1] == 2

    run(story)


CREATED = {"reason": "capacity_buffer", "nodepool": "web", "min_values_relaxed": "false"}


@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0])
def test_a_node_of_a_buffer_and_one_for_pods_together_keep_to_the_limits(after: float) -> None:
    """Each is planned before the other is created, and keeps to the limit by itself."""

    async def story(cluster: ControlledCluster) -> None:
        cluster.port = cast(Cluster, SlowClaimCreations(cluster, 3.0))
        spec = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]}
        await cluster.set_up(node_pool(template={"spec": spec}))
        cluster.start()
        await cluster.wait(30)
        await cluster.create(pod_template(), buffer(replicas=2))
        await cluster.wait(after)
        await cluster.create_pod("web-0", cpu="3000m")
        await cluster.wait(60)
        assert len(cluster.instances()) == len(await cluster.claims()) == 1

    limits = ClusterLimits(nodes=1)
    options = PlanOptions(cluster_limits=limits)
    run(story, settings=msgspec.structs.replace(BUFFERS, plan_options=options))


def test_a_node_of_a_buffer_that_is_still_being_created_counts_where_another_is_refused() -> None:
    async def story(cluster: ControlledCluster) -> None:
        cluster.port = cast(Cluster, SlowClaimCreations(cluster, 20.0, refused={1}))
        await start(cluster, pod_template(cpu="3500m"), buffer(replicas=2))
        await cluster.wait(90)
        assert len(cluster.instances()) == len(await cluster.claims()) == 2

    options = PlanOptions(cluster_limits=ClusterLimits(nodes=2))
    run(story, settings=msgspec.structs.replace(BUFFERS, plan_options=options))


def test_without_the_gate_buffers_are_ignored() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await start(cluster, pod_template(), buffer(replicas=1))
        assert await cluster.claims() == []
        assert (await cluster.api.get(CapacityBuffer, "spare", "default")).status is None

    run(story, settings=ControllerSettings())


def test_buffers_of_other_strategies_are_left_to_others() -> None:
    async def story(cluster: ControlledCluster) -> None:
        other = buffer(replicas=1, provisioningStrategy="example.com/standby")
        await start(cluster, pod_template(), other)
        assert await cluster.claims() == []
        assert (await cluster.api.get(CapacityBuffer, "spare", "default")).status is None

    run(story)


# Consolidation


async def _room_of_a_buffer_is_taken(cluster: ControlledCluster) -> None:
    """Of two nodes that go together one is drained; the pod is bound where the buffer has its room,
    not where the plan had it."""
    disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    spec = {"requirements": [{"key": CAPACITY_TYPE, "operator": "In", "values": [ON_DEMAND]}]}
    await start(cluster, pool=node_pool(disruption=disruption, template={"spec": spec}))
    made = await cluster.api.create(workload(ReplicaSet, 2))
    uid = made.metadata.uid
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid}
    owned = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    roomy = await cluster.add_node("other", cpu="900m", **kept)
    await cluster.create_pod("filler", cpu="1")
    await cluster.bind("filler", roomy.metadata.name)
    for name in ("web-0", "web-1"):
        await cluster.create_pod(name, cpu="950m", **owned)
        await cluster.wait(20)
        (claim,) = [
            each for each in await cluster.claims() if not (each.status and each.status.nodeName)
        ]
        node = await cluster.join(claim)
        await cluster.bind(name, node.metadata.name)
        await cluster.create_pod(f"filler-{name}", cpu="900m", **kept)
        await cluster.bind(f"filler-{name}", node.metadata.name)
    await cluster.create(pod_template(cpu="1", memory="100Mi"), buffer(replicas=1))
    for name in ("filler", "filler-web-0", "filler-web-1"):
        await cluster.api.delete(Pod, name, "default", grace_period=0)
    leaving: list[Pod] = []
    while not leaving:
        await cluster.wait(1)
        assert cluster.clock.now() < cluster.began + 600
        leaving = [each for each in await cluster.pods() if each.metadata.deletionTimestamp]
    (evicted,) = leaving
    await cluster.stop_pods()
    await cluster.create_pod(evicted.metadata.name, cpu="950m", **owned)
    await cluster.bind(evicted.metadata.name, roomy.metadata.name)
    await cluster.wait(60)


def test_a_removal_for_which_a_buffer_needs_a_new_node_is_undone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        await _room_of_a_buffer_is_taken(cluster)
        (new,) = [
            each for each in await cluster.claims() if not (each.status and each.status.nodeName)
        ]
        assert (new.metadata.annotations or {})[UNDONE_CONSOLIDATIONS] == "1"
        (event,) = await cluster.events("ConsolidationUndone")
        assert event.message.startswith("Launched for capacity buffers after consolidation had")

    run(story)


def test_a_reserved_node_that_goes_empty_and_whose_room_a_buffer_needs_is_undone_too() -> None:
    """A reserved node is not kept for a buffer; what takes its place must not become a reserved one
    again, and so on."""

    async def story(cluster: ControlledCluster) -> None:
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
        await start_with_reservation(
            cluster, pod_template(cpu="1", memory="100Mi"), disruption=disruption
        )
        await cluster.add_node("web-0", cpu="500m")
        (reserved,) = await cluster.claims()
        assert (reserved.metadata.labels or {})[CAPACITY_TYPE] == RESERVED
        await cluster.create(buffer(replicas=1))
        await cluster.wait(30)
        assert len(await cluster.claims()) == 1
        await cluster.api.delete(Pod, "web-0", "default", grace_period=0)
        await cluster.wait(120)
        (new,) = await cluster.claims()
        assert (new.metadata.labels or {})[CAPACITY_TYPE] != RESERVED
        assert (new.metadata.annotations or {})[UNDONE_CONSOLIDATIONS] == "1"

    run(story, reservation(total=1))


def test_each_removal_that_takes_room_of_buffers_is_backed_off_from_for_longer() -> None:
    """Whichever node it takes: virtual pods move, so that each would be the first of its own."""

    async def story(cluster: ControlledCluster) -> None:
        disruption = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
        await start_with_reservation(
            cluster, pod_template(cpu="1", memory="100Mi"), disruption=disruption
        )
        for name in ("web-0", "web-1"):
            await cluster.add_node(name, cpu="500m", memory="4Gi")
        assert labels_of(await cluster.claims(), CAPACITY_TYPE) == [RESERVED, RESERVED]
        await cluster.create(buffer(replicas=2))
        await cluster.wait(30)
        counts = []
        for name in ("web-0", "web-1"):
            await cluster.api.delete(Pod, name, "default", grace_period=0)
            await cluster.wait(120)
            await join_all(cluster)
            annotations = [each.metadata.annotations or {} for each in await cluster.claims()]
            counts.append(sorted(each.get(UNDONE_CONSOLIDATIONS, "0") for each in annotations))
        assert counts == [["0", "1"], ["1", "2"]]

    run(story, reservation(total=2))
