"""`/verdicts` of `wain run`: what becomes of every node as things stand."""

import asyncio
from typing import Any

import aiohttp
import msgspec
from tests.support.controlled_cluster import pending_pod
from tests.support.operator_world import CLOUD, Process, World, play

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.workloads import Pod
from wainwright.metrics import MetricsRegistry
from wainwright.operator.endpoints import EndpointOptions, serve_endpoints
from wainwright.operator.process import EMULATOR, RunOptions
from wainwright.operator.settings import OperatorSettings

ONE_OF_FOUR = OperatorSettings(
    cluster_name="shop", breaker_share=0.25, breaker_nodes=1, breaker_window=3600.0
)

SMALL = msgspec.structs.replace(
    CLOUD, spec=msgspec.structs.replace(CLOUD.spec, instanceTypes=["m5.large"])
)
SMALL_NODES = RunOptions(provider=EMULATOR, cloud=SMALL, emulator_boot=5.0)
DISRUPTED = {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}


async def verdicts(process: Process) -> dict[str, dict[str, Any]]:
    """By node."""
    text = await process.operator.verdicts()
    assert text is not None
    document = msgspec.json.decode(text)
    assert (document["kind"], document["now"][-1]) == ("Verdicts", "Z")
    return {each["node"]: each for each in document["nodes"]}


async def add_nodes(world: World, count: int) -> list[str]:
    """Each with a pod that needs one for itself."""
    for number in range(count):
        await world.api.create(pending_pod(f"web-{number}", cpu="1500m"))
    await world.clock.sleep(60)
    await world.api.patch(NodePool, "web", {"spec": DISRUPTED})
    await world.clock.sleep(60)
    return sorted(node.metadata.name for node in (await world.api.list(Node)).items)


async def delete_pods(world: World, count: int) -> None:
    for number in range(count):
        await world.api.delete(Pod, f"web-{number}", "default", grace_period=0)


def test_a_node_that_stays_has_its_reason_and_price() -> None:
    async def story(world: World) -> None:
        process = world.run(SMALL_NODES)
        assert await process.operator.verdicts() is None, "nothing has been looked at"
        await add_nodes(world, 1)
        (node,) = (await verdicts(process)).values()
        assert (node["verdict"], node["reason"]) == ("kept", "no-saving")
        assert node["message"] == "no cheaper node can run its pod"
        assert (node["nodePool"], node["instanceType"]) == ("web", "m5.large")
        assert node["pricePerHour"] > 0
        assert node["commandInFlight"] is False

    play(story)


def test_nodes_that_the_breaker_keeps_say_until_when() -> None:
    async def story(world: World) -> None:
        process = world.run(SMALL_NODES, ONE_OF_FOUR)
        names = await add_nodes(world, 4)
        await delete_pods(world, 4)
        await world.clock.sleep(120)
        left = [node.metadata.name for node in (await world.api.list(Node)).items]
        assert len(left) == 3
        found = await verdicts(process)
        assert {found[name]["reason"] for name in left} == {"breaker"}
        assert {found[name]["verdict"] for name in left} == {"blocked"}
        assert "too many nodes were removed within a short time" in found[left[0]]["message"]
        assert set(left) < set(names)

    play(story)


def test_a_node_whose_command_is_under_way_has_its_replacement() -> None:
    async def story(world: World) -> None:
        options = RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=60.0)
        process = world.run(options)
        requirement = {"key": "karpenter.sh/capacity-type", "operator": "In"}
        template = {"spec": {"requirements": [{**requirement, "values": ["on-demand"]}]}}
        await world.api.patch(NodePool, "web", {"spec": {"template": template}})
        await world.api.create(pending_pod("web-0", cpu="3500m"))
        await world.api.create(pending_pod("web-1", cpu="200m"))
        await world.clock.sleep(180)
        (node,) = (await world.api.list(Node)).items
        assert (node.metadata.labels or {})["node.kubernetes.io/instance-type"] == "m5.xlarge"
        await world.api.patch(NodePool, "web", {"spec": DISRUPTED})
        await world.api.delete(Pod, "web-0", "default", grace_period=0)
        await world.clock.sleep(60)
        (replacement,) = await world.claims() - {
            each["nodeClaim"]
            for each in (await verdicts(process)).values()
            if each["node"] == node.metadata.name
        }
        found = (await verdicts(process))[node.metadata.name]
        assert found["commandInFlight"] is True
        assert (found["verdict"], found["reason"]) == ("replaced", "underutilized")
        assert f"{replacement} replaces it" in found["message"]

    play(story)


def test_a_request_decides_nothing() -> None:
    """The same commands at the same moments, whether verdicts are requested or not."""

    def removals(*, with_requests: bool) -> list[int]:
        moments: list[int] = []

        async def story(world: World) -> None:
            process = world.run(SMALL_NODES)
            await add_nodes(world, 3)
            await delete_pods(world, 2)
            known = 3
            for _ in range(120):
                await world.clock.sleep(1)
                if with_requests:
                    await process.operator.verdicts()
                count = len((await world.api.list(Node)).items)
                if count != known:
                    moments.append(round(world.clock.now()))
                    known = count

        play(story)
        return moments

    assert removals(with_requests=True) == removals(with_requests=False) != []


def test_a_dry_run_and_a_process_that_stands_by_have_none() -> None:
    async def story(world: World) -> None:
        world.run()
        await world.clock.sleep(30)
        second = world.run()
        dry = world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True))
        await world.clock.sleep(30)
        assert await second.operator.verdicts() is None
        assert await dry.operator.verdicts() is None

    play(story)


def test_they_are_served_as_json_beside_the_metrics() -> None:
    answers: list[bytes | None] = [b"{}", None]

    async def give() -> bytes | None:
        return answers.pop(0)

    async def request() -> None:
        options = EndpointOptions(metrics_port=0, health_port=0)
        metrics = MetricsRegistry()
        async with (
            serve_endpoints(options, metrics, lambda: True, give) as ports,
            aiohttp.ClientSession() as session,
        ):
            url = f"http://127.0.0.1:{ports.metrics}/verdicts"
            async with session.get(url) as response:
                assert (response.status, response.content_type) == (200, "application/json")
                assert await response.json() == {}
            async with session.get(url) as response:
                assert response.status == 503
                assert "another one holds the lease" in await response.text()
            async with session.post(url) as response:
                assert response.status == 405

    asyncio.run(request())
