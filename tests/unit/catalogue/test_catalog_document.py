"""The Catalog kind: what is printed, and that it reads as it was."""

import json

import msgspec
from tests.support.catalogue_builders import build_catalogue
from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.api.catalog_documents import Catalog
from wainwright.catalogue.catalog_document import format_catalog


def reread(text: str) -> str:
    made = build_catalogue(catalog=msgspec.json.decode(text, type=Catalog))
    return format_catalog(made.region, made.types)


def test_a_catalogue_without_types_is_a_valid_catalog() -> None:
    assert json.loads(format_catalog("dc-1", [])) == {
        "apiVersion": "wainwright.dev/v1alpha1",
        "kind": "Catalog",
        "region": "dc-1",
        "instanceTypes": [],
    }


def test_types_are_sorted_and_quantities_canonical() -> None:
    small = instance_type(name="b", capacity={"memory": 2 * GIB, "cpu": 1500}, overhead={"cpu": 80})
    found = json.loads(format_catalog("dc-1", [small, instance_type(name="a")]))["instanceTypes"]
    assert [each["name"] for each in found] == ["a", "b"]
    assert found[1]["capacity"] == {"cpu": "1500m", "memory": "2Gi"}
    assert found[1]["allocatable"] == {"cpu": "1420m", "memory": "2Gi"}


def test_prices_keep_all_digits() -> None:
    cheap = instance_type(offerings=(offering(price=0.085 / (407.68 / 0.0015) / 1e6),))
    text = format_catalog("dc-1", [cheap])
    assert '"price": 3.1274529042386184e-13' in text
    assert reread(text) == text


def test_requirements_of_every_operator_survive() -> None:
    asked = (
        label_requirement("a", "In", "x", "y")
        .narrow(label_requirement("b", "Exists"))
        .narrow(label_requirement("c", "NotIn", "z"))
        .narrow(label_requirement("d", "Gte", "4"))
        .narrow(label_requirement("d", "Lte", "8"))
        .narrow(label_requirement("e", "DoesNotExist"))
    )
    text = format_catalog("dc-1", [instance_type(requirements=asked)])
    assert reread(text) == text


def test_allocatable_is_capacity_less_overhead_even_with_huge_pages() -> None:
    pages = instance_type(capacity={"cpu": 1000, "memory": 4 * GIB, "hugepages-2Mi": GIB})
    text = format_catalog("dc-1", [pages])
    assert json.loads(text)["instanceTypes"][0]["allocatable"]["memory"] == "4Gi"
    assert reread(text) == text


def test_negative_allocatable_survives() -> None:
    tiny = instance_type(capacity={"memory": 100}, overhead={"memory": 300})
    text = format_catalog("dc-1", [tiny])
    assert '"allocatable": {"memory": "-200"}' in text
    assert reread(text) == text
