"""How good packing by cost is, and what it minds: the price of a batch beside the lower bound."""

import msgspec
import pytest
from tests.support.catalogue import built
from tests.support.model import asking
from tests.support.yards import fleet, packing, planned, pods

from wainwright.model.labels import INSTANCE_CATEGORY, INSTANCE_GENERATION
from wainwright.model.pool import Pool


def test_fees() -> None:
    """Where a node costs something beside its price, fewer and larger ones are bought."""
    agents = [msgspec.structs.replace(kind, fee=0.2) for kind in fleet()]
    free, charged = planned(pods(90), fleet()), planned(pods(90), agents)
    assert charged.scheduled == 90
    assert len(charged.claims) < len(free.claims)
    assert packing(charged).cost == pytest.approx(charged.price + charged.fees)


def test_three_hundred_plain_pods_cost_little_more_than_the_bound() -> None:
    general = asking(INSTANCE_CATEGORY, "In", "c", "m", "r").narrow(
        asking(INSTANCE_GENERATION, "Gt", "2")
    )
    types = [kind for kind in built().types if kind.offerings]
    made = planned(pods(300), types, pools=[Pool(name="general", requirements=general)])
    assert made.scheduled == 300
    assert packing(made).saved > 0
    above = packing(made).above_bound
    assert above is not None
    assert above <= 0.05
