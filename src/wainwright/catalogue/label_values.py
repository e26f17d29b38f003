"""The values that nodes of AWS can have of a well-known label, in any region."""

from functools import cache

from wainwright.catalogue.instancetypes.instance_type_info import built_in_instance_types
from wainwright.catalogue.instancetypes.type_labels import size_labels
from wainwright.catalogue.regions import load_region_table, region_names
from wainwright.model.labels import (
    AUTO_MODE_LABELS,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INTEGER_LABELS,
    REGION,
    ZONE,
    ZONE_ID,
)


def known_label_values(key: str) -> frozenset[str]:
    """Empty for a label that has no names to choose from, such as a number."""
    if key in INTEGER_LABELS:
        return frozenset()
    return _values_by_label().get(key, frozenset())


@cache
def _values_by_label() -> dict[str, frozenset[str]]:
    """Made once, and only where a label is mentioned that has such values."""
    found: dict[str, set[str]] = {INSTANCE_FAMILY: set(), INSTANCE_CATEGORY: set()}
    for info in built_in_instance_types().values():
        found[INSTANCE_FAMILY].add(info.family)
        found[INSTANCE_CATEGORY].add(info.category or "")
        for key, values in size_labels(info).items():
            found.setdefault(key, set()).update(values)
    rows = load_region_table().regions.values()
    found |= {
        REGION: {*region_names()},
        ZONE: {zone for row in rows for zone in row.zones},
        ZONE_ID: {zone_id for row in rows for zone_id in row.zones.values()},
    }
    renamed = {AUTO_MODE_LABELS[key]: found[key] for key in found if key in AUTO_MODE_LABELS}
    return {key: frozenset(values) for key, values in (found | renamed).items()}
