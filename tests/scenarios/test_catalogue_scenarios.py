"""Scenarios of the catalog, one file each, named after the item of the specification."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from wainwright.api.quantity import Quantity
from wainwright.api.wire import to_manifest
from wainwright.catalogue.class_catalog import NodeClassCatalog
from wainwright.catalogue.instancetypes.node_class_settings import (
    CatalogOptions,
    EvictionThreshold,
    parse_node_class,
)
from wainwright.catalogue.offerings.capacity_reservations import (
    describe_reservation_requests,
    reservation_status,
)
from wainwright.catalogue.queries import TypeFilter, list_instance_types, price_histories
from wainwright.cli.catalog import pool_requirements
from wainwright.cli.catalog_input import CatalogArguments, CatalogInput
from wainwright.manifests.problems import InvalidInput
from wainwright.model.instance_type import InstanceType, Offering
from wainwright.model.labels import CAPACITY_TYPE, ZONE, ZONE_ID
from wainwright.model.resources import format_quantity

STORIES = sorted((Path(__file__).parent / "catalogue").glob("*.yaml"))


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a story; a key that nobody reads would be an expectation that nobody checks."""


class Given(Part, frozen=True, kw_only=True):
    manifests: list[dict[str, Any]]
    now: str = "2026-01-01T00:00:00Z"
    gates: list[str] = []
    nodepool: str | None = None
    nodeclass: str | None = None
    region: str | None = None
    reserved_enis: int = 0
    vm_memory_overhead_percent: float = 7.5


class ExpectedType(Part, frozen=True, kw_only=True):
    """What is not said is not looked at, but a list of offerings is the whole list."""

    capacity: dict[str, str] = {}
    overhead: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    labels: dict[str, str] = {}
    offerings: list[dict[str, Any]] | None = None
    layers: dict[str, list[str]] = {}
    """By capacity type and zone, the layers of the price with what each left."""


class Expect(Part, frozen=True, kw_only=True):
    refused: list[str] = []
    """Parts of what is said; nothing else may be expected then."""
    remarks: list[str] = []
    quiet: bool = False
    """Whether nothing at all may be remarked."""
    types: dict[str, ExpectedType] = {}
    only: list[str] | None = None
    """All types that there are."""
    launchable: dict[str, list[str]] | None = None
    """With a pool: all that it may launch, as capacity type and zone by type."""
    reserved_order: list[str] = []
    """Reservation ids by rising price; all of them below every other price, and above zero."""
    standings: dict[str, str] = {}
    status: list[dict[str, Any]] | None = None
    ec2_filters: list[dict[str, Any]] | None = None
    settings: dict[str, Any] = {}
    fees: float | None = None


class Story(Part, frozen=True, kw_only=True):
    why: str
    given: Given
    expect: Expect


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, tmp_path: Path) -> None:
    story = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Story)
    catalog_input = supplied(story.given, tmp_path, story.expect.refused)
    if catalog_input is None:
        return
    built = catalog_input.build_catalog()
    check_remarks(built, story.expect)
    check_types(built, story.expect)
    check_reservations(catalog_input, built, story.expect)
    check_rest(catalog_input, built, story.expect)


def supplied(given: Given, folder: Path, refused: list[str]) -> CatalogInput | None:
    """The input as a command reads it; None where it was refused as the story wants it."""
    file = folder / "given.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": given.manifests}, default=str)
    )
    arguments = CatalogArguments(
        files=(str(file),),
        now=given.now,
        gates=tuple(given.gates),
        nodepool=given.nodepool,
        nodeclass=given.nodeclass,
        region=given.region,
        reserved_enis=given.reserved_enis,
        vm_memory_overhead_percent=given.vm_memory_overhead_percent,
    )
    if not refused:
        return CatalogInput(arguments)
    with pytest.raises(InvalidInput) as caught:
        CatalogInput(arguments).build_catalog()
    said = [f"{each.path}: {each.message}" for each in caught.value.report.errors]
    for part in refused:
        assert any(part in each for each in said), said
    return None


def check_remarks(built: NodeClassCatalog, expect: Expect) -> None:
    said = [str(remark) for remark in built.diagnostics]
    for part in expect.remarks:
        assert any(part in each for each in said), said
    if expect.quiet:
        assert said == []


def check_types(built: NodeClassCatalog, expect: Expect) -> None:
    if expect.only is not None:
        assert sorted(built.by_name) == sorted(expect.only)
    for name, wanted in expect.types.items():
        kind = built.by_name[name]
        for what in ("capacity", "overhead", "allocatable"):
            part = getattr(wanted, what)
            assert {key: shown(kind, what).get(key) for key in part} == part
        labels = {key: kind.requirements.single_value(key) for key in wanted.labels}
        assert labels == wanted.labels
        if wanted.offerings is not None:
            check_offerings(kind.offerings, wanted.offerings)
        for key, layers in wanted.layers.items():
            assert layer_texts(built, name)[key] == layers


def shown(kind: InstanceType, what: str) -> dict[str, str]:
    return {key: format_quantity(key, amount) for key, amount in getattr(kind, what).items()}


def check_offerings(found: tuple[Offering, ...], wanted: list[dict[str, Any]]) -> None:
    """Each wanted one is the only one like it, and there are no more."""
    summaries = [offering_summary(offering) for offering in found]
    for each in wanted:
        like = [one for one in summaries if {key: one.get(key) for key in each} == each]
        assert len(like) == 1, (each, summaries)
    assert len(summaries) == len(wanted), summaries


def offering_summary(offering: Offering) -> dict[str, Any]:
    labels = {key: offering.requirements.single_value(key) for key in offering.requirements}
    return {
        "capacityType": labels.pop(CAPACITY_TYPE, None),
        "zone": labels.pop(ZONE, None),
        "zoneID": labels.pop(ZONE_ID, None),
        "price": offering.price,
        "available": offering.available,
        "reservation": offering.reservation_id,
        "labels": labels,
    }


def layer_texts(built: NodeClassCatalog, name: str) -> dict[str, list[str]]:
    return {
        f"{account.capacity_type} {zone}": [
            f"{step.layer.value} {step.after}" for step in account.steps
        ]
        for account in price_histories(built, name)
        for zone in account.zones or ("any",)
    }


def check_reservations(
    catalog_input: CatalogInput, built: NodeClassCatalog, expect: Expect
) -> None:
    standings = {each.reservation.id: each.standing.name for each in built.reservations}
    assert {key: standings.get(key) for key in expect.standings} == expect.standings
    every = [offering for kind in built.types for offering in kind.offerings]
    if expect.reserved_order:
        reserved = sorted(
            (each.price, each.reservation_id) for each in every if each.reservation_id
        )
        assert [identity for _, identity in reserved] == expect.reserved_order
        others = [each.price for each in every if not each.reservation_id and each.price]
        assert 0 < reserved[0][0] <= reserved[-1][0] < min(others)
    if expect.status is not None:
        assert [
            to_manifest(each) for each in reservation_status(built.reservations)
        ] == expect.status
    if expect.ec2_filters is not None:
        terms = catalog_input.scope.node_class.spec.capacityReservationSelectorTerms or []
        assert describe_reservation_requests(terms) == expect.ec2_filters


def check_rest(catalog_input: CatalogInput, built: NodeClassCatalog, expect: Expect) -> None:
    if expect.launchable is not None:
        assert catalog_input.pool is not None
        found = list_instance_types(
            built.index, TypeFilter(requirements=pool_requirements(catalog_input.pool))
        )
        assert {kind.name: launchable(kind) for kind in found} == expect.launchable
    if expect.fees is not None:
        assert built.fee == pytest.approx(expect.fees)
    if expect.settings:
        kubelet = parse_node_class(catalog_input.scope.node_class, CatalogOptions()).kubelet
        assert {key: as_text(getattr(kubelet, key)) for key in expect.settings} == expect.settings


def launchable(kind: InstanceType) -> list[str]:
    return sorted({f"{each.capacity_type} {each.zone or 'any'}" for each in kind.offerings})


def as_text(value: Any) -> Any:
    """Thresholds and quantities as text."""
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, EvictionThreshold):
        return f"{value.percent}%" if value.quantity is None else str(value.quantity)
    return str(value) if isinstance(value, Quantity) else value
