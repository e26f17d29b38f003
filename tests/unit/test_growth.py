"""Rows of `make bench ARGS=growth` that once took minutes: the largest size within the limit."""

import pytest
from benchmarks.growth import LIMIT_MEGABYTES, LIMIT_SECONDS, ROWS, measure_apart

QUICK = (
    "spreads that count every pod",
    "faulty objects in a stream of JSON",
    "one pod with unknown labels",
    "pods that fill a node, --packing cost",
    "NodePools with 100 requirements, 100 labels",
    "unknown instance types of a Cloud",
    "unknown instance types, one for each pod",
)


@pytest.mark.parametrize("name", QUICK)
def test_no_modest_file_takes_long(name: str) -> None:
    seconds, megabytes = measure_apart(name, ROWS[name].sizes[-1])
    assert seconds < LIMIT_SECONDS
    assert megabytes < LIMIT_MEGABYTES
