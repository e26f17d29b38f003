"""What keeps pods off a reservation, in words."""

import pytest

from wainwright.model.obstacle import (
    Crowded,
    Elsewhere,
    HeavierPool,
    NodesFirst,
    Obstacle,
    OutOfStock,
    PoolForbids,
    PortsTaken,
    Prefers,
    Tied,
    TooSmall,
)
from wainwright.model.preference import OnNodes
from wainwright.model.reason import NoPoolFits, PoolUnusable
from wainwright.model.values import one_of
from wainwright.report.obstacles import obstacle

SMALL = TooSmall(resource="cpu", needed=1500, room=1430, instance_type="m5.large", daemonsets=500)
BARE = TooSmall(resource="memory", needed=2**33, room=2**32, instance_type="m5.large")
TOLD: list[tuple[Obstacle, int, str]] = [
    (SMALL, 1, "needs 1500m cpu, and m5.large has room for 1430m after 500m for daemonsets"),
    (BARE, 3, "need at least 8Gi memory, and m5.large has room for 4Gi"),
    (
        PoolForbids(key="arch", wanted=one_of(["arm64"]), offered=one_of(["amd64"])),
        1,
        "the pool asks for arch In [arm64], and there it is In [amd64]",
    ),
    (
        PoolForbids(key="disk", wanted=one_of(["ssd"]), offered=None),
        1,
        "the pool asks for disk In [ssd], and machines there lack it",
    ),
    (PortsTaken(ports=(80, 443)), 1, "a daemonset takes port 80, 443 there"),
    (OutOfStock(instance_type="m5.large"), 1, "m5.large cannot be bought there now"),
    (NodesFirst(), 1, "there was room on nodes of the input, which come before new ones"),
    (
        HeavierPool(pool="heavy", weight=10, own=0),
        1,
        "heavy was asked first, by its weight of 10 over 0",
    ),
    (
        Prefers(preference=OnNodes(requirements="zone In [b]", weight=7)),
        1,
        "it would rather be elsewhere: to be on nodes with zone In [b] (weight 7)",
    ),
    (
        Prefers(preference=OnNodes(requirements="zone In [b]", weight=7)),
        2,
        "they would rather be elsewhere: to be on nodes with zone In [b] (weight 7)",
    ),
    (Tied(keys=("zone",)), 1, "spread or affinity by zone puts it elsewhere"),
    (Tied(keys=("zone", "rack")), 2, "spread or affinity by zone, rack puts them elsewhere"),
    (Tied(keys=("zone",), theirs=True), 1, "pods that shun it are there, by zone"),
    (Tied(keys=("zone",), theirs=True), 2, "pods that shun them are there, by zone"),
    (Crowded(), 1, "other pods or spreads keep it off"),
    (Crowded(), 2, "other pods or spreads keep them off"),
    (Elsewhere(pool="rest"), 1, "it went to a new node of rest"),
    (Elsewhere(pool="rest"), 2, "they went to new nodes of rest"),
    (PoolUnusable(why="it is being deleted"), 1, "it launches nothing: it is being deleted"),
    (NoPoolFits(), 1, "no pool can launch a node for it"),
]


@pytest.mark.parametrize(("reason", "pods", "told"), TOLD, ids=lambda each: type(each).__name__)
def test_an_obstacle_is_half_a_sentence(reason: Obstacle, pods: int, told: str) -> None:
    assert obstacle(reason, pods) == told
