"""Doubts about pools: requirements that are legal and that no instance type can meet."""

from collections.abc import Iterator

from wainwright.model.index import TypeIndex
from wainwright.model.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVED
from wainwright.model.pool import Pool
from wainwright.model.values import Operator
from wainwright.offline import Prepared
from wainwright.report.slots import no_slots

MEANT = (
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-size",
    INSTANCE_TYPE,
)
"""Labels that people mix up, in the order of likelihood."""


def doubts(prepared: Prepared) -> Iterator[str]:
    """One sentence for each value that no type has, and each minValues that nothing counts for."""
    for pool in sorted(prepared.snapshot.pools, key=lambda each: each.name):
        yield from _doubts(pool, prepared)


def _doubts(pool: Pool, prepared: Prepared) -> Iterator[str]:
    index = prepared.built[pool.name].index
    for key, requirement in pool.requirements.items():
        known = _values(index, key)
        if requirement.min_values is not None and not known:
            yield (
                f"NodePool {pool.name}: no instance type has the label {key}, so that its "
                "minValues cannot be met"
            )
        if requirement.allowed.operator is Operator.IN and known:
            for value in sorted(requirement.allowed.values - known):
                missing = f"no type has {key} {value}{_meant(index, key, value)}"
                if (key, value) == (CAPACITY_TYPE, RESERVED):
                    missing = f"there is no reserved capacity: {_no_slots(pool, prepared)}"
                yield f"NodePool {pool.name}: {missing}"


def _no_slots(pool: Pool, prepared: Prepared) -> str:
    if not prepared.conditions.gates.capacity_reservations:
        return "the feature gate CapacityReservations is off"
    return no_slots(prepared.built[pool.name].reservations)


def _values(index: TypeIndex, key: str) -> set[str]:
    every_market = (1 << len(index.markets)) - 1
    return set(index.values_left(key, index.everything, every_market))


def _meant(index: TypeIndex, key: str, value: str) -> str:
    for other in MEANT:
        if other != key and value in _values(index, other):
            return f"; did you mean {other.rpartition('/')[2]}?"
    return ""
