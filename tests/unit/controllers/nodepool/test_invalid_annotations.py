"""Annotations of ours on NodePools that mean nothing: events and the log name them."""

import logging
from typing import Any

import pytest
from tests.support.controlled_cluster import ControlledCluster, node_pool, run_cluster

from wainwright.api.karpenter.nodepool import NodePool

PAUSED = (
    'wainwright.dev/pause: "true" is not one of all, disruption, provisioning: everything is '
    "paused; did you mean all?"
)
SAVING = (
    'wainwright.dev/minimum-saving: "ten" is not 5% or USD per hour such as 0.05: it is ignored'
)


async def annotate(cluster: ControlledCluster, **annotations: str | None) -> None:
    keys = {f"wainwright.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    await cluster.api.patch(NodePool, "web", {"metadata": {"annotations": keys}})


async def started(cluster: ControlledCluster, **spec: Any) -> None:
    await cluster.set_up(node_pool(**spec))
    cluster.start()
    await cluster.wait(5)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "annotation" in each.name]


def test_an_annotation_that_means_nothing_is_reported_until_it_is_corrected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster)
        await annotate(cluster, pause="true")
        await cluster.wait(60)
        (event,) = await cluster.events("InvalidAnnotation")
        assert (event.type, event.involvedObject.kind, event.involvedObject.name) == (
            "Warning",
            "NodePool",
            "web",
        )
        assert event.message == PAUSED
        await annotate(cluster, voluntary_removals="1 of 2 at 2026-01-01T00:10:00Z")
        await cluster.wait(300)
        assert len(await cluster.events("InvalidAnnotation")) == 1, "nothing else has changed"
        await annotate(cluster, minimum_saving="ten")
        await cluster.wait(5)
        _, second = await cluster.events("InvalidAnnotation")
        assert second.message == f"{PAUSED}; {SAVING}"
        await annotate(cluster, minimum_saving="10%", pause="false")
        await cluster.wait(3600)
        assert len(await cluster.events("InvalidAnnotation")) == 2

    with caplog.at_level(logging.INFO, logger="wainwright.controllers"):
        run_cluster(story)
    assert logged(caplog) == [
        f"NodePool web: {PAUSED}",
        f"NodePool web: {PAUSED}; {SAVING}",
        "NodePool web: its annotations can be read again",
    ]


def test_the_event_is_written_again_while_the_annotation_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: ControlledCluster) -> None:
        await started(cluster)
        await annotate(cluster, puase="all")
        await cluster.wait(2 * 900 + 60)
        events = await cluster.events("InvalidAnnotation")
        assert [each.message for each in events] == [
            "wainwright.dev/puase is not an annotation that a NodePool is known to have: it is "
            "ignored; did you mean wainwright.dev/pause?"
        ] * 3

    with caplog.at_level(logging.INFO, logger="wainwright.controllers"):
        run_cluster(story)
    assert len(logged(caplog)) == 1


def test_nodepools_of_others_are_left_alone() -> None:
    async def story(cluster: ControlledCluster) -> None:
        foreign = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
        await started(cluster, template={"spec": {"nodeClassRef": foreign}})
        await annotate(cluster, pause="true")
        await cluster.wait(60)
        assert await cluster.events("InvalidAnnotation") == []

    run_cluster(story)
