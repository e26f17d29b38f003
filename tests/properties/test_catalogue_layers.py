"""Laws of the layers: reserved prices, round trips, histories, and what order cannot change."""

import json
from fnmatch import fnmatchcase
from itertools import pairwise, product
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.catalogue_builders import (
    build_catalogue,
    catalog_object,
    cloud_object,
    instance_type_object,
    layered_offering,
    node_class_object,
    overlay_object,
)

from wainwright.api.catalog_documents import Catalog, CloudReservation
from wainwright.api.karpenter.ec2nodeclass import CapacityReservationSelectorTerm
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.catalogue.catalog_document import format_catalog
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.offerings.capacity_reservations import (
    ReservationStanding,
    describe_reservation_requests,
    matches_reservation_term,
    price_range,
)
from wainwright.catalogue.queries import price_histories
from wainwright.catalogue.region_catalog import CatalogScope
from wainwright.model.instance_type import UNLIMITED, InstanceType
from wainwright.model.requirements import Requirements

CAPACITY_TYPE, ZONE = "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
ZONES = ("hall-a", "hall-b", "hall-c")
NAMES = ("rack.large", "rack.small", "tower.large")

money = st.floats(1e-4, 500, allow_nan=False)
prices = money | st.just(0.0)


@given(st.lists(money, min_size=1), st.lists(prices, max_size=5), st.data())
def test_reserved_is_below_every_spot_price_in_the_order_of_on_demand_and_never_zero(
    on_demand: list[float], spot: list[float], data: st.DataObject
) -> None:
    offerings = [layered_offering(price=price) for price in on_demand]
    offerings += [layered_offering(price=price, capacity_type="spot") for price in spot]
    found = price_range(offerings)
    cheapest = min([price for price in spot if price] or on_demand)
    one, other = (data.draw(st.sampled_from(on_demand)) for _ in range(2))
    assert 0 < found.reserved_price(one) < cheapest / 999_999
    if one < other:
        assert found.reserved_price(one) <= found.reserved_price(other)
    if one * 1.000001 < other:
        assert found.reserved_price(one) < found.reserved_price(other)


quantities = {
    "cpu": st.integers(0, 10**6).map(lambda milli: f"{milli}m"),
    "memory": st.integers(0, 2**44).map(str) | st.integers(0, 2**20).map(lambda mi: f"{mi}Mi"),
    "pods": st.integers(0, 1000),
    "ephemeral-storage": st.integers(0, 2**20).map(lambda mi: f"{mi}Mi"),
    "hugepages-2Mi": st.integers(0, 64).map(lambda mi: f"{mi}Mi"),
    "example.com/card": st.integers(0, 2000),
}
resources = st.fixed_dictionaries({}, optional=quantities)
labels = st.fixed_dictionaries(
    {},
    optional={
        CAPACITY_TYPE: st.sampled_from(["on-demand", "spot"]),
        ZONE: st.sampled_from(ZONES),
        "example.com/contract": st.sampled_from(["gold", "tin"]),
    },
)
plain_offerings = st.fixed_dictionaries(
    {"labels": labels, "price": prices}, optional={"available": st.sampled_from([0, UNLIMITED])}
)
reserved_offerings = st.fixed_dictionaries(
    {
        "labels": st.just({CAPACITY_TYPE: "reserved", ZONE: "hall-a"}),
        "price": st.floats(1e-14, 1e-6),
        "available": st.integers(0, 20),
        "reservationID": st.sampled_from(["cr-1", "cr-2"]),
    }
)
requirements = st.fixed_dictionaries(
    {"key": st.sampled_from(["example.com/rack", "kubernetes.io/arch", "size"])},
).flatmap(
    lambda key: st.sampled_from(
        [
            key | {"operator": "In", "values": ["1", "2"]},
            key | {"operator": "In", "values": ["1"]},
            key | {"operator": "NotIn", "values": ["3"]},
            key | {"operator": "Exists"},
            key | {"operator": "Gt", "values": ["3"]},
            key | {"operator": "Lte", "values": ["8"]},
        ]
    )
)


def types(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": st.just(name), "capacity": resources},
        optional={
            "overhead": resources,
            "requirements": st.lists(requirements, max_size=4),
            "offerings": st.lists(plain_offerings | reserved_offerings, max_size=6),
        },
    )


catalogs = st.tuples(*map(types, NAMES)).map(lambda each: catalog_object(*each))


@given(catalogs)
def test_a_catalog_written_and_read_is_the_same_to_the_byte(given_one: Catalog) -> None:
    once = format_catalog("dc-1", build_catalogue(catalog=given_one).types)
    read = msgspec.json.decode(once, type=Catalog)
    assert format_catalog("dc-1", build_catalogue(catalog=read).types) == once
    assert build_catalogue(catalog=read).types == build_catalogue(catalog=given_one).types


@given(catalogs)
@settings(max_examples=30)
def test_a_written_catalog_is_valid(given_one: Catalog) -> None:
    printed = json.loads(format_catalog("dc-1", build_catalogue(catalog=given_one).types))
    kind = known_kinds()["wainwright.dev/v1alpha1", "Catalog"]
    assert [fault for fault in validate_object(kind, printed) if not fault.warning] == []


@given(catalogs, st.randoms())
def test_the_order_in_which_a_catalog_is_written_changes_nothing(
    given_one: Catalog, random: Any
) -> None:
    shuffled = list(given_one.instanceTypes)
    random.shuffle(shuffled)
    mixed = [
        msgspec.structs.replace(each, offerings=random.sample(each.offerings, len(each.offerings)))
        if each.offerings
        else each
        for each in shuffled
    ]
    other = Catalog(region="dc-1", instanceTypes=mixed)
    assert build_catalogue(catalog=other).types == build_catalogue(catalog=given_one).types


adjustments = st.sampled_from(["+10%", "-10%", "-100%", "+0.5", "-0.5", "-200"])
overlays = st.builds(
    lambda name, asked, spec, weight: overlay_object(name, *asked, **spec, weight=weight),
    st.sampled_from(["a", "b", "c", "d"]),
    st.lists(
        st.sampled_from(
            [
                (CAPACITY_TYPE, "In", ("spot",)),
                (ZONE, "NotIn", ("hall-a",)),
                ("example.com/rack", "Exists", ()),
                ("node.kubernetes.io/instance-type", "In", ("rack.small",)),
            ]
        ),
        max_size=2,
    ),
    st.one_of(
        adjustments.map(lambda text: {"priceAdjustment": text}),
        st.just({"price": "2.5"}),
        st.just({"capacity": {"example.com/card": "7"}}),
    ),
    st.none() | st.integers(1, 3),
)
unique_overlays = st.lists(overlays, max_size=4, unique_by=lambda each: each.metadata.name)
declared_offerings = st.builds(
    lambda stated, price: stated if price is None else stated | {"karpenter.sh/price": price},
    labels,
    st.none() | prices,
)
declarations = st.builds(
    lambda name, offerings, resources: instance_type_object(
        name,
        **{k: v for k, v in (("offerings", offerings), ("resources", resources)) if v is not None},
    ),
    st.sampled_from([*NAMES, "nobody"]),
    st.none() | st.lists(declared_offerings, max_size=3),
    st.none() | resources,
)
unique_declarations = st.lists(declarations, max_size=3, unique_by=lambda each: each.metadata.name)
reservations = st.builds(
    lambda number, name, zone, total: {
        "id": f"cr-{number}",
        "instanceType": name,
        "availabilityZone": zone,
        "total": total,
    },
    st.integers(1, 4),
    st.sampled_from([*NAMES, "nobody"]),
    st.sampled_from(ZONES),
    st.integers(0, 9),
)
clouds = st.builds(
    lambda found, priced, short: cloud_object(
        region="dc-1", capacityReservations=found, prices=priced, unavailable=short
    ),
    st.lists(reservations, max_size=4, unique_by=lambda each: each["id"]),
    st.lists(
        st.fixed_dictionaries(
            {
                "instanceType": st.sampled_from(NAMES),
                "capacityType": st.sampled_from(["spot", "on-demand"]),
                "price": prices,
            },
            optional={"zone": st.sampled_from(ZONES)},
        ),
        max_size=3,
    ),
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "instanceType": st.sampled_from(["rack*", *NAMES]),
                "zone": st.sampled_from(ZONES),
                "capacityType": st.sampled_from(["spot", "on-demand", "reserved"]),
            },
        ),
        max_size=2,
    ),
)
SCOPE = CatalogScope(
    node_class=node_class_object(
        capacityReservationSelectorTerms=[{"instanceMatchCriteria": "targeted"}]
    )
)


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "catalog": draw(catalogs),
        "cloud": draw(clouds),
        "overlays": tuple(draw(unique_overlays)),
        "instance_types": tuple(draw(unique_declarations)),
    }


@given(inputs())
def test_every_price_has_a_history_without_gaps(inputs: dict[str, Any]) -> None:
    made = build_catalogue(SCOPE, **inputs)
    for kind in made.types:
        for history in price_histories(made, kind.name):
            assert history.steps[-1].after == history.price
            for below, above in pairwise(history.steps):
                assert above.before == below.after
        priced = [each.price for each in made.offerings[kind.name] if each.price is not None]
        assert priced == [each.price for each in kind.offerings]


@given(inputs())
def test_no_price_is_negative_and_no_reserved_price_is_zero(inputs: dict[str, Any]) -> None:
    made = build_catalogue(SCOPE, **inputs)
    ours = {each.reservation.id for each in made.reservations}
    for kind in made.types:
        for offering in kind.offerings:
            assert offering.price >= 0
            assert offering.price > 0 or offering.reservation_id not in ours


@given(inputs(), st.randoms())
def test_the_order_of_the_objects_changes_nothing(inputs: dict[str, Any], random: Any) -> None:
    before = build_catalogue(SCOPE, **inputs)
    for kind in ("overlays", "instance_types"):
        inputs[kind] = tuple(random.sample(inputs[kind], len(inputs[kind])))
    assert build_catalogue(SCOPE, **inputs).types == before.types


@given(inputs())
def test_a_catalogue_with_all_layers_can_be_written_and_read(inputs: dict[str, Any]) -> None:
    once = format_catalog("dc-1", build_catalogue(SCOPE, **inputs).types)
    read = msgspec.json.decode(once, type=Catalog)
    assert format_catalog("dc-1", build_catalogue(catalog=read).types) == once


@given(inputs())
def test_a_reservation_is_one_offering_with_its_own_count(inputs: dict[str, Any]) -> None:
    made = build_catalogue(SCOPE, **inputs)
    clouds_own = {each.id for each in inputs["cloud"].spec.capacityReservations}
    offered = {
        each.reservation.id: each
        for each in made.reservations
        if each.standing is ReservationStanding.OFFERED and each.reservation.id in clouds_own
    }
    for identity, each in offered.items():
        found = _offered(made, identity)
        assert len(found) == 1
        assert found[0].available in (0, each.available)


def _offered(made: NodeClassCatalog, identity: str) -> list[Any]:
    every = [offering for kind in made.types for offering in kind.offerings]
    return [offering for offering in every if offering.reservation_id == identity]


@given(inputs())
def test_unavailability_changes_only_counts(inputs: dict[str, Any]) -> None:
    full = inputs | {
        "cloud": msgspec.structs.replace(
            inputs["cloud"], spec=msgspec.structs.replace(inputs["cloud"].spec, unavailable=None)
        )
    }
    unavailable = inputs["cloud"].spec.unavailable or ()
    stated = (
        offering for kind in inputs["catalog"].instanceTypes for offering in kind.offerings or ()
    )
    zones = {each.labels[ZONE] for each in stated if ZONE in (each.labels or {})}
    for short, whole in zip(
        build_catalogue(SCOPE, **inputs).types, build_catalogue(SCOPE, **full).types, strict=True
    ):
        assert short.capacity == whole.capacity
        for zone, capacity_type in product(zones, ("spot", "on-demand", "reserved")):
            is_short = any(
                fnmatchcase(short.name, entry.instanceType or "*")
                and entry.zone in (None, zone)
                and entry.capacityType in (None, capacity_type)
                for entry in unavailable
            )
            expected = _offers(whole, zone, capacity_type)
            found = _offers(short, zone, capacity_type)
            assert found == [(*each, 0 if is_short else count) for *each, count in expected]


def _offers(
    kind: InstanceType, zone: str, capacity_type: str
) -> list[tuple[float, str | None, int]]:
    """Price, reservation and count of all that is offered as such."""
    wanted = Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: capacity_type})
    return sorted(
        (each.price, each.reservation_id, each.available)
        for each in kind.offerings
        if CAPACITY_TYPE in each.requirements and each.requirements.is_compatible(wanted, {*wanted})
    )


terms = st.fixed_dictionaries(
    {},
    optional={
        "ownerID": st.sampled_from(["111122223333", "444455556666"]),
        "tags": st.dictionaries(
            st.sampled_from(["team", "stage"]), st.sampled_from(["web", "*"]), min_size=1
        ),
        "instanceMatchCriteria": st.sampled_from(["open", "targeted"]),
        "instanceType": st.sampled_from(["c5.large", "m5.large"]),
        "availabilityZone": st.sampled_from(["us-west-2a", "us-west-2b"]),
    },
) | st.fixed_dictionaries({"id": st.sampled_from(["cr-1", "cr-2"])})
described = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["cr-1", "cr-2", "cr-3"]),
        "instanceType": st.sampled_from(["c5.large", "m5.large"]),
        "availabilityZone": st.sampled_from(["us-west-2a", "us-west-2b"]),
        "total": st.just(1),
    },
    optional={
        "ownerID": st.sampled_from(["111122223333", "444455556666"]),
        "tags": st.dictionaries(st.sampled_from(["team", "stage"]), st.sampled_from(["web", "db"])),
        "instanceMatchCriteria": st.sampled_from(["open", "targeted"]),
    },
)


@given(st.lists(terms, max_size=3), described)
def test_ec2_requests_return_exactly_what_the_terms_match(
    written: list[dict[str, Any]], stated: dict[str, Any]
) -> None:
    asked = [msgspec.convert(each, CapacityReservationSelectorTerm) for each in written]
    reservation = msgspec.convert(stated, CloudReservation)
    found = any(_answers(request, reservation) for request in describe_reservation_requests(asked))
    assert found is any(matches_reservation_term(term, reservation) for term in asked)


def _answers(request: dict[str, Any], reservation: CloudReservation) -> bool:
    """Whether EC2 would list the reservation: every filter must hold."""
    tags = reservation.tags or {}
    facts: dict[str, Any] = {
        "state": reservation.state,
        "owner-id": reservation.ownerID,
        "instance-match-criteria": reservation.instanceMatchCriteria,
        "instance-type": reservation.instanceType,
        "availability-zone": reservation.availabilityZone,
        **{f"tag:{key}": value for key, value in tags.items()},
    }
    if reservation.id not in request.get("CapacityReservationIds", [reservation.id]):
        return False
    return all(
        each["Values"][0] in tags
        if each["Name"] == "tag-key"
        else facts.get(each["Name"]) in each["Values"]
        for each in request["Filters"]
    )


declared_labels = st.fixed_dictionaries(
    {"karpenter.sh/price": money},
    optional={
        CAPACITY_TYPE: st.sampled_from(["on-demand", "spot"]),
        ZONE: st.sampled_from(["us-west-2a", "us-west-2c", "us-west-2z"]),
        "topology.k8s.aws/zone-id": st.sampled_from(["usw2-az1", "usw2-az2", "usw2-az9"]),
        "kubernetes.io/os": st.sampled_from(["linux", "windows"]),
        "kubernetes.io/arch": st.sampled_from(["amd64", "arm64"]),
        "example.com/team": st.sampled_from(["a", "b"]),
    },
)


@given(
    st.lists(declared_labels, max_size=5),
    st.sampled_from(["al2023@latest", "bottlerocket@latest", "windows2022@latest"]),
)
@settings(max_examples=50, deadline=None)
def test_every_offering_can_be_that_of_a_node_of_its_type_and_class(
    offerings: list[dict[str, Any]], alias: str
) -> None:
    made = build_catalogue(
        CatalogScope(node_class=node_class_object(amiSelectorTerms=[{"alias": alias}])),
        cloud=cloud_object(instanceTypes=["c5.large", "m6g.large"], zones=["us-west-2a"]),
        instance_types=tuple(
            instance_type_object(name, offerings=offerings) for name in ("c5.large", "m6g.large")
        ),
    )
    for kind in made.types:
        for offering in kind.offerings:
            labels = offering.requirements
            assert labels.allowed(ZONE).admits("us-west-2a")
            assert labels.allowed("topology.k8s.aws/zone-id").admits("usw2-az1")
            assert all(
                labels[key].allowed.intersects(kind.requirements[key].allowed)
                for key in labels.keys() & kind.requirements.keys()
            )
        said = {id(each): each for each in made.offerings[kind.name] if not each.is_excluded}
        assert len(said) == len(kind.offerings)


@given(resources, resources, resources)
@settings(deadline=None)
def test_stated_allocatable_is_what_pods_get(
    stated: dict[str, Any], overhead: dict[str, Any], capacity: dict[str, Any]
) -> None:
    rack = {"name": "rack.large", "capacity": capacity, "overhead": overhead}
    item = instance_type_object("rack.large", allocatable=stated)
    made = build_catalogue(catalog=catalog_object(rack), instance_types=(item,))
    kind = made.by_name["rack.large"]
    only = instance_type_object("rack.large", resources=stated)
    wanted = build_catalogue(
        catalog=catalog_object({**rack, "capacity": {}, "overhead": {}}), instance_types=(only,)
    ).by_name["rack.large"]
    assert {name: kind.allocatable[name] for name in stated} == {
        name: wanted.capacity[name] for name in stated
    }
    assert all(kind.capacity[name] >= kind.allocatable[name] for name in stated)
    assert all(kind.overhead.get(name, 0) >= 0 for name in stated)
