"""Rows of `make bench ARGS=growth` that once took minutes or gigabytes: the largest size within the
limit, or calls of functions, which no other process changes.
"""

import pytest
from benchmarks.growth import (
    LIMIT_MEGABYTES,
    LIMIT_SECONDS,
    ROWS,
    count_calls,
    measure_apart,
    print_table,
)

QUICK = (
    "spreads that count every pod",
    "faulty objects in a stream of JSON",
    "one pod with unknown labels",
    "pods that fill a node, --packing cost",
    "NodePools with 100 requirements, 100 labels",
    "unknown instance types of a Cloud",
    "unknown instance types, one for each pod",
)
SMALL = {
    "limited NodePools, 2 nodes, consolidate": (36, 72),
    "nodes with a PDB each, consolidate": (240, 480),
    "PDBs of the same pods, simulate": (200, 400),
    "required spreads of one pod": (300, 600),
    "preferred spreads of one pod": (400, 800),
    "spreads of one pod, and as many nodes": (100, 200),
    "preferred spreads of a pod, consolidate": (100, 200),
}
"""Two sizes, one twice the other, at which what grows with the square is most of the work."""
MOST_PER_DOUBLING = 2.4


@pytest.mark.parametrize("name", QUICK)
def test_no_modest_file_takes_long(name: str) -> None:
    seconds, megabytes = measure_apart(name, ROWS[name].sizes[-1])
    assert seconds < LIMIT_SECONDS
    assert megabytes < LIMIT_MEGABYTES


@pytest.mark.parametrize("name", SMALL)
def test_twice_the_input_is_about_twice_the_work(name: str) -> None:
    once, twice = (count_calls(name, size) for size in SMALL[name])
    assert twice < MOST_PER_DOUBLING * once


def test_simulated_removals_take_no_memory_that_grows_with_their_number() -> None:
    """Each simulation that was not freed had a copy of every group: 236 MB."""
    _, megabytes = measure_apart("nodes under broad spreads, consolidate", 500)
    assert megabytes < LIMIT_MEGABYTES / 4


def test_pods_that_keep_apart_take_no_memory_for_each_pair_of_them() -> None:
    """Every group had a count for every node, and every pod the number of each: 224 MB."""
    _, megabytes = measure_apart("pods apart from all others", 1000)
    assert megabytes < LIMIT_MEGABYTES / 4


@pytest.mark.parametrize(("megabytes", "is_within"), [(LIMIT_MEGABYTES, True), (1, False)])
def test_the_table_says_whether_a_row_is_over_its_limits(megabytes: int, is_within: bool) -> None:
    rows = {"faulty objects in a stream of JSON": (1, 2)}
    assert print_table(rows, LIMIT_SECONDS, megabytes) is is_within
