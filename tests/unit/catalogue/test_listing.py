"""What a listing narrows to, and how it is sorted."""

from tests.support.model import GIB, asking, instance_type, offering

from wainwright.catalogue.listing import Order, Wanted, cheapest, cpu, listing, memory
from wainwright.model.index import TypeIndex
from wainwright.model.labels import INSTANCE_CPU, INSTANCE_MEMORY, RESERVATION_ID

PLAIN = instance_type(name="plain", offerings=(offering(price=2.0), offering(zone=None, price=3.0)))
SPOT = instance_type(name="spot", offerings=(offering(capacity_type="spot", price=1.0),))
RESERVED = instance_type(
    name="reserved",
    offerings=(offering(capacity_type="reserved", price=1e-9, reservation_id="cr-1", available=2),),
)
NOTHING = instance_type(name="nothing", offerings=())
INDEX = TypeIndex([PLAIN, SPOT, RESERVED, NOTHING])


def found(wanted: Wanted = Wanted(), order: Order = Order.NAME) -> dict[str, int]:  # noqa: B008
    return {kind.name: len(kind.offerings) for kind in listing(INDEX, wanted, order)}


def test_nothing_asked_is_everything_with_types_that_cannot_be_bought() -> None:
    assert found() == {"nothing": 0, "plain": 2, "reserved": 1, "spot": 1}


def test_an_offering_for_any_zone_is_for_this_one_too() -> None:
    assert found(Wanted(zones=("zone-b",))) == {"plain": 1}


def test_asking_for_a_market_leaves_out_who_is_not_in_it() -> None:
    assert found(Wanted(capacity_types=("spot", "reserved"))) == {"reserved": 1, "spot": 1}


def test_who_asks_for_a_reservation_gets_no_other_offering() -> None:
    asked = asking(RESERVATION_ID, "In", "cr-1")
    assert found(Wanted(requirements=asked)) == {"reserved": 1}
    assert found(Wanted(requirements=asking(RESERVATION_ID, "In", "cr-2"))) == {}
    assert "reserved" not in found(Wanted(requirements=asking(RESERVATION_ID, "DoesNotExist")))


def test_a_label_that_nobody_knows_narrows_nothing() -> None:
    assert found(Wanted(requirements=asking("example.com/team", "In", "web"))) == {
        "plain": 2,
        "reserved": 1,
        "spot": 1,
    }


def test_the_cheapest_comes_first_and_what_has_no_price_last() -> None:
    assert list(found(order=Order.PRICE)) == ["reserved", "spot", "plain", "nothing"]


def test_sizes_are_those_of_the_machine_as_it_is_sold() -> None:
    sold = instance_type(labels={INSTANCE_CPU: "4", INSTANCE_MEMORY: "16384"})
    assert (cpu(sold), memory(sold)) == (4000, 16 * GIB)
    assert (cpu(PLAIN), memory(PLAIN)) == (2000, 8 * GIB)


def test_what_is_in_stock_goes_before_what_is_cheap() -> None:
    gone, dear = offering(price=1.0, available=0), offering(price=2.0)
    assert cheapest([gone, dear]) is dear
    assert cheapest([gone]) is gone
    assert cheapest([]) is None
