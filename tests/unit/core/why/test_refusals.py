"""Refusals: why nodes of the cluster do not take a pod, and what other pods have to do with it."""

import msgspec
from tests.support.model import asking
from tests.support.tiedmodel import company, machine, planned, pods, spread, standing

from wainwright.model.attachments import Attachment, HostPort
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.node import Node
from wainwright.model.pod import Bonds, Pod
from wainwright.model.reason import Count, Kept, NotNear, Reason, TooNear, Uneven, Untolerated
from wainwright.model.refusal import OtherLabels, OutOfBounds, PortTaken, TooLittle, TooManyVolumes
from wainwright.model.taints import Taint


def verdicts(pod: Pod, *nodes: Node) -> list[tuple[int, Reason]]:
    made = planned([pod], pools=(), nodes=nodes)
    return [(each.nodes, each.reason) for each in made.unschedulable[0].nodes]


def test_nodes_with_the_same_reason_are_counted_and_the_nearest_is_named() -> None:
    (big,) = pods(1, cpu=5000)
    small = [standing(f"n{n}", "zone-a", cpu=1000 * n) for n in range(3)]
    assert verdicts(big, *small) == [(3, TooLittle(resource="cpu", short=3000, node="n2"))]


def test_each_node_is_told_by_its_first_reason() -> None:
    (pod,) = pods(
        1,
        cpu=500,
        bonds=Bonds(
            ports=(HostPort(port=80),),
            attachments=(Attachment(driver="ebs", volume="new"),),
            anti_affinity=(company(HOSTNAME, "db"),),
        ),
        alternatives=(asking(ZONE, "In", "zone-a"),),
    )
    taint = Taint(key="team")
    tainted = msgspec.structs.replace(standing("tainted", "zone-z"), taints=(taint,))
    busy = standing("busy", "zone-a", *pods(1, "p", bonds=Bonds(ports=(HostPort(port=80),))))
    full = standing(
        "full",
        "zone-a",
        *pods(1, "v", bonds=Bonds(attachments=(Attachment(driver="ebs", volume="old"),))),
    )
    full = msgspec.structs.replace(full, attach_limits={"ebs": 1})
    found = verdicts(
        pod,
        tainted,
        standing("elsewhere", "zone-b"),
        standing("tiny", "zone-a", cpu=100),
        busy,
        full,
        standing("shunned", "zone-a", *pods(1, "db")),
    )
    assert sorted((type(reason).__name__, count) for count, reason in found) == [
        ("OtherLabels", 1),
        ("OutOfBounds", 1),
        ("PortTaken", 1),
        ("TooLittle", 1),
        ("TooManyVolumes", 1),
        ("Untolerated", 1),
    ]
    reasons = [reason for _, reason in found]
    assert Untolerated(taint=taint) in reasons
    assert OtherLabels(key=ZONE) in reasons
    assert PortTaken(ports=(80,)) in reasons
    assert TooManyVolumes(driver="ebs") in reasons
    assert OutOfBounds() in reasons


def kept(pod: Pod, *nodes: Node, zones: tuple[str, ...] = ("zone-a",)) -> object:
    made = planned([pod], machine(zones=zones), nodes=nodes)
    reason = made.unschedulable[0].reason
    assert isinstance(reason, Kept)
    return reason.by


def test_a_spread_is_told_with_the_counts_of_every_domain() -> None:
    crowd = standing("n", "zone-a", *pods(2, "web", cpu=1), cpu=2)
    (pod,) = pods(1, "x", bonds=spread(app="web"))
    pod = msgspec.structs.replace(pod, labels={"app": "web"})
    empty = standing("m", "zone-b", cpu=0)
    assert kept(pod, crowd, empty) == (
        Uneven(
            key=ZONE,
            max_skew=1,
            counts=(Count(place="zone-a", pods=2), Count(place="zone-b", pods=0)),
            left=("zone-b",),
        ),
    )


def test_company_that_is_missing_is_told_with_the_selector() -> None:
    (pod,) = pods(1, bonds=Bonds(affinity=(company(app="ghost"),)))
    assert kept(pod) == (NotNear(key=ZONE, pods="app=ghost", left=()),)


def test_who_has_taken_the_places_is_told_and_who_does_not_want_whom() -> None:
    shy = Bonds(anti_affinity=(company(app="web"),))
    node = standing("n", "zone-a", *pods(1, "db", cpu=1), cpu=1)
    (pod,) = pods(1, "x", bonds=Bonds(anti_affinity=(company(app="db"),)))
    assert kept(pod, node) == (TooNear(key=ZONE, pods="app=db", taken=("zone-a",)),)
    (web,) = pods(1)
    other = standing("n", "zone-a", *pods(1, "shy", cpu=1, bonds=shy), cpu=1)
    assert kept(web, other) == (TooNear(key=ZONE, pods="app=web", taken=("zone-a",), theirs=True),)
