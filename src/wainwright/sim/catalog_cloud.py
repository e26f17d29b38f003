"""What the emulated EC2 sells where a Catalog is given: its types, at its prices.

The Cloud that is made here is no detour around the catalogue's sources: a simulation is used
instead of an account, and a Cloud is how one is described (docs/adr/0005-ec2-emulator.md).
"""

from collections.abc import Iterator

import msgspec

from wainwright.api.catalog_documents import Catalog, Cloud, CloudPrice
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, SPOT, ZONE


def cloud_of_catalog(catalog: Catalog, cloud: Cloud) -> tuple[Cloud, list[str]]:
    """The Cloud with the types and prices of the Catalog, and what is not taken from it."""
    known = EmulatedAwsAccount.known_instance_types()
    unknown = [each.name for each in catalog.instanceTypes if each.name not in known]
    warnings = [
        "of the Catalog the emulated EC2 has the types and their prices; capacity and labels are "
        "those of EC2"
    ]
    if unknown:
        warnings.insert(
            0, f"the emulated EC2 does not sell {', '.join(unknown)}: it has only types of EC2"
        )
    spec = msgspec.structs.replace(
        cloud.spec,
        instanceTypes=[each.name for each in catalog.instanceTypes if each.name in known],
        prices=[*_catalog_prices(catalog), *(cloud.spec.prices or ())],
    )
    return msgspec.structs.replace(cloud, spec=spec), warnings


def _catalog_prices(catalog: Catalog) -> Iterator[CloudPrice]:
    for each in catalog.instanceTypes:
        for offering in each.offerings or ():
            capacity_type = offering.labels.get(CAPACITY_TYPE, ON_DEMAND)
            if capacity_type in (ON_DEMAND, SPOT):
                yield CloudPrice(
                    instanceType=each.name,
                    capacityType=capacity_type,
                    price=offering.price,
                    zone=offering.labels.get(ZONE),
                )
