"""Quantities side by side are in one unit, and stay apart."""

import pytest

from wainwright.report.quantities import alike

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("resource", "amounts", "told"),
    [
        ("memory", (64 * GIB, 14162 * MIB), ("64Gi", "13.8Gi")),
        ("memory", (20 * GIB, 16 * GIB), ("20Gi", "16Gi")),
        ("memory", (3200 * MIB, 3114 * MIB), ("3200Mi", "3114Mi")),
        ("memory", (14 * GIB, 14330 * MIB), ("14Gi", "13.99Gi")),
        ("memory", (14 * GIB, 14 * GIB - 1), ("14Gi", str(14 * GIB - 1))),
        ("memory", (GIB, 0), ("1Gi", "0")),
        ("memory", (5 * GIB, 3 * GIB, 512 * MIB), ("5Gi", "3Gi", "0.5Gi")),
        ("cpu", (3000, 1930), ("3", "1930m")),
        ("nvidia.com/gpu", (8, 4), ("8", "4")),
    ],
)
def test_one_unit_for_all(resource: str, amounts: tuple[int, ...], told: tuple[str, ...]) -> None:
    assert alike(resource, *amounts) == told
