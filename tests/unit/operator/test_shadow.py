"""Shadow mode: another controller works on the cluster, and is compared with a dry run."""

import logging

import msgspec
import pytest
from tests.support.controlled_cluster import pending_pod
from tests.support.operator_world import CLOUD, World, play

from wainwright.api.catalog_documents import Cloud
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.workloads import Pod
from wainwright.operator import dry_run
from wainwright.operator.process import EMULATOR, RunOptions
from wainwright.operator.shadow import ShadowSummary

ON_DEMAND = {
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ]
            }
        }
    }
}


def with_types(*names: str) -> Cloud:
    return msgspec.structs.replace(
        CLOUD, spec=msgspec.structs.replace(CLOUD.spec, instanceTypes=[*names])
    )


def summaries(caplog: pytest.LogCaptureFixture, theirs: Cloud, ours: Cloud) -> list[str]:
    """Three pods get nodes, and two of them go."""

    async def story(world: World) -> None:
        await world.api.patch(NodePool, "web", ON_DEMAND)
        world.run(RunOptions(provider=EMULATOR, cloud=theirs, emulator_boot=5.0))
        shadow = world.run(RunOptions(provider=EMULATOR, cloud=ours, dry_run=True))
        await world.clock.sleep(30)
        for number in range(3):
            await world.api.create(pending_pod(f"web-{number}", cpu="1500m"))
            await world.clock.sleep(60)
        for number in range(2):
            await world.api.delete(Pod, f"web-{number}", "default")
        await world.clock.sleep(300)
        await shadow.stop()

    with caplog.at_level(logging.INFO, logger="wainwright.operator.dry_run"):
        play(story)
    return [each.message for each in caplog.records if each.message.startswith("beside Karpenter")]


def test_the_same_decisions_are_the_same(caplog: pytest.LogCaptureFixture) -> None:
    [text] = summaries(caplog, with_types("m5.large"), with_types("m5.large"))
    assert text == (
        "beside Karpenter: Karpenter launched 3 nodes, 3 of them as Wainwright would have; "
        "it disrupted 2 nodes, 2 of them as Wainwright would have; both cost the same"
    )


def test_other_launches_are_counted_with_their_prices(caplog: pytest.LogCaptureFixture) -> None:
    [text] = summaries(caplog, with_types("m5.2xlarge"), with_types("m5.2xlarge", "m5.large"))
    launches, _, rest = text.partition("; ")
    assert launches == (
        "beside Karpenter: Karpenter launched 1 node, 0 of them as Wainwright would have, "
        "1 for $0.384/h where Wainwright would have launched 1 for $0.096/h"
    )
    assert rest.endswith("less")


def test_there_is_a_summary_every_day(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With days of three minutes: every look of a day would be planned."""
    monkeypatch.setattr(dry_run, "SUMMARY_SECONDS", 180.0)
    cloud = with_types("m5.large")
    first, second = summaries(caplog, cloud, cloud)
    assert "launched 3 nodes" in first
    assert "it disrupted 2 nodes, 2 of them as Wainwright would have" in second


def test_nobody_else_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.api.create(pending_pod())
        await (world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True, once=True))).task

    with caplog.at_level(logging.INFO, logger="wainwright.operator.dry_run"):
        play(story)
    assert not [each for each in caplog.records if "beside" in each.message]


def test_what_both_save_counts_in_the_difference() -> None:
    summary = ShadowSummary(
        launched=2, same_launches=1, their_price=0.4, our_launches=1, our_price=0.3
    )
    assert summary.difference == pytest.approx(-0.1)
    summary.their_saving, summary.our_saving, summary.only_ours = 0.1, 0.3, 1
    assert summary.difference == pytest.approx(-0.3)
    assert summary.describe().endswith(
        "Wainwright alone 1 node; Wainwright's decisions would cost $0.300/h less"
    )
