"""Fixes: they help the pod for which they were tried, and say so where others fail like it."""

from msgspec.structs import replace
from tests.support.model import instance_type

from wainwright.core.plan import plan
from wainwright.model.index import TypeIndex
from wainwright.model.plan import Plan, Unschedulable
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.snapshot import Snapshot
from wainwright.model.suggestion import RaiseLimit
from wainwright.report import words

CATALOGS = {"web": TypeIndex([instance_type()])}
FULL = Pool(name="web", limits={"cpu": 2000})


def made(pool: Pool, count: int) -> Plan:
    """So many pods, of which a node holds one."""
    pods = [Pod(namespace="d", name=str(number), requests={"cpu": 1500}) for number in range(count)]
    return plan(Snapshot(pods=tuple(pods), pools=(pool,)), CATALOGS)


def only_group(found: Plan) -> Unschedulable:
    [group] = found.unschedulable
    return group


def test_a_limit_is_raised_for_one_more_node() -> None:
    group = only_group(made(FULL, 2))
    assert isinstance(group.suggestion, RaiseLimit)
    raised = replace(FULL, limits={"cpu": group.suggestion.to})
    assert made(raised, 2).unschedulable == ()
    assert words.suggestion(group.suggestion, len(group.pods)) == (
        "raise the limit of pool web to 4 instead of 2 cpu"
    )


def test_what_helps_one_of_several_says_that_it_was_tried_for_one() -> None:
    group = only_group(made(FULL, 4))
    assert isinstance(group.suggestion, RaiseLimit)
    raised = replace(FULL, limits={"cpu": group.suggestion.to})
    assert len(only_group(made(raised, 4)).pods) == len(group.pods) - 1 == 2
    assert words.suggestion(group.suggestion, len(group.pods)) == (
        "raise the limit of pool web to 4 instead of 2 cpu (tried for one of these 3 pods)"
    )
