"""What was given up is told once for those who gave up the same, with the price of keeping it."""

from tests.support.model import asking
from tests.support.tiedmodel import company, machine, planned, pods

from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import Bonds, PreferredNodes
from wainwright.model.pool import Pool
from wainwright.model.preference import AwayFromPods, OnNodes
from wainwright.model.topology import Preferred


def liking(zone: str) -> Bonds:
    wanted = PreferredNodes(weight=7, requirements=asking(ZONE, "In", zone))
    return Bonds(preferred_nodes=(wanted,))


def test_pods_that_gave_up_the_same_are_told_together() -> None:
    made = planned([*pods(3, bonds=liking("zone-x")), *pods(1, "db", bonds=liking("zone-y"))])
    assert [group.pods for group in made.relaxed] == [
        ("shop/db-0",),
        ("shop/web-0", "shop/web-1", "shop/web-2"),
    ]
    assert made.relaxed[1].given_up == (OnNodes(requirements=f"{ZONE} In [zone-x]", weight=7),)


def test_what_cannot_be_had_has_no_price() -> None:
    assert planned(pods(1, bonds=liking("zone-x"))).relaxed[0].kept_price is None


def test_what_could_be_had_is_priced_by_the_cheapest_node_that_keeps_it() -> None:
    """A pool of one node: the second pod shares it, though it would rather be alone."""
    alone = Preferred(weight=1, term=company(HOSTNAME))
    small = Pool(name="small", limits={"nodes": 1})
    made = planned(
        pods(2, bonds=Bonds(preferred_anti_affinity=(alone,))), machine(price=3.0), pools=(small,)
    )
    assert len(made.claims) == 1
    assert [group.given_up for group in made.relaxed] == [
        (AwayFromPods(term=company(HOSTNAME), weight=1),)
    ]
    assert made.relaxed[0].kept_price == 3.0


def test_who_gives_up_nothing_is_not_told() -> None:
    assert planned(pods(2, bonds=liking("zone-b"))).relaxed == ()
