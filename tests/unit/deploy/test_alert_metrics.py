"""What alerts look at is exported whatever the settings are."""

from tests.support.alerts import ALERTS, selectors
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster
from tests.support.scraped_metrics import ScrapedMetrics

from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.controllers.settings import BreakerSettings, ControllerSettings
from wainwright.metrics import LEADER_STATUS

WITHOUT_OBSERVABILITY = ControllerSettings(
    cluster_state_observability=False, breaker=BreakerSettings(share=0.5)
)
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
TYPE = "m5.large"
"""Too small for two of the pods."""
REGISTRATION_TIMEOUT = 15 * 60


async def start(cluster: ControlledCluster) -> None:
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
    template = {"spec": {"requirements": [ON_DEMAND]}}
    limits = {"cpu": "1000"}
    await cluster.set_up(node_pool(template=template, disruption=disruption, limits=limits))
    cluster.start()
    await cluster.wait(5)


async def lose_a_replacement(cluster: ControlledCluster) -> None:
    """A drifted node stays, because the one that should replace it does not."""
    await cluster.add_node("web-0", cpu="1500m")
    change = {"spec": {"template": {"metadata": {"labels": {"tier": "front"}}}}}
    await cluster.api.patch(NodePool, "web", change)
    await cluster.wait(20)
    (replacement,) = (
        each
        for each in await cluster.claims()
        if "wainwright.dev/replaces" in (each.metadata.annotations or {})
    )
    await cluster.api.delete(NodeClaim, replacement.metadata.name)
    await cluster.wait(5)


async def launch_what_never_joins(cluster: ControlledCluster) -> None:
    await cluster.create_pod("web-1", cpu="1500m")
    await cluster.wait(REGISTRATION_TIMEOUT + 60)


async def launch_without_capacity(cluster: ControlledCluster) -> None:
    cluster.account.change({"stock": [{"instanceType": TYPE, "free": 0}]})
    await cluster.create_pod("web-2", cpu="1500m")
    await cluster.wait(30)


async def interrupt(cluster: ControlledCluster) -> None:
    """Of the node that has joined; EC2 does not let its instance be ended."""
    cluster.account.change({"faults": [{"operation": "TerminateInstances"}]})
    for each in await cluster.claims():
        if each.status is not None and each.status.nodeName:
            instance = each.status.providerID.rpartition("/")[2]
            cluster.account.change({"interruptions": [{"instance": instance, "kind": "spot"}]})
    await cluster.wait(1)
    await cluster.stop_pods()
    await cluster.wait(60)


STEPS = (lose_a_replacement, launch_what_never_joins, launch_without_capacity, interrupt)


def test_the_metrics_of_alerts_are_exported_without_observability_of_the_state() -> None:
    exported = set[str]()
    wanted = {str(each.name) for alert in ALERTS for each in selectors(alert["expr"])}
    assert len(wanted) > len(ALERTS)
    wanted.remove(LEADER_STATUS.name)  # of the process: tests/unit/operator/test_process.py

    async def story(cluster: ControlledCluster) -> None:
        await start(cluster)
        for step in STEPS:
            await step(cluster)
            scraped = ScrapedMetrics(cluster.metrics)
            exported.update(name for name in wanted if scraped.values(name))

    run_cluster(story, settings=WITHOUT_OBSERVABILITY, instanceTypes=[TYPE])
    assert exported == wanted, wanted - exported
