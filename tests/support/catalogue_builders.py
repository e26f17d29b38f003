"""Builders for the inputs of catalogs, with defaults for what a test does not need."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud, InstanceType, NodeOverlay
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.catalogue.class_catalog import NodeClassCatalog, build_catalog
from wainwright.catalogue.offerings.layered_offering import LayeredOffering
from wainwright.catalogue.region_catalog import CatalogInputs, CatalogScope, offline_inputs
from wainwright.manifests.cluster_manifests import default_node_class
from wainwright.model.instance_type import UNLIMITED
from wainwright.model.instance_type import InstanceType as ModelInstanceType
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, ZONE
from wainwright.model.requirements import Requirements

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def node_class_object(*, name: str = "default", **spec: Any) -> EC2NodeClass:
    """A default class with further fields in its spec."""
    plain = msgspec.to_builtins(default_node_class(name))
    annotations = spec.pop("annotations", None)
    plain["spec"] |= spec
    plain["metadata"]["annotations"] = annotations
    return msgspec.convert(plain, EC2NodeClass)


def cloud_object(**spec: Any) -> Cloud:
    stated = {"region": "us-west-2", **spec}
    return msgspec.convert({"metadata": {"name": "test"}, "spec": stated}, Cloud)


def catalog_object(*types: Mapping[str, Any], region: str = "dc-1") -> Catalog:
    return msgspec.convert({"region": region, "instanceTypes": list(types)}, Catalog)


def instance_type_object(name: str, **spec: Any) -> InstanceType:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, InstanceType)


def overlay_object(
    name: str, *requirements: tuple[str, str, Sequence[str]], **spec: Any
) -> NodeOverlay:
    asked = [
        {"key": key, "operator": how, "values": list(values)} for key, how, values in requirements
    ]
    stated = {"requirements": asked, **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": stated}, NodeOverlay)


def layered_offering(
    *,
    zone: str | None = "zone-a",
    capacity_type: str | None = ON_DEMAND,
    price: float | None = 1.0,
    available: int = UNLIMITED,
    reservation_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> LayeredOffering:
    stated = {ZONE: zone, CAPACITY_TYPE: capacity_type, **(labels or {})}
    return LayeredOffering(
        requirements=Requirements.from_labels({k: v for k, v in stated.items() if v is not None}),
        price=price,
        available=available,
        reservation_id=reservation_id,
    )


def catalog_inputs(
    *,
    region: str | None = None,
    cloud: Cloud | None = None,
    catalog: Catalog | None = None,
    **layers: Any,
) -> CatalogInputs:
    """The inputs of offline catalogs, with the layers above the Cloud by name."""
    inputs = offline_inputs(now=NOW, region=region, cloud=cloud, catalog=catalog)
    return msgspec.structs.replace(inputs, **layers)


def build_catalogue(scope: CatalogScope | None = None, **supply: Any) -> NodeClassCatalog:
    """The catalog of a class, by default the default one."""
    return build_catalog(
        catalog_inputs(**supply), scope or CatalogScope(node_class=default_node_class())
    )


def as_stated(instance_type: ModelInstanceType) -> ModelInstanceType:
    """With prices that count as stated: a Catalog has no estimates."""
    offerings = tuple(
        msgspec.structs.replace(each, modelled=False) for each in instance_type.offerings
    )
    return msgspec.structs.replace(instance_type, offerings=offerings)
