"""Prices, and quantities side by side in one unit."""

import pytest

from wainwright.messages.formatting import (
    format_cost,
    format_hourly,
    format_in_one_unit,
    format_monthly,
)


def test_the_cost_line_has_its_settled_form() -> None:
    assert format_cost(3, 0.584) == "3 nodes · $0.584/h · $426/month"
    assert format_cost(1, 0.001) == "1 node · $0.001/h · $0.73/month"


def test_fees_are_shown_apart_and_counted_in_the_month() -> None:
    assert format_cost(2, 1.0, 0.1) == "2 nodes · $1.000/h · $803/month · fees $0.100/h"


def test_reserved_capacity_is_next_to_nothing_but_not_free() -> None:
    assert format_hourly(5e-13) == "≈$0/h"
    assert format_hourly(0.0) == "$0.000/h"
    assert format_monthly(0.0) == "$0.00/month"


MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("resource", "amounts", "expected"),
    [
        ("memory", (64 * GIB, 14162 * MIB), ("64Gi", "13.8Gi")),
        ("memory", (20 * GIB, 16 * GIB), ("20Gi", "16Gi")),
        ("memory", (3200 * MIB, 3114 * MIB), ("3200Mi", "3114Mi")),
        ("memory", (14 * GIB, 14330 * MIB), ("14Gi", "13.99Gi")),
        ("memory", (14 * GIB, 14 * GIB - 1), ("14Gi", str(14 * GIB - 1))),
        ("memory", (GIB, 0), ("1Gi", "0")),
        ("memory", (5 * GIB, 3 * GIB, 512 * MIB), ("5Gi", "3Gi", "0.5Gi")),
        ("cpu", (3000, 1930), ("3", "1.93")),
        ("nvidia.com/gpu", (8, 4), ("8", "4")),
    ],
)
def test_one_unit_for_all(
    resource: str, amounts: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    assert format_in_one_unit(resource, *amounts) == expected
